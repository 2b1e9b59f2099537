"""Conjugate gradients and the Neumann series against their closed forms."""

from __future__ import annotations

import pytest
import torch

import fedsift as fs
from conftest import quadratic_case
from fedsift.hypergradient import CurvatureSettings, SolverState
from fedsift.hypergradient.series import Conjugate, Neumann, Series

D = 30


@pytest.fixture(scope="module")
def case():
    return quadratic_case(clients=3, length=D, outer_length=2, condition=50.0)


def found(estimator, case):
    return estimator.estimate(case.cohort, case.point, SolverState())[0]


def true_residual(case, v, damping=0.0):
    b = case.point.outer_gradient
    return float((case.mean.A @ v + damping * v - b).norm() / b.norm())


def test_conjugate_gradients_are_exact_after_as_many_products_as_unknowns(case):
    estimate = found(Series(fs.Identity(D), Conjugate(), D), case)
    torch.testing.assert_close(estimate.v, case.v, rtol=1e-8, atol=1e-8)


def test_conjugate_gradients_are_the_best_of_their_krylov_space(case):
    k, H, b = 6, case.mean.A, case.point.outer_gradient
    v = found(Series(fs.Identity(D), Conjugate(), k), case).v
    powers = [b]
    for _ in range(k - 1):
        powers.append(H @ powers[-1])
    basis = torch.linalg.qr(torch.stack(powers, dim=1)).Q
    best = basis @ torch.linalg.solve(basis.T @ H @ basis, basis.T @ b)
    torch.testing.assert_close(v, best, rtol=1e-6, atol=1e-8)


def test_the_neumann_series_is_the_sum_of_powers(case):
    step, k, H, b = 0.01, 7, case.mean.A, case.point.outer_gradient
    v = found(Series(fs.Identity(D), Neumann(step), k), case).v
    power, total = b.clone(), torch.zeros_like(b)
    for _ in range(k):
        total += step * power
        power = power - step * (H @ power)
    torch.testing.assert_close(v, total, rtol=1e-10, atol=1e-12)


def test_damping_is_the_servers(case):
    matrix = CurvatureSettings(damping=2.0)
    v = found(Series(fs.Identity(D), Conjugate(), D, matrix), case).v
    H = case.mean.A + 2.0 * torch.eye(D, dtype=torch.float64)
    expected = torch.linalg.solve(H, case.point.outer_gradient)
    torch.testing.assert_close(v, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    "compressor",
    [fs.Identity(D), fs.TopK(D, 8), fs.CountSketch(D, 5, 12, 3)],
    ids=["identity", "topk", "count-sketch"],
)
@pytest.mark.parametrize("rule", [Conjugate(), Neumann(0.02)], ids=["cg", "neumann"])
def test_nothing_is_worse_than_zero_and_the_residual_is_true(case, compressor, rule):
    estimate = found(Series(compressor, rule, 6), case)
    true = true_residual(case, estimate.v)
    assert true <= 1.0
    assert estimate.residual == pytest.approx(true, rel=0.2)


def test_negative_curvature_is_said(case):
    matrix = CurvatureSettings(damping=-1e3)
    estimate = found(Series(fs.Identity(D), Conjugate(), 3, matrix), case)
    assert not estimate.usable
    assert "curvature along v is negative" in estimate.advice


def test_every_product_is_one_exchange(case):
    before = case.federation.traffic.exchanges
    found(Series(fs.Identity(D), Conjugate(), 4), case)
    assert case.federation.traffic.exchanges - before == 4
