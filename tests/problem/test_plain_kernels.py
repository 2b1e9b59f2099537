"""Plain operations against the fused kernels that they replace."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from fedsift.problem.plain_kernels import PlainKernels
from fedsift.randomness import generator

TOKENS = torch.tensor([[0, 1, 2, 3], [4, 4, 5, 5], [5, 5, 5, 5]])


def same(function):
    with PlainKernels():
        plain = function()
    torch.testing.assert_close(plain, function(), rtol=1e-12, atol=1e-12)


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=generator(0, "plain"))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 5, -1])
def test_bags_of_one_length(mode, padding):
    bag = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=padding, _weight=normal(6, 3))
    same(lambda: bag(TOKENS))


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_several_lengths(mode, last):
    bag = nn.EmbeddingBag(
        6, 3, mode=mode, padding_idx=5, include_last_offset=last, _weight=normal(6, 3)
    )
    offsets = torch.tensor([0, 3, 3, 7] + [12] * last)  # the second bag is empty
    same(lambda: bag(TOKENS.flatten(), offsets))


def test_bags_with_a_weight_per_word():
    bag = nn.EmbeddingBag(6, 3, mode="sum", _weight=normal(6, 3))
    same(lambda: bag(TOKENS, per_sample_weights=normal(3, 4)))


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal):
    q, k, v = normal(3, 2, 2, 5, 4)
    same(lambda: scaled_dot_product_attention(q, k, v, is_causal=causal))


@pytest.mark.parametrize("wanted", [False, True])
def test_multi_head_attention(wanted):
    layer = nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64).eval()
    x = normal(2, 5, 4)
    same(lambda: layer(x, x, x, need_weights=wanted))


def test_nothing_is_left_behind():
    q, k, v = normal(3, 2, 2, 5, 4).requires_grad_(True)
    with PlainKernels():
        pass
    assert "Flash" in type(scaled_dot_product_attention(q, k, v).grad_fn).__name__
