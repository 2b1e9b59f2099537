from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import CountSketch, Sketch
from fedsift.compress.count_sketch import _median
from fedsift.compress.rotated_blocks import RotatedBlocks
from fedsift.errors import InputError
from fedsift.randomness import generator


def vector(length: int, key: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(length, generator=generator(key, "g"), dtype=dtype)


def dense(sketch: CountSketch) -> torch.Tensor:
    """S as a matrix [rows, columns, length], entry by entry."""
    S = torch.zeros(sketch.rows, sketch.columns, sketch.length, dtype=torch.float64)
    cells = RotatedBlocks(sketch.seed, sketch.rows, sketch.columns, sketch.length).cells()
    for j in range(sketch.rows):
        for i in range(sketch.length):
            sign, bucket = divmod(int(cells[j, i]), sketch.columns)
            S[j, bucket, i] = 1 - 2 * sign
    return S


sketches = st.builds(
    CountSketch,
    length=st.integers(1, 60),
    rows=st.integers(1, 6),
    columns=st.integers(1, 12),
    seed=st.integers(0, 2**64 - 1),
)


@given(sketches)
def test_compress_agrees_with_the_dense_matrix(sketch):
    g = vector(sketch.length)
    torch.testing.assert_close(sketch.compress(g).table, dense(sketch) @ g)


@given(sketches)
def test_estimate_agrees_with_the_dense_matrix(sketch):
    """Row j estimates g as S_j^T S_j g; numpy's median is the mean of the middle two."""
    payload = sketch.compress(vector(sketch.length))
    by_row = torch.einsum("jci,jc->ji", dense(sketch), payload.table)
    np.testing.assert_array_equal(sketch.estimate(payload), np.median(by_row, axis=0))


@given(sketches, st.floats(-10, 10))
def test_it_is_linear(sketch, a):
    f, g = vector(sketch.length, 1), vector(sketch.length, 2)
    together = sketch.compress(a * f + g).table
    torch.testing.assert_close(together, a * sketch.compress(f).table + sketch.compress(g).table)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_precision_is_that_of_the_dtype(dtype):
    g = vector(50_000, dtype=dtype)
    sketch = CountSketch(50_000, 3, 100, seed=5)
    exact = sketch.compress(g.double()).table
    error = (sketch.compress(g).table.double() - exact).abs().max()
    assert error <= 500 * torch.finfo(dtype).eps * exact.abs().max()  # 500 numbers to a cell


N_SEEDS = 2000


def worst_bias(length: int = 16, columns: int = 5) -> float:
    """Largest |mean error| of a coordinate over seeds, in standard errors.

    The variance of a one-row estimate is at most ||g||^2 / c.
    """
    g = vector(length)
    total = torch.zeros_like(g)
    for seed in range(N_SEEDS):
        sketch = CountSketch(length, 1, columns, seed)
        total += sketch.estimate(sketch.compress(g))
    standard_error = g.norm() / math.sqrt(columns * N_SEEDS)
    return float((total / N_SEEDS - g).abs().max() / standard_error)


def test_estimates_are_unbiased():
    assert worst_bias() < 4


def all_positive(turns):
    """σ is always 1."""
    return lambda self: turns(self) % self.columns


def in_pairs(turns):
    """Blocks 2b and 2b + 1 have the same rotation and sign, so that they always meet."""
    return lambda self: turns(self)[:, torch.arange(self.blocks) // 2]


@pytest.mark.parametrize("broken", [all_positive, in_pairs])
def test_the_check_of_bias_rejects_a_broken_hash(monkeypatch, broken):
    turns = RotatedBlocks.turns.func
    monkeypatch.setattr(RotatedBlocks, "turns", property(broken(turns)))
    assert worst_bias() > 4


def variances(length: int = 30, columns: int = 10) -> torch.Tensor:
    """The variance of a one-row estimate over seeds, in what it must be."""
    g = vector(length)
    errors = []
    for seed in range(N_SEEDS):
        sketch = CountSketch(length, 1, columns, seed)
        errors.append(sketch.estimate(sketch.compress(g)) - g)
    own = g.view(-1, columns).square().sum(dim=1).repeat_interleave(columns)
    return torch.stack(errors).square().mean(dim=0) * columns / (g.norm() ** 2 - own)


def test_the_variance_of_one_row_is_that_of_the_other_blocks():
    assert (variances() - 1).abs().max() < 0.2


def test_the_check_of_variance_rejects_blocks_that_stay_in_place(monkeypatch):
    turns = RotatedBlocks.turns.func
    monkeypatch.setattr(
        RotatedBlocks, "turns", property(lambda self: turns(self) // self.columns * self.columns)
    )
    assert (variances() - 1).abs().max() > 0.2


PLACES = torch.tensor([10, 999, 1500, 2998])
KINDS = {
    "gaussian": vector,
    "constant": lambda length: torch.ones(length, dtype=torch.float64),
    "power law": lambda length: vector(length) / torch.arange(1, length + 1) ** 0.5,
    "periodic": lambda length: vector(50).repeat(length // 50),
    "one block": lambda length: vector(length) * (torch.arange(length) < 200),
}


def missed_heavy_hitters(tau: float, rows: int, columns: int, kind: str = "gaussian") -> int:
    """Of 100 seeds, how many miss a coordinate with g_i^2 >= tau ||g||^2."""
    g = KINDS[kind](3000)
    g[PLACES] = 0.0
    g *= math.sqrt((1 - 4 * tau) / g.square().sum())
    g[PLACES] = math.sqrt(tau) * torch.tensor([1.0, -1, 1, -1], dtype=g.dtype)
    g[PLACES] *= 1.0001  # they stay tau-heavy after rounding
    missed = 0
    for seed in range(100):
        sketch = CountSketch(3000, rows, columns, seed)
        missed += bool((sketch.decompress(sketch.compress(g))[PLACES] == 0).any())
    return missed


@pytest.mark.parametrize("kind", KINDS)
def test_heavy_hitters_are_found_at_the_size_of_the_theory(kind):
    """c = 128 / tau and r = 2.42 ln(d / delta), so r c = O(log(d / delta) / tau).

    A row's error is over sqrt(tau) ||g|| / 4 with probability at most 16 / (c tau) = 1/8
    (Chebyshev), that of the median of r rows with (4/8 * 7/8)^(r/2) = exp(-0.413 r) <= delta / d.
    Then at most 4 / tau coordinates look as large as a heavy one, and k = c // 16 keeps 8 / tau.
    """
    tau, delta = 0.15, 0.05
    rows = math.ceil(2.42 * math.log(3000 / delta))
    assert missed_heavy_hitters(tau, rows, math.ceil(128 / tau), kind) <= 100 * delta


def test_the_check_of_heavy_hitters_rejects_a_sketch_too_small():
    assert missed_heavy_hitters(0.15, rows=3, columns=16) > 5


def test_decompress_keeps_the_largest_estimates():
    sketch = CountSketch(200, 5, 40, seed=3, heavy=7)
    payload = sketch.compress(vector(200))
    estimate, out = sketch.estimate(payload), sketch.decompress(payload)
    kept = out.nonzero().squeeze(1)
    assert len(kept) == 7
    assert torch.equal(out[kept], estimate[kept])
    assert estimate[out == 0].abs().max() <= out[kept].abs().min()


@pytest.mark.parametrize(
    ("length", "columns", "heavy", "k"),
    [(1000, 160, None, 10), (1000, 15, None, 1), (3, 160, None, 3), (1000, 160, 99, 99)],
)
def test_how_many_are_kept(length, columns, heavy, k):
    assert CountSketch(length, 5, columns, 0, heavy).k == k


def test_columns_at_a_rate():
    assert CountSketch.at_rate(1000, 8, rows=5, seed=2) == CountSketch(1000, 5, 25, 2)
    assert CountSketch.at_rate(1000, 7.9, rows=3).columns == 42
    assert CountSketch.at_rate(10, 1000).columns == 1


@pytest.mark.parametrize("rows", [1, 4, 5])
def test_norm_is_the_root_of_the_median_of_squares(rows):
    sketch = CountSketch(500, rows, 60, seed=4)
    payload = sketch.compress(vector(500))
    expected = np.sqrt(np.median((payload.table.numpy() ** 2).sum(axis=1)))
    assert sketch.norm(payload) == pytest.approx(expected)


def test_norm_estimates_the_norm():
    g = vector(5000)
    sketch = CountSketch(5000, 5, 1000, seed=4)  # a row's squared norm is off by sqrt(2/c) = 4.5 %
    assert sketch.norm(sketch.compress(g)) == pytest.approx(float(g.norm()), rel=0.05)


def squared_norms(g: torch.Tensor, columns: int = 20) -> torch.Tensor:
    sketches = (CountSketch(len(g), 1, columns, seed) for seed in range(N_SEEDS))
    return torch.stack([sketch.compress(g).table.square().sum() for sketch in sketches])


@pytest.mark.parametrize(
    ("g", "bound"),
    [
        (vector(400), 2.3),  # 2 + 2 / c of what the blocks' angles add, and the sampling error
        (torch.ones(400, dtype=torch.float64), 4.3),
        (vector(20).repeat(20), 4.3),  # all blocks are parallel: the worst case
    ],
)
def test_the_squared_norm_of_a_row_is_unbiased_within_its_variance(g, bound):
    squares, size = squared_norms(g), float(g.square().sum())
    variance = float(squares.var()) * 20 / size**2
    assert abs(float(squares.mean()) / size - 1) < 4 * math.sqrt(4 / 20 / N_SEEDS)
    assert variance < bound


def test_the_check_of_the_norm_rejects_offsets_without_signs(monkeypatch):
    """Then the rows of a constant vector are off by ||g||^2 itself, whatever c is."""
    monkeypatch.setattr(
        RotatedBlocks,
        "signs",
        property(lambda self: torch.ones(self.rows, self.columns, dtype=torch.int8)),
    )
    g = torch.ones(400, dtype=torch.float64)
    assert float(squared_norms(g).var()) * 20 / 400**2 > 4.3


@pytest.mark.parametrize("rows", range(1, 12))
def test_the_median_agrees_with_numpy(rows):
    values = vector(rows * 50).view(rows, 50)
    np.testing.assert_array_equal(_median(list(values)), np.median(values, axis=0))


def test_nan_is_seen():
    sketch = CountSketch(50, 3, 10, seed=0)
    g = vector(50)
    g[7] = math.nan
    assert sketch.decompress(sketch.compress(g)).isnan().any()


def test_a_sketch_of_another_compressor_is_refused():
    sketch = CountSketch(50, 3, 10, seed=0)
    for change in ({"length": 51}, {"rows": 4}, {"columns": 11}, {"seed": 1}):
        other = dataclasses.replace(sketch, **change)
        with pytest.raises(InputError, match="same compressor"):
            sketch.estimate(other.compress(vector(other.length)))
    with pytest.raises(InputError, match="float32"):
        sketch.estimate(Sketch(torch.zeros(3, 10, dtype=torch.int64), 50, 0))


@pytest.mark.parametrize("heavy", [0, -1, 51])
def test_keeping_none_or_too_many_is_refused(heavy):
    with pytest.raises(InputError, match="heavy"):
        CountSketch(50, 3, 10, 0, heavy)
