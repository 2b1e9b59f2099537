"""A federation has the shape that is asked for, by dense algebra."""

import pytest
import torch

from fedsift.errors import InputError
from fedsift.problem import mean_client
from fedsift.problem.shaped_quadratic import Shape, shaped_quadratic

SHAPES = [
    Shape(length=40, condition=100.0),
    Shape(length=40, condition=100.0, stable_rank=3.0, clients=3, difference=0.8),
    Shape(length=40, condition=10.0, stable_rank=20.0, mixing=0.1, decay=1.0),
    Shape(length=40, condition=1e4, mixing=0.0, decay=1.5),
    Shape(length=40, condition=1.0),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_mean_has_the_spectrum(shape):
    _, clients = shaped_quadratic(shape, seed=3)
    values = torch.linalg.eigvalsh(mean_client(clients).A).flip(0)
    assert float(values[0]) == pytest.approx(shape.condition, rel=1e-8)
    assert float(values[-1]) == pytest.approx(1.0, rel=1e-8)
    if shape.stable_rank is not None:
        found = float(values.square().sum() / values[0] ** 2)
        assert found == pytest.approx(shape.stable_rank, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES[:4], ids=str)
def test_clients_are_positive_and_as_unlike_as_asked(shape):
    _, clients = shaped_quadratic(shape, seed=1)
    A = mean_client(clients).A
    L = torch.linalg.cholesky(A)
    apart = []
    for client in clients:
        assert float(torch.linalg.eigvalsh(client.A)[0]) > 0
        inside = torch.linalg.solve_triangular(L, client.A - A, upper=False)
        inside = torch.linalg.solve_triangular(L, inside.T, upper=False)
        apart.append(float(torch.linalg.matrix_norm(inside, 2)))
    assert max(apart) == pytest.approx(shape.difference, rel=1e-6)


def test_no_mixing_is_diagonal_and_decay_orders_the_target():
    problem, clients = shaped_quadratic(SHAPES[3])
    A = clients[0].A
    torch.testing.assert_close(A, torch.diag(A.diagonal()))
    expected = torch.arange(1, 41).double() ** -1.5
    torch.testing.assert_close(problem.target.abs().sort(descending=True).values, expected)


def test_a_stable_rank_that_cannot_be_is_refused():
    with pytest.raises(InputError, match=r"choose it between 1\.4 and"):
        shaped_quadratic(Shape(length=41, condition=10.0, stable_rank=1.2))
