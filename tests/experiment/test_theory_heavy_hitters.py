"""The part on heavy hitters: its estimates against the sketch's, its checks against bad hashes."""

import torch

from fedsift.compress import CountSketch
from fedsift.experiment.theory import heavy_hitters
from fedsift.experiment.theory.heavy_hitters import (
    COLUMNS,
    Size,
    estimates,
    rotated,
    single,
    vector,
)

SMALL = Size({100: 20, 400: 20})


def test_estimates_are_those_of_the_sketch():
    g, _ = vector(200, 3)
    for rows in (5, 9):
        sketch = CountSketch(200, rows, COLUMNS, seed=7)
        expected = sketch.estimate(sketch.compress(g))
        found = estimates(rotated(7, 25, 200), g)[:rows].median(dim=0).values
        torch.testing.assert_close(found, expected)


def test_the_vector_has_the_heavy_hitters_that_are_said():
    g, places = vector(500, 0)
    assert float(g.norm()) == 1.0 or abs(float(g.norm()) - 1.0) < 1e-12
    torch.testing.assert_close(g[places].square(), torch.full((4,), 0.1).double())


def test_one_row_over_and_over_is_rejected(monkeypatch):
    monkeypatch.setitem(heavy_hitters.SIZES, "quick", SMALL)

    def same_row(seed, rows, length):
        return single(seed, 1, length).expand(rows, -1)

    found = heavy_hitters.measure(
        "quick", {"rotated": same_row, "each coordinate by itself": single}
    )
    first, second, compared = found["checks"]
    assert first["holds"] is False
    assert second["holds"] is True
    assert compared["holds"] is False
