"""Corrected local steps end at the solution; plain ones, at unlike clients, do not."""

from __future__ import annotations

import pytest
import torch

import fedsift as fs
from conftest import quadratic_case
from fedsift.federation import LocalFederation
from fedsift.federation.drift import CorrectedFederation
from fedsift.messages import Request, scalars_of

MANY = {"local_steps": 10, "batch_size": 0, "inner_lr": 0.1, "progress": False}


def solved(case, **changes):
    start = {"y": case.point.y, "x": case.point.x}
    given = {**MANY, "rounds": 150, "outer_lr": 1.0, **changes}
    return fs.solve(case.problem, case.clients, **start, **given)


@pytest.fixture(scope="module")
def case():
    return quadratic_case(clients=3, length=8, outer_length=2, condition=10.0)


@pytest.mark.parametrize("method", ["single-loop", "cg"])
def test_the_fixed_point_is_the_solution(case, method):
    rounds = 60 if method == "cg" else 150
    x = case.problem.outer_solution(case.mean)
    plain = solved(case, method=method, rounds=rounds)
    corrected = solved(case, method=method, rounds=rounds, correct_drift=True)
    drift, rest = (float((found.x - x).norm()) for found in (plain, corrected))
    assert drift > 1e-3 * x.norm()
    assert rest < 0.05 * drift


def test_control_variates_are_the_gradients_at_the_solution(case):
    federation = LocalFederation.of(case.problem, case.clients)
    layer = CorrectedFederation(federation, None)
    y, local = case.point.y, fs.LocalSteps(5, 0.1, 0)
    for k in range(200):
        request = Request("train", k, {"y": y, "x": case.point.x}, scalars_of(local))
        replies = layer.ask(request, (0, 1, 2))
        shares = [c.num_samples / case.mean.num_samples for c in case.clients]
        y = y + sum(s * r.arrays["update"] for s, r in zip(shares, replies, strict=True))
    torch.testing.assert_close(y, case.problem.inner_solution(case.mean, case.point.x))
    for m, client in enumerate(case.clients):
        gradient = client.A @ y - (client.B @ case.point.x + client.c)
        torch.testing.assert_close(federation.state(m).control, gradient, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(layer.control, torch.zeros_like(y), rtol=0, atol=1e-7)


def test_a_resumed_solve_is_bit_equal(case, tmp_path):
    whole = solved(case, rounds=6, correct_drift=True)
    solved(case, rounds=3, correct_drift=True, out=tmp_path / "part")
    again = {"correct_drift": True, "out": tmp_path / "part", "resume": True}
    resumed = solved(case, rounds=6, **again)
    assert torch.equal(resumed.x, whole.x)
