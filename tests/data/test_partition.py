from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.data import PARTITIONS, Pool
from fedsift.data.partition import by_writer, dirichlet, iid, shards
from fedsift.errors import DataError
from fedsift.randomness import generator

seeds = st.integers(0, 2**32)
clients = st.integers(1, 6)
labels = st.lists(st.integers(0, 4), min_size=24, max_size=80).map(torch.tensor)
quick = settings(deadline=None, max_examples=60)


def pool(n: int, clients: int, **options) -> Pool:
    return Pool(torch.arange(n) % 4, clients, groups=torch.arange(n) // 4, **options)


def is_partition(parts: list[torch.Tensor], n: int) -> bool:
    return sorted(torch.cat(parts).tolist()) == list(range(n))


@quick
@given(clients, st.integers(6, 50), seeds)
def test_iid_with_a_number_of_clients_is_complete_and_even(count, n, seed):
    parts = iid(pool(n, count), generator(seed))
    sizes = [len(part) for part in parts]
    assert is_partition(parts, n)
    assert max(sizes) - min(sizes) <= 1


@quick
@given(clients, st.integers(1, 9), st.integers(0, 9), seeds)
def test_iid_with_a_size_is_disjoint_and_exact(count, size, spare, seed):
    n = count * size + spare
    parts = iid(pool(n, count, samples_per_client=size), generator(seed))
    given_out = torch.cat(parts).tolist()
    assert [len(part) for part in parts] == [size] * count
    assert len(set(given_out)) == len(given_out)
    assert set(given_out) <= set(range(n))


@quick
@given(labels, clients, st.floats(2, 100), seeds)  # α where a redraw succeeds
def test_dirichlet_is_complete_and_leaves_no_client_empty(labels, count, alpha, seed):
    parts = dirichlet(Pool(labels, count, alpha=alpha), generator(seed))
    assert is_partition(parts, len(labels))
    assert min(len(part) for part in parts) >= 1


@quick
@given(labels, clients, st.integers(1, 4), seeds)
def test_shards_are_complete_and_even(labels, count, each, seed):
    parts = shards(Pool(labels, count, shards_per_client=each), generator(seed))
    sizes = [len(part) for part in parts]
    assert is_partition(parts, len(labels))
    assert max(sizes) - min(sizes) <= each


@quick
@given(st.lists(st.integers(0, 40), min_size=30, max_size=90), st.integers(1, 4), seeds)
def test_writers_stay_whole_and_are_spread_evenly(groups, count, seed):
    groups = [*groups, 100, 101, 102]  # at least as many writers as clients
    writers = torch.tensor(groups)
    parts = by_writer(Pool(torch.zeros_like(writers), count, groups=writers), generator(seed))
    owned = [{groups[i] for i in part.tolist()} for part in parts]
    assert is_partition(parts, len(groups))
    assert sum(map(len, owned)) == len(set(groups))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


def test_a_client_sees_no_more_labels_than_it_has_shards():
    labels = torch.arange(10).repeat(20)
    parts = shards(Pool(labels, 10, shards_per_client=2), generator(0))
    assert max(len(set(labels[part].tolist())) for part in parts) <= 2


def share_variance(parts: list[torch.Tensor], labels: torch.Tensor, classes: int) -> float:
    counts = np.stack([labels[part].bincount(minlength=classes).numpy() for part in parts])
    return float((counts / counts.sum(0)).var())


def test_dirichlet_shares_have_the_variance_of_the_distribution():
    # A share of Dir(α, ..., α) over K clients has variance (1/K)(1 - 1/K) / (Kα + 1).
    classes, count, alpha = 300, 5, 0.5
    labels = torch.arange(classes).repeat_interleave(400)
    expected = 0.2 * 0.8 / (count * alpha + 1)
    pool = Pool(labels, count, alpha=alpha)
    drawn = share_variance(dirichlet(pool, generator(0)), labels, classes)
    uniform = share_variance(iid(pool, generator(0)), labels, classes)
    assert drawn == pytest.approx(expected, rel=0.1)
    assert uniform != pytest.approx(expected, rel=0.1)


every_partition = pytest.mark.parametrize("partition", PARTITIONS.values(), ids=PARTITIONS)


@every_partition
def test_the_generator_decides(partition):
    case = pool(40, 3, samples_per_client=9, alpha=1.0)
    first, again, other = (partition(case, generator(seed)) for seed in (1, 1, 2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@every_partition
def test_a_number_of_samples_per_client_bounds_the_total(partition):
    parts = partition(pool(80, 4, samples_per_client=9, alpha=1.0), generator(0))
    given_out = torch.cat(parts).tolist()
    assert len(parts) == 4
    assert len(set(given_out)) == len(given_out) == 36
    assert all(part.tolist() == sorted(part.tolist()) for part in parts)


@every_partition
def test_no_client_is_left_empty(partition):
    with pytest.raises(DataError, match="lower the number of clients"):
        partition(pool(12, 13), generator(0))


@pytest.mark.parametrize(
    ("partition", "case", "advice"),
    [
        (iid, pool(3, 2, samples_per_client=2), "lower the number of clients or of samples"),
        (iid, pool(3, 0), "raise the number of clients"),
        (dirichlet, pool(30, 30, alpha=0.1), "raise alpha"),
        (dirichlet, pool(30, 3, alpha=0.0), "positive"),
        (shards, pool(30, 16, shards_per_client=2), "lower the number"),
        (shards, pool(30, 3, shards_per_client=0), "at least 1"),
        (by_writer, Pool(torch.zeros(30).long(), 2), "choose another partition"),
    ],
)
def test_an_impossible_partition_says_what_to_do(partition, case, advice):
    with pytest.raises(DataError, match=advice):
        partition(case, generator(0))
