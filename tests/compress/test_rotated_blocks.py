from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import hashing, rotated_blocks
from fedsift.compress.rotated_blocks import RotatedBlocks
from fedsift.errors import InputError
from fedsift.randomness import generator

GOLDEN = [[6, 3, 4, 1, 2, 7, 0, 5, 5], [3, 4, 1, 2, 6, 3, 4, 5, 2]]


def reference_cell(seed: int, row: int, i: int, columns: int) -> int:
    """The definition, in Python's integers."""

    def value(number: int, x: int) -> int:
        a3, a2, a1, a0 = hashing.coefficients(seed, number)
        return (a3 * x**3 + a2 * x**2 + a1 * x + a0) % (2**31 - 1)

    b, o = divmod(i, columns)
    of_block, of_offset = value(row, b), value(2**32 + row, o)
    turn = ((of_block // 2) * columns) // 2**30
    return (o + turn) % columns + columns * ((of_block + of_offset) % 2)


matrices = st.builds(
    RotatedBlocks,
    seed=st.integers(0, 2**64 - 1),
    rows=st.integers(1, 4),
    columns=st.integers(1, 12),
    length=st.integers(1, 60),
)


@given(matrices)
def test_cells_agree_with_python_integers(S):
    expected = [
        [reference_cell(S.seed, j, i, S.columns) for i in range(S.length)] for j in range(S.rows)
    ]
    assert S.cells().tolist() == expected


def test_golden_values():
    """Sketches of different machines and releases only add up while these stay."""
    assert RotatedBlocks(7, 2, 4, 9).cells().tolist() == GOLDEN


def vector(length: int) -> torch.Tensor:
    return torch.randn(length, generator=generator(0, "g"), dtype=torch.float64)


def scattered(S: RotatedBlocks, g: torch.Tensor) -> torch.Tensor:
    """S g by the cell of every coordinate: the plain version."""
    sums = g.new_zeros(S.rows, 2 * S.columns).scatter_add_(1, S.cells(), g.expand(S.rows, -1))
    return sums[:, : S.columns] - sums[:, S.columns :]


@given(matrices)
def test_both_ways_to_add_blocks_agree_with_the_plain_version(S):
    g = vector(S.length)
    torch.testing.assert_close(S._many(g), scattered(S, g))
    torch.testing.assert_close(S._one_by_one(g), scattered(S, g))


@given(matrices)
def test_what_rows_hold_is_the_transpose(S):
    table = vector(S.rows * S.columns).view(S.rows, S.columns)
    read = table.new_empty(S.rows, S.length)
    for places, rows in S.rows_of(table):
        read[:, places] = torch.stack(rows)
    assert torch.equal(read, torch.cat((table, -table), dim=1).gather(1, S.cells()))


@pytest.mark.parametrize("chunk", [1, 300, 2**17])
def test_the_size_of_a_part_changes_nothing(monkeypatch, chunk):
    S, g = RotatedBlocks(1, 3, 50, 1020), vector(1020)
    monkeypatch.setattr(rotated_blocks, "CHUNK", chunk)
    torch.testing.assert_close(S.apply(g), scattered(S, g))
    table = scattered(S, g)
    read = torch.cat([torch.stack(rows) for _, rows in S.rows_of(table)], dim=1)
    assert torch.equal(read, torch.cat((table, -table), dim=1).gather(1, S.cells()))


@pytest.mark.parametrize("length", [100, 40_001])
def test_long_and_short_blocks_take_their_own_way(monkeypatch, length):
    S, g = RotatedBlocks(1, 2, length // 4, length), vector(length)
    other = "_one_by_one" if length == 100 else "_many"
    monkeypatch.setattr(RotatedBlocks, other, None)
    torch.testing.assert_close(S.apply(g), scattered(S, g))


def test_blocks_of_one_vector_meet_as_often_as_single_coordinates():
    """One coordinate of every other block is met, each with probability 1/c; none of the own."""
    columns, met = 6, torch.zeros(18)
    seeds = 3000
    for seed in range(seeds):
        bucket = RotatedBlocks(seed, 1, columns, 18).cells()[0] % columns
        met += (bucket == bucket[2]).float()
    assert met[:6].tolist() == [0, 0, seeds, 0, 0, 0]
    deviation = math.sqrt(1 / columns * (1 - 1 / columns) / seeds)
    assert (met[6:] / seeds - 1 / columns).abs().max() < 4 * deviation


def test_rows_and_seeds_give_other_hashes():
    first, second = RotatedBlocks(0, 2, 100, 5000).cells()
    other = RotatedBlocks(1, 1, 100, 5000).cells()[0]
    for a, b in ((first, second), (first, other), (second, other)):
        assert (a == b).sum() < 150  # 25 expected, but blocks agree as a whole


@pytest.mark.parametrize(("seed", "rows", "columns"), [(-1, 1, 1), (0, 0, 1), (0, 1, 0)])
def test_a_matrix_that_cannot_be_is_refused(seed, rows, columns):
    with pytest.raises(InputError, match="give"):
        RotatedBlocks(seed, rows, columns, 10)
