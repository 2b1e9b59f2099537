"""The part on drift: the closed form against the iteration, and a correction that is none."""

import pytest
import torch

from fedsift.experiment.theory import drift
from fedsift.experiment.theory.drift import Size, limit_of
from fedsift.problem import mean_client, random_quadratic


def test_the_closed_form_is_the_fixed_point_of_local_steps():
    problem, clients = random_quadratic(clients=3, length=8, outer_length=2, seed=1)
    pooled, x = mean_client(clients), limit_of(problem, clients, 4)
    y = torch.zeros(8, dtype=torch.float64)
    for _ in range(400):
        ends = []
        for client in clients:
            own = y
            for _ in range(4):
                own = own - drift.GAMMA * (client.A @ own - client.B @ x - client.c)
            ends.append(client.num_samples / pooled.num_samples * own)
        y = torch.stack(ends).sum(0)
    left = problem.ridge * x + pooled.B.T @ torch.linalg.solve(pooled.A, y - problem.target)
    torch.testing.assert_close(left, torch.zeros_like(left), atol=1e-10, rtol=0)


def test_one_local_step_has_no_drift():
    problem, clients = random_quadratic(clients=3, length=8, outer_length=2, seed=1)
    expected = problem.outer_solution(mean_client(clients))
    torch.testing.assert_close(limit_of(problem, clients, 1), expected)


class NoCorrection:
    """Does nothing, where the correction is expected."""

    def __init__(self, algorithm):
        self.round = algorithm.round


@pytest.mark.parametrize(
    ("layer", "holds"), [(drift.WithoutDrift, True), (NoCorrection, False)], ids=["real", "none"]
)
def test_a_correction_that_is_none_is_rejected(monkeypatch, layer, holds):
    monkeypatch.setitem(drift.SIZES, "quick", Size(1, 40))
    monkeypatch.setattr(drift, "STEPS", (5,))
    plain, corrected = drift.measure("quick", layer)["checks"]
    assert plain["holds"] is True
    assert corrected["holds"] is holds
