"""The control: v = α ∇F, without an exchange for it."""

import torch

from fedsift.hypergradient import CurvatureSettings, Exact, SolverState
from fedsift.hypergradient.no_hessian import NoHessian


def test_it_asks_nobody(quadratic):
    estimate, _ = NoHessian(0.3).estimate(quadratic.cohort, quadratic.point, SolverState())
    torch.testing.assert_close(estimate.v, 0.3 * quadratic.point.outer_gradient)
    assert estimate.residual is None
    assert quadratic.federation.traffic.exchanges == 0


def test_its_residual_can_be_measured(quadratic):
    control = NoHessian(0.3, CurvatureSettings("hessian"), check_residual=True)
    estimate, _ = control.estimate(quadratic.cohort, quadratic.point, SolverState())
    b = quadratic.point.outer_gradient
    expected = (0.3 * quadratic.mean.A @ b - b).norm() / b.norm()
    torch.testing.assert_close(torch.tensor(estimate.residual).double(), expected)
    exact, _ = Exact().estimate(quadratic.cohort, quadratic.point, SolverState())
    assert exact.residual < estimate.residual
