"""The largest curvature by Lanczos, against dense matrices in float64."""

import pytest
import torch
from torch import nn
from torch.func import hessian, jacrev

from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem import largest_curvature as module
from fedsift.problem.largest_curvature import lanczos, largest_curvature
from fedsift.problem.linear_head import LinearHead, step_size
from fedsift.randomness import generator


def found(problem, y, batch):
    return largest_curvature(problem, y, batch, generator(3, "curvature"))


def dense_largest(problem, y, batch):
    """Return λ_max of Jᵀ Q J + l2, with the softmax's Hessian by hand."""
    J = jacrev(lambda y_: problem.outputs(y_, batch))(y)
    p = problem.outputs(y, batch).softmax(dim=1)
    Q = (torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)) / len(batch)
    return float(torch.linalg.eigvalsh(torch.einsum("nid,nij,nje->de", J, Q, J))[-1]) + problem.l2


def head(n=40, seed=0):
    source = generator(seed, "head case")
    net = nn.Linear(5, 3).double()
    inputs = 1 + torch.randn(n, 5, dtype=torch.float64, generator=source)
    labels = torch.randint(3, (n,), generator=source)
    problem = Reweighting(FlatModel(net), l2=0.02)
    y = torch.randn(problem.model.length, dtype=torch.float64, generator=source)
    return problem, y, LabelledBatch.of(inputs, labels)


def test_of_a_network_it_is_that_of_the_dense_matrix(conv):
    assert found(conv.problem, conv.y, conv.batch) == pytest.approx(
        dense_largest(conv.problem, conv.y, conv.batch), rel=1e-3
    )


def test_of_a_head_it_is_that_of_the_hessian_and_below_the_closed_bound():
    problem, y, batch = head()
    exact = hessian(lambda y_: problem.inner_loss(torch.ones(40), y_, batch))(y)
    largest = found(problem, y, batch)
    assert largest == pytest.approx(float(torch.linalg.eigvalsh(exact)[-1]), rel=1e-6)
    own = LinearHead.of(problem)
    bound = 1 / step_size(own.centred(batch.inputs, torch.zeros(5)), problem.l2)
    assert largest <= bound


def test_samples_in_chunks_give_the_mean_of_all(monkeypatch):
    problem, y, batch = head()
    whole = found(problem, y, batch)
    monkeypatch.setattr(module, "chunk_length", lambda _: 7)
    assert found(problem, y, batch) == pytest.approx(whole, rel=1e-10)


def test_it_draws_at_most_so_many_samples(monkeypatch):
    problem, y, batch = head()
    monkeypatch.setattr(module, "SAMPLES", 9)
    order = torch.randperm(40, generator=generator(3, "curvature"))[:9]
    expected = dense_largest(problem, y, batch.take(order))
    assert found(problem, y, batch) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("spectrum", [[3.0, 1.0, 0.5], [2.0, 2.0, 2.0], [0.0, 0.0, 0.0], [7.0]])
def test_few_dimensions_are_exhausted(spectrum):
    values = torch.tensor(spectrum, dtype=torch.float64)
    start = torch.ones(len(values), dtype=torch.float64)
    assert lanczos(lambda v: values * v, start, 10) == pytest.approx(max(spectrum), abs=1e-9)


def test_a_ritz_value_never_exceeds_the_largest_eigenvalue():
    values = torch.linspace(0, 1, 500, dtype=torch.float64) ** 4
    start = torch.randn(500, dtype=torch.float64, generator=generator(0, "start"))
    ritz = [lanczos(lambda v: values * v, start, steps) for steps in (2, 5, 10, 40)]
    assert ritz == sorted(ritz)
    assert 0.9 < ritz[2] <= ritz[3] <= 1 + 1e-12


def test_what_is_not_finite_is_infinite():
    assert lanczos(lambda v: v * torch.nan, torch.ones(4), 3) == float("inf")
