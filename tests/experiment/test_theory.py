"""What `fedsift reproduce theory` measures, against numpy and closed forms."""

import json

import numpy as np
import pytest
import torch

from fedsift.experiment.theory import (
    SIZES,
    Size,
    iterative_errors,
    non_iterative_errors,
    shares,
    small_network,
    write_theory,
)

SMALL = Size(draws=3, iterations=(30, 60), r1=(2, 8, 32), training=2, width=1, samples=30)


def test_shares_are_those_of_the_sorted_squares():
    values = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    squares = np.sort(values.numpy() ** 2)[::-1]
    expected = [squares[:k].sum() / squares.sum() for k in (1, 7, 50)]
    np.testing.assert_allclose(shares(values, [1, 7, 50]), expected)


@pytest.mark.parametrize("name", ["topk", "count-sketch"])
def test_iterative_error_falls_faster_than_the_bound(name):
    found = iterative_errors(name, SMALL)
    assert found["slope"] < -1.0
    first, last = np.log(found["median"])
    assert found["slope"] == pytest.approx((last - first) / np.log(2))


def test_non_iterative_error_is_never_below_what_the_subspace_allows():
    found = non_iterative_errors(SMALL, length=20)
    assert found["floor"][0] == pytest.approx(np.sqrt(1 - 2 / 20), abs=0.1)
    assert found["floor"] == sorted(found["floor"], reverse=True)
    assert all(e >= f for e, f in zip(found["median"], found["floor"], strict=True))
    assert found["median"][0] > found["median"][-1]


def test_small_network_has_the_stated_size():
    net = small_network(0, 8)
    assert sum(p.numel() for p in net.parameters()) == 1898
    again = small_network(0, 8)
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_file_has_all_three_parts(tmp_path, monkeypatch):
    monkeypatch.setitem(SIZES, "quick", SMALL)
    path = tmp_path / "deep" / "theory.json"
    write_theory(path, "quick")
    measured = json.loads(path.read_text())
    assert set(measured["iterative"]) == {"topk", "count-sketch"}
    sparse = measured["sparsity"]
    for key in ("product", "gradient_of_q", "column"):
        assert sparse[key][0] == pytest.approx(1.0)
        assert sparse[key] == sorted(sparse[key], reverse=True)
    assert sparse["matrix"][0] < 1.0
    assert 1.0 <= sparse["stable_rank"] <= sparse["parameters"]
