"""The adviser: its numbers against dense algebra, its choice against all others."""

from __future__ import annotations

import pytest
import torch

import fedsift as fs
from conftest import quadratic_case
from fedsift.hypergradient import CurvatureSettings, SolverState
from fedsift.hypergradient.diagnosis import LIMIT, candidates, diagnose

MATRIX = CurvatureSettings()


def test_its_numbers_are_those_of_the_matrix():
    case = quadratic_case(clients=2, length=16, outer_length=1, condition=30.0)
    found = diagnose(case.cohort, case.point, MATRIX, goal=0.5)
    values = torch.linalg.eigvalsh(case.mean.A)  # 16 products see all of 16 dimensions
    assert found.largest == pytest.approx(float(values[-1]), rel=1e-6)
    assert found.smallest == pytest.approx(float(values[0]), rel=1e-6)
    frobenius = float(values.square().sum() / values[-1] ** 2)
    assert found.stable_rank == pytest.approx(frobenius, rel=0.6)  # four random probes
    product = case.mean.A @ case.point.outer_gradient
    assert found.top_share == pytest.approx(
        float(product.abs().max() ** 2 / product.square().sum()), rel=1e-9
    )


@pytest.mark.parametrize(("condition", "heavy"), [(30.0, None), (3.0, 6)], ids=["dense", "heavy"])
def test_its_choice_is_near_the_cheapest(condition, heavy):
    sizes = {"clients": 2, "length": 60, "outer_length": 1, "condition": condition}
    case = quadratic_case(**sizes, heavy=heavy)
    found = diagnose(case.cohort, case.point, MATRIX)
    assert found.tried
    assert found.tried[0].residual <= 0.1
    H, b = case.mean.A, case.point.outer_gradient
    step = 1.0 / found.largest
    cheapest = None
    for candidate in candidates(len(b), MATRIX, step, 0):
        for count in (*range(1, 9), 12, 16, LIMIT):
            before = case.federation.traffic
            estimate, _ = candidate.make(count).estimate(case.cohort, case.point, SolverState())
            used = case.federation.traffic - before
            true = float((H @ estimate.v - b).norm() / b.norm())
            if true <= 0.1:
                total = used.bytes_up + used.bytes_down
                cheapest = total if cheapest is None else min(cheapest, total)
                break
    assert cheapest is not None
    assert found.tried[0].bytes <= 1.5 * cheapest


def test_it_says_what_to_do():
    case = quadratic_case(clients=2, length=30, outer_length=1, condition=5.0)
    found = diagnose(case.cohort, case.point, MATRIX, reached=0.8)
    first = found.tried[0]
    assert f"use {first.method} with" in found.advice
    assert "residual of 0.8" in found.advice
    assert found.to_json()["tried"][0]["method"] == first.method
    assert found.cost > sum(one.bytes for one in found.tried)


def test_an_indefinite_matrix_is_named():
    case = quadratic_case(clients=2, length=20, outer_length=1, condition=5.0)
    found = diagnose(case.cohort, case.point, CurvatureSettings(damping=-2.0))
    assert "indefinite" in found.advice
    assert "gauss-newton" in found.advice


def test_a_goal_that_nothing_reaches_is_said():
    case = quadratic_case(clients=2, length=8, outer_length=1, condition=5.0)
    found = diagnose(case.cohort, case.point, MATRIX, goal=-1.0)
    assert found.tried == ()
    assert "raise the damping" in found.advice


def test_a_run_has_its_diagnosis():
    source = torch.Generator().manual_seed(0)
    inputs = torch.randn(60, 3, generator=source)
    labels = (inputs[:, 0] > 0).long()
    sites = [(inputs[:20], labels[:20]), (inputs[20:40], labels[20:40])]
    federation = fs.simulate(torch.nn.Linear(3, 2), sites, (inputs[40:], labels[40:]))
    plain = fs.fit(federation, "single-loop", rounds=2)
    assert plain.diagnosis is None
    result = fs.fit(federation, "single-loop", rounds=2, diagnose=True)
    assert result.diagnosis["reached"] == result.rounds[-1]["residual"]
    assert result.diagnosis["largest"] > result.rounds[-1]["damping"]
    torch.testing.assert_close(result.model.weight, plain.model.weight)
