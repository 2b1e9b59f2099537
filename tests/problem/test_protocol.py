"""Derivatives of any two losses, against dense Jacobians."""

import torch
from torch.func import hessian, jacfwd, jacrev

from fedsift import problem as derivatives
from fedsift.problem import LossPair, TensorBatch, chunks


def _pair():
    def inner(x, y, batch):
        (data,) = batch.tensors
        return (torch.tanh(data @ y) * (data @ x.exp())).mean() + (x * y).square().sum()

    def outer(x, y, batch):
        (data,) = batch.tensors
        return (data @ y).pow(4).mean() + x.sin() @ y

    x, y = torch.linspace(-1, 1, 4).double(), torch.linspace(0.2, 1, 4).double()
    batch = TensorBatch((torch.arange(20.0).double().reshape(5, 4).sin(),))
    return LossPair(inner, outer, start=x), x, y, batch


def test_gradients_match_finite_differences():
    pair, x, y, batch = _pair()
    step = 1e-6
    for k, unit in enumerate(torch.eye(4).double()):
        slope = (
            pair.inner_loss(x, y + step * unit, batch) - pair.inner_loss(x, y - step * unit, batch)
        ) / (2 * step)
        assert abs(slope - derivatives.inner_gradient(pair, x, y, batch)[k]) < 1e-8


def test_outer_gradients_match_reverse_jacobians():
    pair, x, y, batch = _pair()
    gx, gy = derivatives.outer_gradients(pair, x, y, batch)
    torch.testing.assert_close(gx, jacrev(lambda x_: pair.outer_loss(x_, y, batch))(x))
    torch.testing.assert_close(gy, jacrev(lambda y_: pair.outer_loss(x, y_, batch))(y))


def test_hessian_product_matches_dense_hessian():
    pair, x, y, batch = _pair()
    v = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    dense = hessian(lambda y_: pair.inner_loss(x, y_, batch))(y)
    product = derivatives.hessian_product(pair, x, y, batch, v)
    torch.testing.assert_close(product, dense @ v, rtol=1e-10, atol=1e-12)


def test_cross_product_matches_dense_mixed_derivative():
    pair, x, y, batch = _pair()
    v = torch.tensor([1.0, -2.0, 0.5, 3.0]).double()
    mixed = jacfwd(jacrev(lambda y_, x_: pair.inner_loss(x_, y_, batch)), argnums=1)(y, x)
    product = derivatives.cross_product(pair, x, y, batch, v)
    torch.testing.assert_close(product, mixed.T @ v, rtol=1e-10, atol=1e-12)


def test_chunks_cover_a_batch_in_order():
    batch = TensorBatch((torch.arange(10),))
    parts = [part.tensors[0] for part in chunks(batch, 4)]
    assert [len(p) for p in parts] == [4, 4, 2]
    assert torch.equal(torch.cat(parts), torch.arange(10))
