"""Theorem 3's part: its constants against finite differences, its check against a wrong v."""

import pytest
import torch

from fedsift.experiment.theory import convergence
from fedsift.experiment.theory.convergence import Size, smoothness, value
from fedsift.experiment.theory.known import Known
from fedsift.problem import mean_client, random_quadratic


def problem_of(seed):
    problem, clients = random_quadratic(
        clients=3, length=20, outer_length=4, condition=4.0, ridge=0.5, seed=seed
    )
    return problem, mean_client(clients)


def test_the_hypergradient_and_its_smoothness_are_those_of_h():
    problem, pooled = problem_of(0)
    x = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = torch.func.jacrev(lambda at: problem.hypergradient(pooled, at))(x)
    assert smoothness(problem, pooled) == pytest.approx(float(torch.linalg.eigvalsh(found)[-1]))
    unit = torch.eye(4, dtype=torch.float64)[1]
    slope = (
        value(problem, pooled, x + 1e-5 * unit) - value(problem, pooled, x - 1e-5 * unit)
    ) / 2e-5
    assert slope == pytest.approx(float(problem.hypergradient(pooled, x)[1]), rel=1e-6)


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (0.02, False)], ids=["right", "wrong"])
def test_a_wrong_v_is_rejected(monkeypatch, factor, holds):
    monkeypatch.setitem(convergence.SIZES, "quick", Size(1, (64, 256)))

    def make(rounds, seed):
        return Known(
            mean_client(
                random_quadratic(
                    clients=3, length=20, outer_length=4, condition=4.0, ridge=0.5, seed=seed
                )[1]
            ).A
            / factor
        )

    found = convergence.measure("quick", {"known": (make, True)})
    assert found["checks"][0]["holds"] is holds
