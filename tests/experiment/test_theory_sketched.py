"""Theorem 2's part: its errors against dense algebra, its checks against broken versions."""

import numpy as np
import pytest

from fedsift.experiment.theory import sketched
from fedsift.experiment.theory.sketched import Size, by_algorithm
from fedsift.hypergradient import NonIterative
from fedsift.problem.shaped_quadratic import Shape

SMALL = Size(3, (2, 4, 8))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(sketched.SIZES, "quick", SMALL)
    monkeypatch.setattr(sketched, "SYSTEMS", {"one": Shape(20, 3.0, stable_rank=6.0)})


def test_what_the_proof_allows_holds_and_the_floor_is_that_of_a_random_span(small):
    found = sketched.measure("quick")
    assert [check["holds"] for check in found["checks"][:2]] == [True, True]
    floor = found["series"][0]["floor"]
    assert floor[0] == pytest.approx(np.sqrt(1 - 2 / 20), abs=0.1)
    assert floor == sorted(floor, reverse=True)


def test_a_v_from_another_span_is_rejected(small):
    def other_seed(case, r1, r2, seed):
        return 0.3 * by_algorithm(case, r1, r2, seed) + 0.7 * case.v

    found = sketched.measure("quick", other_seed)["checks"]
    assert found[1]["holds"] is False  # nearer to v* than its span allows


def test_a_v_that_is_too_long_is_rejected(small, monkeypatch):
    monkeypatch.setitem(sketched.SIZES, "quick", Size(3, (8, 16)))

    def longer(case, r1, r2, seed):
        return 20.0 * NonIterative(r1, r2, seed=seed).solve(case.cohort, case.point).v

    found = sketched.measure("quick", longer)["checks"]
    assert found[0]["holds"] is False
