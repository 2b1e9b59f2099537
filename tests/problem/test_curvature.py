"""Curvature operators on a convolutional net, against dense matrices in float64."""

import pytest
import torch
from torch.func import hessian as dense_hessian
from torch.func import jacrev

from fedsift.errors import InputError
from fedsift.problem import LossPair, hessian_product
from fedsift.problem.curvature import CURVATURES, output_hessian
from fedsift.problem.tangents import along, push

TIGHT = {"rtol": 1e-8, "atol": 1e-10}


def _dense_hessian(case):
    return dense_hessian(lambda y: case.problem.inner_loss(case.x, y, case.batch))(case.y)


def _dense_gauss_newton(case):
    problem, batch = case.problem, case.batch
    J = jacrev(lambda y: problem.outputs(y, batch))(case.y)
    p = problem.outputs(case.y, batch).softmax(dim=1)
    # The softmax's Hessian by hand: (λ_j + κ (1 − λ_j)) (diag(p) − p pᵀ) / N.
    mass = case.x + problem.bootstrap * (1 - case.x)
    Q = (torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)) * mass[:, None, None] / len(batch)
    G = torch.einsum("nid,nij,nje->de", J, Q, J)
    return G + problem.l2 * torch.eye(len(case.y)).double()


@pytest.fixture(scope="module")
def dense(conv):
    return {"hessian": _dense_hessian(conv), "gauss-newton": _dense_gauss_newton(conv)}


def _operator(case, kind, make, damping=0.0):
    return getattr(CURVATURES[kind], make)(case.problem, case.x, case.y, case.batch, damping)


every = [
    pytest.mark.parametrize("kind", CURVATURES),
    pytest.mark.parametrize("make", ["once", "repeated"]),
]


@every[0]
@every[1]
def test_products_match_the_dense_matrix(conv, dense, kind, make):
    operator = _operator(conv, kind, make)
    for v in (conv.v, 3 * conv.y):  # made once, applied twice
        torch.testing.assert_close(operator.product(v), dense[kind] @ v, **TIGHT)


@every[1]
def test_hessian_matches_the_plain_version(conv, make):
    plain = hessian_product(conv.problem, conv.x, conv.y, conv.batch, conv.v)
    torch.testing.assert_close(_operator(conv, "hessian", make).product(conv.v), plain, **TIGHT)


def test_gauss_newton_is_positive_where_the_hessian_is_not(conv, dense):
    assert torch.linalg.eigvalsh(dense["hessian"])[0] < 0
    operator = _operator(conv, "gauss-newton", "repeated")
    matrix = torch.stack([operator.product(e) for e in torch.eye(len(conv.y)).double()])
    assert torch.linalg.eigvalsh(matrix)[0] > 0.9 * conv.problem.l2


@every[0]
@every[1]
def test_damping_adds_to_the_diagonal(conv, kind, make):
    plain, damped = (_operator(conv, kind, make, damping=d) for d in (0.0, 0.7))
    difference = damped.product(conv.v) - plain.product(conv.v)
    torch.testing.assert_close(difference, 0.7 * conv.v, **TIGHT)


def test_one_pass_gives_outputs_and_their_derivative(conv):
    tangent = push(conv.problem, conv.y, conv.batch, conv.v)
    J = jacrev(lambda y: conv.problem.outputs(y, conv.batch))(conv.y)
    torch.testing.assert_close(tangent.outputs, conv.problem.outputs(conv.y, conv.batch))
    torch.testing.assert_close(tangent.along, J @ conv.v, **TIGHT)
    u = tangent.along.cos()
    torch.testing.assert_close(tangent.pull(u), torch.einsum("nid,ni->d", J, u), **TIGHT)
    assert not tangent.along.requires_grad


def test_a_tangent_without_a_graph_is_the_same(conv):
    kept, bare = (make(conv.problem, conv.y, conv.batch, conv.v) for make in (push, along))
    torch.testing.assert_close(bare.outputs, kept.outputs)
    torch.testing.assert_close(bare.along, kept.along, **TIGHT)
    with pytest.raises(NotImplementedError, match="use `push`"):
        bare.pull(bare.along)


def test_output_hessian_is_the_hessian_of_the_output_loss(conv):
    outputs = conv.problem.outputs(conv.y, conv.batch)
    Q = dense_hessian(lambda o: conv.problem.output_loss(conv.x, o, conv.batch))(outputs)
    u = outputs.sin()
    expected = torch.einsum("nimj,mj->ni", Q, u)
    torch.testing.assert_close(
        output_hessian(conv.problem, conv.x, outputs, conv.batch)(u), expected, **TIGHT
    )


def test_gauss_newton_refuses_a_problem_without_outputs():
    pair = LossPair(lambda x, y, b: y @ y, lambda x, y, b: y @ y, start=torch.zeros(1))
    with pytest.raises(InputError, match="use curvature 'hessian'"):
        CURVATURES["gauss-newton"].once(pair, torch.zeros(1), torch.ones(2), None, 0.0)
