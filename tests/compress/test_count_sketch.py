from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import CountSketch, Sketch, hashing
from fedsift.compress.hashing import HashFamily
from fedsift.errors import InputError
from fedsift.randomness import generator


def vector(length: int, key: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(length, generator=generator(key, "g"), dtype=dtype)


def dense(sketch: CountSketch) -> torch.Tensor:
    """S as a matrix [rows, columns, length], entry by entry."""
    S = torch.zeros(sketch.rows, sketch.columns, sketch.length, dtype=torch.float64)
    cells = HashFamily(sketch.seed, sketch.rows, sketch.columns).cells(
        0, sketch.length, torch.device("cpu")
    )
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


@pytest.mark.parametrize("chunk", [1, 7, 100, 999, 4096])
def test_the_size_of_a_block_changes_nothing(monkeypatch, chunk):
    sketch, g = CountSketch(1000, 4, 50, seed=1), vector(1000)
    monkeypatch.setattr(hashing, "CHUNK", 4000)  # one block
    payload, estimate = sketch.compress(g), sketch.estimate(sketch.compress(g))

    monkeypatch.setattr(hashing, "CHUNK", chunk)

    assert torch.equal(sketch.compress(g).table, payload.table)
    assert torch.equal(sketch.estimate(payload), estimate)


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


def broken_signs(whole):
    return lambda self, *where: whole(self, *where) % self.columns


def broken_buckets(whole):
    """Coordinates 2i and 2i + 1 always meet, with the same sign."""

    def cells(self, start, stop, device):
        return whole(self, 0, stop, device)[:, torch.arange(start, stop) // 2]

    return cells


@pytest.mark.parametrize("broken", [broken_signs, broken_buckets])
def test_the_check_of_bias_rejects_a_broken_hash(monkeypatch, broken):
    monkeypatch.setattr(HashFamily, "cells", broken(HashFamily.cells))
    assert worst_bias() > 4


def test_the_variance_of_one_row_is_within_its_bound():
    g = vector(30)
    errors = []
    for seed in range(N_SEEDS):
        sketch = CountSketch(30, 1, 10, seed)
        errors.append(sketch.estimate(sketch.compress(g)) - g)
    variance = torch.stack(errors).square().mean(dim=0)
    exact = (g.norm() ** 2 - g**2) / 10  # pairwise buckets, 4-wise signs
    assert (variance / exact - 1).abs().max() < 0.2


def missed_heavy_hitters(tau: float, rows: int, columns: int) -> int:
    """Of 100 seeds, how many miss a coordinate with g_i^2 >= tau ||g||^2."""
    length, places = 3000, torch.tensor([10, 999, 1500, 2998])
    g = vector(length)
    g *= math.sqrt((1 - 4 * tau) / g.square().sum())
    g[places] = math.sqrt(tau) * torch.tensor([1.0, -1, 1, -1], dtype=g.dtype)
    g[places] *= 1.0001  # they stay tau-heavy after rounding
    missed = 0
    for seed in range(100):
        sketch = CountSketch(length, rows, columns, seed)
        missed += bool((sketch.decompress(sketch.compress(g))[places] == 0).any())
    return missed


def test_heavy_hitters_are_found_at_the_size_of_the_theory():
    """c = 128 / tau and r = 2.42 ln(d / delta), so r c = O(log(d / delta) / tau).

    A row's error is over sqrt(tau) ||g|| / 4 with probability at most 16 / (c tau) = 1/8
    (Chebyshev), that of the median of r rows with (4/8 * 7/8)^(r/2) = exp(-0.413 r) <= delta / d.
    Then at most 4 / tau coordinates look as large as a heavy one, and k = c // 16 keeps 8 / tau.
    """
    tau, delta = 0.15, 0.05
    rows = math.ceil(2.42 * math.log(3000 / delta))
    assert missed_heavy_hitters(tau, rows, math.ceil(128 / tau)) <= 100 * delta


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
