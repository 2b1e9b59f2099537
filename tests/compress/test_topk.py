from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import Sparse, TopK
from fedsift.compress.topk import _by_sorting, _magnitude, largest
from fedsift.errors import InputError
from fedsift.randomness import generator

numbers = st.floats(-1e6, 1e6)
repeated = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 2.0])


@st.composite
def vector_and_k(draw):
    g = draw(st.lists(numbers | repeated, min_size=1, max_size=40))
    return torch.tensor(g, dtype=torch.float64), draw(st.integers(1, len(g)))


@given(vector_and_k())
def test_selection_agrees_with_a_stable_sort(case):
    g, k = case
    order = sorted(range(len(g)), key=lambda i: (-abs(float(g[i])), i))
    assert largest(g, k).tolist() == sorted(order[:k])
    assert _by_sorting(g.abs(), k).tolist() == sorted(order[:k])  # the way on other devices


@given(vector_and_k())
def test_the_payload_holds_the_chosen_numbers(case):
    g, k = case
    payload = TopK(len(g), k).compress(g)
    assert payload.length == len(g)
    assert torch.equal(payload.values, g[payload.indices])
    assert payload.indices.dtype == torch.int64


@given(vector_and_k())
def test_it_contracts(case):
    """||g - C(g)||^2 <= (1 - k/d) ||g||^2."""
    g, k = case
    topk = TopK(len(g), k)
    left = (g - topk.decompress(topk.compress(g))).square().sum()
    assert left <= (1 - k / len(g)) * g.square().sum() * (1 + 1e-12) + 1e-300


KINDS = {
    "gaussian": lambda d: torch.randn(d, generator=generator(0, "g")),
    "sorted": lambda d: torch.arange(d).float(),
    "many ties": lambda d: (torch.arange(d) % 5).float(),
    "constant": torch.ones,
    "zero but for a few": lambda d: (torch.arange(d) % 9973 == 0).float(),
    "large where no sample is taken": lambda d: (torch.arange(d) % 3 == 1) * 5.0 + 1,
}


@pytest.mark.parametrize("k", [1, 7, 5000, 20_000, 60_000])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sampled_threshold_chooses_the_same_indices(kind, k):
    g = KINDS[kind](100_000)
    g[17], g[70_001] = -math.inf, math.nan
    assert torch.equal(largest(g, k), _by_sorting(_magnitude(g), k))


def test_with_a_misleading_sample_the_whole_vector_is_looked_at(monkeypatch):
    g = KINDS["gaussian"](100_000)
    monkeypatch.setattr("fedsift.compress.topk._candidates", lambda g, k: (_none, _none))
    assert torch.equal(largest(g, 100), _by_sorting(_magnitude(g), 100))


_none = torch.zeros(0, dtype=torch.int64)


def test_zeros_stand_where_nothing_was_sent():
    out = TopK(4, 2).decompress(Sparse(torch.tensor([1, 3]), torch.tensor([5.0, -1.0]), 4))
    assert out.tolist() == [0, 5, 0, -1]


def test_nan_and_infinity_are_sent_and_not_held_back():
    g = torch.tensor([1.0, math.nan, 3.0, -math.inf, 2.0])
    assert largest(g, 2).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("length", "rate", "k"), [(100, 1, 100), (100, 3, 33), (100, 7.5, 13), (100, 1000, 1)]
)
def test_k_at_a_rate(length, rate, k):
    assert TopK.at_rate(length, rate) == TopK(length, k)


@pytest.mark.parametrize(("length", "k"), [(5, 6), (5, 0), (5, -1), (0, 1)])
def test_a_k_outside_the_vector_is_refused(length, k):
    with pytest.raises(InputError, match="give"):
        TopK(length, k)


def test_values_without_their_indices_are_refused():
    with pytest.raises(InputError):
        TopK(4, 2).decompress(Sparse(torch.tensor([1, 3]), torch.zeros(3), 4))
