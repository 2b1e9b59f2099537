"""Theorem 1's part: its path against dense algebra, its checks against broken versions."""

from dataclasses import replace

import pytest
import torch

from fedsift.compress import Identity, feedback_for
from fedsift.compress.error_feedback import ClientFeedback
from fedsift.experiment.theory import iterative
from fedsift.experiment.theory.case import Case
from fedsift.experiment.theory.iterative import MU, SHIFT, SYSTEMS, Size, averages, bound
from fedsift.hypergradient import Iterative, Theorem
from fedsift.problem.shaped_quadratic import Shape

SMALL = Size(1, (40, 160))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(iterative.SIZES, "quick", SMALL)
    monkeypatch.setattr(iterative, "COMPRESSORS", ("topk",))
    monkeypatch.setattr(iterative, "SYSTEMS", {"dense": SYSTEMS["dense"]})


def test_the_path_is_gradient_descent_and_its_mean_the_estimate():
    case = Case.of(Shape(length=30, condition=4.0), 0)
    size, steps = Size(1, (7, 20)), Theorem(MU, SHIFT)
    path = iterative._path(case, feedback_for(Identity(30)), size)
    v, total, weights = torch.zeros(30, dtype=torch.float64), 0.0, 0.0
    for i in range(20):
        torch.testing.assert_close(path[i], v)
        total, weights = total + (i + SHIFT) ** 2 * v, weights + (i + SHIFT) ** 2
        v = v - steps(i) * (case.matrix @ v - case.point.outer_gradient)
    mean = averages(path, size.iterations)[-1]
    torch.testing.assert_close(mean, total / weights)
    made = Iterative(feedback_for(Identity(30)), 20, steps, warm_start=False)
    torch.testing.assert_close(case.solved(made), mean)


def test_the_bound_falls_like_the_theorem_says():
    case = Case.of(Shape(length=10, condition=4.0), 0)
    path = [torch.zeros(10, dtype=torch.float64), case.v]
    far = (10**6, 10**7)
    first, last = bound(case, path, "gradient", 0.5, far)
    assert last / first == pytest.approx(0.1, rel=1e-2)  # C_3 (I + 2a) / I² is left
    G2 = max(
        float((c.A @ v - case.point.outer_gradient).square().sum())
        for c in case.clients
        for v in path
    )
    assert last == pytest.approx(12 * G2 / 1e7 / float(case.v.square().sum()), rel=1e-2)


def test_all_forms_hold_on_a_dense_system(small):
    found = iterative.measure("quick")["checks"]
    assert [check["holds"] for check in found] == [True] * 3


def test_steps_without_a_memory_are_rejected(small, monkeypatch):
    plain = ClientFeedback.client

    def forgetful(self, product, step, memory, *, fresh=True):
        return plain(self, product, step, None, fresh=fresh)

    monkeypatch.setattr(ClientFeedback, "client", forgetful)
    listing, gradient, _ = iterative.measure("quick")["checks"]
    assert listing["holds"] is False  # Top-k of Hv alone: v stalls far from v*
    assert gradient["claim"].endswith("Eq. 12, dense")


def test_a_system_that_is_not_compressed_is_rejected(small, monkeypatch):
    whole = {"dense": replace(SYSTEMS["dense"], k=100)}
    monkeypatch.setattr(iterative, "SYSTEMS", whole)
    found = iterative.measure("quick")
    assert found["series"][0]["apart"] < 1e-12
    assert found["checks"][0]["holds"] is False
