from __future__ import annotations

import hashlib
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from fedsift.compress import hashing
from fedsift.compress.hashing import MAX_COLUMNS, PRIME, HashFamily, check_length
from fedsift.errors import InputError

CPU = torch.device("cpu")
SEEDS = range(3000)
GOLDEN_COEFFICIENTS = [1663054763, 2124222675, 2011306344, 1330136525]
GOLDEN_FIRST = [[1619, 319, 1644, 241, 755, 1834], [1910, 527, 1285, 105, 908, 1617]]
GOLDEN_LAST = [[10, 2, 6, 4]]


def reference_cell(seed: int, row: int, x: int, columns: int) -> int:
    """The definition, in Python's integers."""
    key = seed.to_bytes(8, "little") + row.to_bytes(8, "little")
    digest = hashlib.blake2b(key, digest_size=32, person=b"fedsift.hash").digest()
    a3, a2, a1, a0 = (int.from_bytes(digest[i : i + 8], "little") for i in range(0, 32, 8))
    h = (a3 * x**3 + a2 * x**2 + a1 * x + a0) % (2**31 - 1)
    return ((h // 2) * columns) // 2**30 + columns * (h % 2)


@given(
    seed=st.integers(0, 2**64 - 1),
    rows=st.integers(1, 4),
    columns=st.integers(1, MAX_COLUMNS),
    start=st.integers(0, PRIME - 8),
)
def test_cells_agree_with_python_integers(seed, rows, columns, start):
    cells = HashFamily(seed, rows, columns).cells(start, start + 7, CPU)

    expected = [
        [reference_cell(seed, row, x, columns) for x in range(start, start + 7)]
        for row in range(rows)
    ]
    assert cells.tolist() == expected


@given(st.lists(st.integers(0, PRIME - 1), min_size=4, max_size=4), st.integers(0, PRIME - 1))
def test_residues_at_the_edges_of_the_field(a, x):
    family = HashFamily(0, 2, 1)
    edges = [*a, *[PRIME - 1] * 4]
    family.__dict__["_coefficients"] = torch.tensor(edges).reshape(2, 4).T.unsqueeze(2)

    values = family._values(torch.tensor([0, x, PRIME - 1]))

    for row, (a3, a2, a1, a0) in enumerate((a, [PRIME - 1] * 4)):
        for column, y in enumerate((0, x, PRIME - 1)):
            assert values[row, column] == (a3 * y**3 + a2 * y**2 + a1 * y + a0) % PRIME


@pytest.mark.parametrize("chunk", [1, 7, 20, 50])
def test_blocks_are_the_cells_in_order(monkeypatch, chunk):
    family = HashFamily(3, 2, 10)
    monkeypatch.setattr(hashing, "CHUNK", chunk)
    where, cells = zip(*family.blocks(20, CPU), strict=True)
    assert torch.equal(torch.cat(cells, dim=1), family.cells(0, 20, CPU))
    assert [i for part in where for i in range(20)[part]] == list(range(20))


def test_golden_values():
    """Sketches of different machines and releases only add up while these stay."""
    assert hashing.coefficients(0, 0) == GOLDEN_COEFFICIENTS
    assert HashFamily(0, 2, 1000).cells(0, 6, CPU).tolist() == GOLDEN_FIRST
    assert HashFamily(2**64 - 1, 1, 7).cells(PRIME - 5, PRIME - 1, CPU).tolist() == GOLDEN_LAST


def signs_and_buckets(columns: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Of the coordinates 0..7 under every seed."""
    cells = torch.cat([HashFamily(seed, 1, columns).cells(0, 8, CPU) for seed in SEEDS]).numpy()
    return 1 - 2 * (cells // columns), cells % columns


def worst_sign_moment() -> float:
    """The largest |mean of a product of 1 to 4 signs|, in standard errors; 162 products."""
    signs, _ = signs_and_buckets()
    sets = [s for size in (1, 2, 3, 4) for s in combinations(range(8), size)]
    means = [signs[:, s].prod(axis=1).mean() for s in sets]
    return float(np.abs(means).max() * np.sqrt(len(SEEDS)))


def worst_pair_of_buckets() -> float:
    """The smallest p-value of the 28 chi-square tests that pairs of buckets are uniform."""
    _, buckets = signs_and_buckets()
    expected = len(SEEDS) / 64
    statistics = []
    for i, j in combinations(range(8), 2):
        counts = np.bincount(8 * buckets[:, i] + buckets[:, j], minlength=64)
        statistics.append(((counts - expected) ** 2 / expected).sum())
    return float(chi2.sf(max(statistics), df=63))


def test_signs_are_four_wise_independent():
    assert worst_sign_moment() < 4.5


def test_buckets_are_pairwise_independent():
    assert worst_pair_of_buckets() > 1e-4


@pytest.fixture
def linear(monkeypatch):
    """A hash of degree 1: pairwise independent, but not 4-wise."""
    whole = hashing.coefficients
    monkeypatch.setattr(hashing, "coefficients", lambda seed, row: [0, 0, *whole(seed, row)[2:]])


@pytest.fixture
def constant(monkeypatch):
    """A hash of degree 0: every coordinate has the same cell."""
    whole = hashing.coefficients
    monkeypatch.setattr(hashing, "coefficients", lambda seed, row: [0, 0, 0, whole(seed, row)[3]])


@pytest.mark.usefixtures("linear")
def test_the_check_of_signs_rejects_a_linear_hash():
    assert worst_sign_moment() > 4.5


@pytest.mark.usefixtures("constant")
def test_the_check_of_buckets_rejects_a_constant_hash():
    assert worst_pair_of_buckets() < 1e-4


def test_sign_and_bucket_do_not_depend_on_each_other():
    signs, buckets = signs_and_buckets()
    counts = np.bincount(8 * (signs > 0).ravel() + buckets.ravel(), minlength=16)
    expected = signs.size / 16
    assert chi2.sf(((counts - expected) ** 2 / expected).sum(), df=15) > 1e-4


def test_rows_and_seeds_give_other_hashes():
    first, second = HashFamily(0, 2, 1000).cells(0, 500, CPU)
    other = HashFamily(1, 1, 1000).cells(0, 500, CPU)[0]
    for a, b in combinations((first, second, other), 2):
        assert (a == b).sum() < 5  # 0.25 expected of 500 with 2000 cells


@pytest.mark.parametrize(
    ("seed", "rows", "columns"),
    [(-1, 1, 1), (2**64, 1, 1), (0, 0, 1), (0, 1, 0), (0, 1, MAX_COLUMNS + 1)],
)
def test_a_family_that_cannot_be_is_refused(seed, rows, columns):
    with pytest.raises(InputError, match="give"):
        HashFamily(seed, rows, columns)


@pytest.mark.parametrize("length", [0, PRIME, 2**40])
def test_a_length_that_cannot_be_hashed_is_refused(length):
    with pytest.raises(InputError, match="length"):
        check_length(length)
