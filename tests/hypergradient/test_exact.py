"""The reference solver, against closed forms."""

import pytest
import torch

from fedsift.hypergradient import CurvatureSettings, Exact, SolverState
from fedsift.hypergradient.exact import conjugate_gradients, solve_dense


@pytest.mark.parametrize("dense_up_to", [0, 200])
def test_both_ways_find_the_solution(quadratic, dense_up_to):
    solver = Exact(dense_up_to=dense_up_to)
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    torch.testing.assert_close(estimate.v, quadratic.v, rtol=1e-8, atol=1e-10)
    assert estimate.residual < 1e-9
    assert estimate.advice is None


@pytest.mark.parametrize(("dense_up_to", "exchanges"), [(40, 41), (39, None)])
def test_the_matrix_is_fetched_only_up_to_its_limit(quadratic, dense_up_to, exchanges):
    """40 columns and the residual; conjugate gradients stop by their tolerance."""
    before = quadratic.federation.traffic.exchanges
    solver = Exact(dense_up_to=dense_up_to, tolerance=1e-2)
    solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    asked = quadratic.federation.traffic.exchanges - before
    assert asked == exchanges if exchanges else asked < 40


def test_no_curvature_at_all_is_named():
    v, steps, advice = conjugate_gradients(torch.zeros_like, torch.ones(3).double(), 1e-10, 50)
    assert (v.tolist(), steps) == ([0.0] * 3, 0)
    assert "met curvature 0" in (advice or "")


def test_damping_is_part_of_the_system(quadratic):
    solver = Exact(CurvatureSettings(damping=1.5))
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    H = quadratic.mean.A + 1.5 * torch.eye(40).double()
    torch.testing.assert_close(estimate.v, torch.linalg.solve(H, quadratic.point.outer_gradient))


def test_an_indefinite_matrix_is_named():
    H = torch.diag(torch.tensor([1.0, -2.0, 3.0]).double())
    b = torch.tensor([0.1, 1.0, 0.1]).double()
    for solve in (solve_dense, lambda product, b: conjugate_gradients(product, b, 1e-10, 50)):
        _, _, advice = solve(lambda v: H @ v, b)
        assert "gauss-newton" in (advice or "")


def test_a_singular_matrix_gives_the_least_norm_solution_and_advice():
    H = torch.diag(torch.tensor([1.0, 0.0]).double())
    v, _, advice = solve_dense(lambda v: H @ v, torch.tensor([2.0, 0.0]).double())
    assert v.tolist() == [2.0, 0.0]
    assert "singular" in (advice or "")


@pytest.mark.parametrize(("largest", "singular"), [(1.0, False), (1e6, True)])
def test_an_eigenvalue_is_zero_beside_the_largest(largest, singular):
    """10⁻¹¹ is above rounding beside 1 and below it beside 10⁶: n ε = 4.4·10⁻¹⁶."""
    H = torch.diag(torch.tensor([largest, 1e-11]).double())
    _, _, advice = solve_dense(lambda v: H @ v, torch.ones(2).double())
    assert ("singular" in (advice or "")) is singular


def test_too_few_iterations_are_named():
    H = torch.diag(torch.logspace(0, 6, 30).double())
    _, steps, advice = conjugate_gradients(lambda v: H @ v, torch.ones(30).double(), 1e-12, 3)
    assert steps == 3
    assert "allow more iterations" in (advice or "")
