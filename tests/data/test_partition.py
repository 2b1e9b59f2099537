from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.data.partition import by_group, dirichlet, iid, shards
from fedsift.errors import DataError
from fedsift.randomness import generator

seeds = st.integers(0, 2**32)
clients = st.integers(1, 6)
labels = st.lists(st.integers(0, 4), min_size=24, max_size=80).map(torch.tensor)
quick = settings(deadline=None, max_examples=60)


def is_partition(parts: list[torch.Tensor], n: int) -> bool:
    return sorted(torch.cat(parts).tolist()) == list(range(n))


@quick
@given(clients, st.integers(6, 50), seeds)
def test_iid_with_a_number_of_clients_is_complete_and_even(count, n, seed):
    parts = iid(n, count, generator(seed))
    sizes = [len(part) for part in parts]
    assert is_partition(parts, n)
    assert max(sizes) - min(sizes) <= 1


@quick
@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 9), seeds)
def test_iid_with_sizes_is_disjoint_and_exact(sizes, spare, seed):
    n = sum(sizes) + spare
    parts = iid(n, sizes, generator(seed))
    given_out = torch.cat(parts).tolist()
    assert [len(part) for part in parts] == sizes
    assert len(set(given_out)) == len(given_out)
    assert set(given_out) <= set(range(n))


@quick
@given(labels, clients, st.floats(2, 100), st.integers(1, 2), seeds)  # α where a redraw succeeds
def test_dirichlet_is_complete_and_leaves_no_client_small(labels, count, alpha, least, seed):
    parts = dirichlet(labels, count, alpha, generator(seed), min_size=least)
    assert is_partition(parts, len(labels))
    assert min(len(part) for part in parts) >= least


@quick
@given(labels, clients, st.integers(1, 4), seeds)
def test_shards_are_complete_and_even(labels, count, each, seed):
    parts = shards(labels, count, each, generator(seed))
    sizes = [len(part) for part in parts]
    assert is_partition(parts, len(labels))
    assert max(sizes) - min(sizes) <= each


@quick
@given(st.lists(st.integers(0, 40), min_size=30, max_size=90), st.integers(1, 4), seeds)
def test_groups_stay_whole_and_are_spread_evenly(groups, count, seed):
    groups = [*groups, 100, 101, 102]  # at least as many groups as clients
    parts = by_group(torch.tensor(groups), count, generator(seed))
    owned = [{groups[i] for i in part.tolist()} for part in parts]
    assert is_partition(parts, len(groups))
    assert sum(map(len, owned)) == len(set(groups))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


def test_a_client_sees_no_more_labels_than_it_has_shards():
    labels = torch.arange(10).repeat(20)
    parts = shards(labels, 10, 2, generator(0))
    assert max(len(set(labels[part].tolist())) for part in parts) <= 2


def share_variance(parts: list[torch.Tensor], labels: torch.Tensor, classes: int) -> float:
    counts = np.stack([labels[part].bincount(minlength=classes).numpy() for part in parts])
    return float((counts / counts.sum(0)).var())


def test_dirichlet_shares_have_the_variance_of_the_distribution():
    # A share of Dir(α, ..., α) over K clients has variance (1/K)(1 - 1/K) / (Kα + 1).
    classes, count, alpha = 300, 5, 0.5
    labels = torch.arange(classes).repeat_interleave(400)
    expected = 0.2 * 0.8 / (count * alpha + 1)
    drawn = share_variance(dirichlet(labels, count, alpha, generator(0)), labels, classes)
    uniform = share_variance(iid(len(labels), count, generator(0)), labels, classes)
    assert drawn == pytest.approx(expected, rel=0.1)
    assert uniform != pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    "split",
    [
        lambda g: iid(40, [5, 5, 5], g),
        lambda g: dirichlet(torch.arange(40) % 4, 3, 1.0, g),
        lambda g: shards(torch.arange(40) % 4, 3, 2, g),
        lambda g: by_group(torch.arange(40) // 4, 3, g),
    ],
)
def test_the_generator_decides(split):
    first, again, other = split(generator(1)), split(generator(1)), split(generator(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize(
    ("split", "advice"),
    [
        (lambda g: iid(3, 4, g), "lower the number of clients"),
        (lambda g: iid(3, [2, 2], g), "lower the number of clients or of samples"),
        (lambda g: iid(3, [2, 0], g), "raise the sizes"),
        (lambda g: iid(3, 0, g), "raise the number of clients"),
        (lambda g: dirichlet(torch.zeros(30, dtype=torch.long), 30, 0.1, g), "raise alpha"),
        (lambda g: dirichlet(torch.zeros(30, dtype=torch.long), 3, 0.0, g), "positive"),
        (lambda g: shards(torch.zeros(30, dtype=torch.long), 16, 2, g), "lower the number"),
        (lambda g: shards(torch.zeros(30, dtype=torch.long), 3, 0, g), "at least 1"),
        (lambda g: by_group(torch.zeros(30, dtype=torch.long), 2, g), "lower the number"),
    ],
)
def test_an_impossible_partition_says_what_to_do(split, advice):
    with pytest.raises(DataError, match=advice):
        split(generator(0))
