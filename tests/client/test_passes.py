"""Passes over samples in chunks, against dense matrices."""

import pytest
import torch
from torch.func import hessian, jacrev

from fedsift.client.passes import (
    cross_pass,
    galerkin_pass,
    joint_pass,
    product_pass,
    sketch_pass,
)
from fedsift.compress import SparseEmbedding
from fedsift.errors import InputError
from fedsift.hypergradient import CurvatureSettings
from fedsift.problem import FlatModel, LabelledBatch, LossPair, Reweighting
from fedsift.problem.networks import build_model
from fedsift.problem.protocol import chunk_length, pass_length

TIGHT = {"rtol": 1e-9, "atol": 1e-10}
GN = CurvatureSettings("gauss-newton", 0.3)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    # 12 samples: three unequal parts
    monkeypatch.setattr("fedsift.client.passes.pass_length", lambda *_: 5)


@pytest.fixture(scope="module")
def gauss_newton(conv):
    """Return JᵀQJ + (l2 + 0.3) I as a dense matrix."""
    outputs = conv.problem.outputs(conv.y, conv.batch)
    J = jacrev(lambda y: conv.problem.outputs(y, conv.batch))(conv.y).flatten(0, 1)
    Q = hessian(lambda o: conv.problem.output_loss(conv.x, o, conv.batch))(outputs)
    n = J.shape[0]
    return J.T @ Q.reshape(n, n) @ J + (conv.problem.l2 + 0.3) * torch.eye(len(conv.y)).double()


def test_chunks_are_longer_where_samples_are_small(monkeypatch):
    monkeypatch.undo()
    labels = torch.zeros(10, dtype=torch.int64)
    lengths = [chunk_length(LabelledBatch.of(torch.zeros(10, d), labels)) for d in (20, 784, 3072)]
    assert lengths == [512, 64, 64]
    assert chunk_length(object()) == 64


@pytest.mark.parametrize(("side", "length"), [(8, 256), (28, 64), (64, 16)])
def test_chunks_keep_the_largest_layer_in_the_cache(side, length):
    """The first layer of the paper's CNN has 64 numbers for every pixel."""
    model = build_model("paper_cnn" if side > 8 else "digits_cnn", (1, side, side), 10, 0)
    batch = LabelledBatch.of(torch.zeros(300, 1, side, side), torch.zeros(300, dtype=torch.int64))
    assert pass_length(Reweighting(FlatModel(model)), batch) == length


def test_a_product_is_the_dense_one(conv, gauss_newton):
    product = product_pass(conv.problem, conv.x, conv.y, conv.batch, conv.v, GN)
    torch.testing.assert_close(product, gauss_newton @ conv.v, **TIGHT)


@pytest.mark.parametrize("count", [7, 12])
def test_a_joint_pass_gives_what_two_passes_give(conv, count):
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    drawn = conv.batch.take(order[:count])
    rest = conv.batch.take(order[count:]) if count < 12 else None
    product, cross = joint_pass(conv.problem, conv.x, conv.y, drawn, rest, conv.v, GN)
    alone = product_pass(conv.problem, conv.x, conv.y, drawn, conv.v, GN)
    torch.testing.assert_close(product, alone, **TIGHT)
    whole = cross_pass(conv.problem, conv.x, conv.y, conv.batch, conv.v, 12)
    torch.testing.assert_close(cross.value, whole.value, **TIGHT)
    torch.testing.assert_close(cross.agreement, whole.agreement, **TIGHT)


def test_a_sketched_matrix_is_the_dense_one(conv, gauss_newton):
    S1, S2 = SparseEmbedding(6, len(conv.y), 1), SparseEmbedding(9, len(conv.y), 2)
    found = sketch_pass(conv.problem, conv.x, conv.y, conv.batch, S1, S2, GN)
    torch.testing.assert_close(found, S2.dense() @ gauss_newton @ S1.dense().T, **TIGHT)


def test_the_galerkin_matrix_is_the_dense_one(conv, gauss_newton):
    S1 = SparseEmbedding(6, len(conv.y), 1)
    found = galerkin_pass(conv.problem, conv.x, conv.y, conv.batch, S1, GN)
    torch.testing.assert_close(found, S1.dense() @ gauss_newton @ S1.dense().T, **TIGHT)


def test_galerkin_needs_gauss_newton(conv):
    pair = LossPair(conv.problem.inner_loss, conv.problem.outer_loss, conv.x)
    S1 = SparseEmbedding(6, len(conv.y), 1)
    with pytest.raises(InputError, match="needs the Gauss-Newton matrix"):
        galerkin_pass(
            conv.problem, conv.x, conv.y, conv.batch, S1, CurvatureSettings("hessian", 0.0)
        )
    with pytest.raises(InputError, match="needs the Gauss-Newton matrix"):
        galerkin_pass(pair, conv.x, conv.y, conv.batch, S1, GN)
