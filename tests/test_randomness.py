"""Keys and the generators derived from them."""

import hashlib
import random

import numpy as np
import pytest
import torch

from fedsift.randomness import derive, generator


def test_derive_is_the_hash_of_the_typed_key():
    text = b"int:3\x1fint:0\x1fstr:batches"
    digest = hashlib.blake2b(text, digest_size=8, person=b"fedsift").digest()
    assert derive(3, 0, "batches") == int.from_bytes(digest, "little") // 2


def test_derived_numbers_stay_the_same_between_versions():
    assert [derive(0), derive(0, 1, 2, "batches")] == [8200483322599207433, 2283718440269511907]


@pytest.mark.parametrize(
    ("one", "other"),
    [((1,), ("1",)), ((1, 2), (12,)), ((1, 2), (2, 1)), (("ab", "c"), ("a", "bc")), ((0,), (0, 0))],
)
def test_similar_keys_differ(one, other):
    assert derive(*one) != derive(*other)


def test_same_key_gives_the_same_stream_whatever_came_before():
    first = torch.rand(8, generator=generator(0, 1, "noise"))
    torch.rand(5, generator=generator(0, 2, "noise"))
    assert torch.equal(torch.rand(8, generator=generator(0, 1, "noise")), first)


def test_streams_of_neighbouring_keys_are_uncorrelated():
    """|r| of 10,000 independent pairs exceeds 4 / √10,000 once in 16,000 times."""
    streams = [torch.randn(10_000, generator=generator(0, k, "noise")) for k in range(5)]
    correlations = torch.corrcoef(torch.stack(streams)) - torch.eye(5)
    assert correlations.abs().max() < 0.04


def test_global_states_are_not_touched():
    before = (torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())  # noqa: NPY002
    torch.rand(3, generator=generator(0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]
