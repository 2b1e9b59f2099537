"""Curvature operators on a convolutional net, against dense matrices in float64."""

import pytest
import torch
from torch.func import hessian as dense_hessian
from torch.func import jacrev

from fedsift.curvature import CURVATURES, gauss_newton, hessian, products
from fedsift.errors import InputError
from fedsift.problem import LossPair, hessian_product

TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def _dense_hessian(case):
    return dense_hessian(lambda y: case.problem.inner_loss(case.x, y, case.batch))(case.y)


def _dense_gauss_newton(case):
    problem, batch = case.problem, case.batch
    J = jacrev(lambda y: problem.outputs(y, batch))(case.y)
    p = problem.outputs(case.y, batch).softmax(dim=1)
    # The softmax's Hessian by hand: λ_j (diag(p) − p pᵀ) / N.
    Q = (torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)) * case.x[:, None, None] / len(batch)
    G = torch.einsum("nid,nij,nje->de", J, Q, J)
    return G + problem.l2 * torch.eye(len(case.y)).double()


def test_hessian_matches_dense(conv):
    operator = hessian(conv.problem, conv.x, conv.y, conv.batch)
    torch.testing.assert_close(operator.product(conv.v), _dense_hessian(conv) @ conv.v, **TIGHT)


def test_hessian_matches_the_plain_version(conv):
    operator = hessian(conv.problem, conv.x, conv.y, conv.batch)
    plain = hessian_product(conv.problem, conv.x, conv.y, conv.batch, conv.v)
    torch.testing.assert_close(operator.product(conv.v), plain, **TIGHT)


def test_gauss_newton_matches_dense(conv):
    operator = gauss_newton(conv.problem, conv.x, conv.y, conv.batch)
    dense = _dense_gauss_newton(conv)
    torch.testing.assert_close(operator.product(conv.v), dense @ conv.v, **TIGHT)


def test_gauss_newton_is_positive_where_the_hessian_is_not(conv):
    assert torch.linalg.eigvalsh(_dense_hessian(conv))[0] < 0
    operator = gauss_newton(conv.problem, conv.x, conv.y, conv.batch)
    matrix = products(operator, torch.eye(len(conv.y)).double())
    assert torch.linalg.eigvalsh(matrix)[0] > 0.9 * conv.problem.l2


@pytest.mark.parametrize("kind", CURVATURES)
def test_damping_adds_to_the_diagonal(conv, kind):
    plain, damped = (
        CURVATURES[kind](conv.problem, conv.x, conv.y, conv.batch, damping=d) for d in (0.0, 0.7)
    )
    difference = damped.product(conv.v) - plain.product(conv.v)
    torch.testing.assert_close(difference, 0.7 * conv.v, **TIGHT)


@pytest.mark.parametrize("kind", CURVATURES)
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_products_are_single_products(conv, kind, chunk):
    operator = CURVATURES[kind](conv.problem, conv.x, conv.y, conv.batch)
    columns = torch.stack([conv.v, conv.y, 2 * conv.v, conv.v.sin()], dim=1)
    expected = torch.stack([operator.product(c) for c in columns.T], dim=1)
    torch.testing.assert_close(products(operator, columns, chunk), expected, **TIGHT)


def test_gauss_newton_refuses_a_problem_without_outputs():
    pair = LossPair(lambda x, y, b: y @ y, lambda x, y, b: y @ y, start=torch.zeros(1))
    with pytest.raises(InputError, match="use curvature 'hessian'"):
        gauss_newton(pair, torch.zeros(1), torch.ones(2), None)
