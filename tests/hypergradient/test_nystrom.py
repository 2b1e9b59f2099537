"""The Nyström estimate against dense algebra."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedsift.errors import ConfigError
from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, Point, SolverState
from fedsift.hypergradient.nystrom import NYSTROM, Nystrom, eigenpairs
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Cohort
from fedsift.problem.quadratic import Quadratic, QuadraticClient
from fedsift.randomness import generator

D, LARGE = 80, 4


def spiked() -> tuple[Tensor, Cohort, Point]:
    """A matrix with four large eigenvalues and all others 1, split over two clients."""
    source = generator(0, "spiked")
    Q = torch.linalg.qr(torch.randn(D, D, dtype=torch.float64, generator=source)).Q
    values = torch.ones(D, dtype=torch.float64)
    values[:LARGE] = torch.tensor([400.0, 300.0, 200.0, 100.0]).double()
    A = Q @ torch.diag(values) @ Q.T
    shift = torch.diag(torch.linspace(-0.3, 0.3, D).double())
    c = torch.zeros(D, dtype=torch.float64)
    B = torch.zeros(D, 1, dtype=torch.float64)
    clients = [QuadraticClient(A + s * shift, B, c, 10) for s in (1, -1)]
    target = torch.randn(D, dtype=torch.float64, generator=source)
    problem = Quadratic(target, 0.1, 1)
    federation = LocalFederation.of(problem, clients)
    y = torch.zeros(D, dtype=torch.float64)
    return A, Cohort(federation, (0, 1)), Point(y, -target, 0, torch.zeros(1).double())


def test_the_large_eigenvalues_are_found():
    A, _, _ = spiked()
    omega = torch.randn(D, 12, dtype=torch.float64, generator=generator(1, "omega"))
    U, values = eigenpairs(A @ omega, omega)
    true = torch.linalg.eigvalsh(A).flip(0)
    torch.testing.assert_close(values[:LARGE], true[:LARGE], rtol=0.15, atol=0)
    assert (values <= true[:12] * (1 + 1e-9)).all()  # Nyström never overestimates
    torch.testing.assert_close(U.T @ U, torch.eye(12, dtype=torch.float64))


def test_a_full_sketch_is_the_matrix():
    A, _, _ = spiked()
    omega = torch.randn(D, D, dtype=torch.float64, generator=generator(1, "omega"))
    U, values = eigenpairs(A @ omega, omega)
    torch.testing.assert_close(U @ torch.diag(values) @ U.T, A, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_it_solves_where_few_eigenvalues_are_large(damping):
    A, cohort, point = spiked()
    matrix = CurvatureSettings(damping=damping)
    estimate, _ = Nystrom(24, matrix).estimate(cohort, point, SolverState())
    v = torch.linalg.solve(A + damping * torch.eye(D, dtype=torch.float64), point.outer_gradient)
    assert (estimate.v - v).norm() < 0.2 * v.norm()
    control = point.outer_gradient / 400  # the longest step that is safe without the sketch
    assert (control - v).norm() > 0.9 * v.norm()


def test_the_residual_is_true_and_never_above_that_of_zero():
    A, cohort, point = spiked()
    for rank in (2, 8, 24):
        estimate, _ = Nystrom(rank).estimate(cohort, point, SolverState())
        b = point.outer_gradient
        true = float((A @ estimate.v - b).norm() / b.norm())
        assert true <= 1.0
        assert estimate.residual == pytest.approx(true, rel=0.2)


def test_two_exchanges_and_r_times_d_numbers():
    _, cohort, point = spiked()
    before = cohort.federation.traffic
    Nystrom(5).estimate(cohort, point, SolverState())
    traffic = cohort.federation.traffic - before
    assert traffic.exchanges == 2
    assert traffic.bytes_up > 2 * 5 * D * 8


def test_a_rank_above_the_parameters_is_refused():
    settings = Settings.of(NYSTROM.groups, {"rank": 9, "damping": 0.0})
    with pytest.raises(ConfigError, match="rank is 9 but there are 8 parameters"):
        NYSTROM.build(settings, BuildContext(8))
