"""What `fedsift reproduce theory` measures, against numpy; how its files are written."""

import json

import numpy as np
import pytest
import torch

from fedsift.experiment import theory
from fedsift.experiment.theory import checks, sparsity
from fedsift.experiment.theory.checks import Check
from fedsift.experiment.theory.sparsity import Size, shares, small_network

SMALL = Size(training=2, width=1, samples=30, stages=())


def test_shares_are_those_of_the_sorted_squares():
    values = torch.randn(50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    squares = np.sort(values.numpy() ** 2)[::-1]
    expected = [squares[:k].sum() / squares.sum() for k in (1, 7, 50)]
    np.testing.assert_allclose(shares(values, [1, 7, 50]), expected)


def test_small_network_has_the_stated_size():
    net = small_network(0, 8)
    assert sum(p.numel() for p in net.parameters()) == 1898
    again = small_network(0, 8)
    for one, other in zip(net.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_small_network_is_measured(monkeypatch):
    monkeypatch.setitem(sparsity.SIZES, "quick", SMALL)
    found = sparsity.measure("quick")["small"]
    for key in ("product", "gradient_of_q", "column"):
        assert found[key][0] == pytest.approx(1.0)
        assert found[key] == sorted(found[key], reverse=True)
    assert found["matrix"][0] < 1.0
    assert 1.0 <= found["stable_rank"] <= found["parameters"]


@pytest.mark.parametrize(("rank", "holds"), [(3.0, True), (60.0, False)])
def test_a_flat_spectrum_is_no_few_dominant_values(rank, holds):
    small = {"parameters": 100, "stable_rank": rank}
    small |= {key: [0.5] * len(sparsity.RATES) for key in ("product", "gradient_of_q", "column")}
    found = sparsity._checks(small | {"matrix": [0.1] * len(sparsity.RATES)})
    assert found[-1].holds is holds


def test_a_dense_gradient_is_rejected():
    flat = [1.0 / rate for rate in sparsity.RATES]
    small = {"parameters": 100, "stable_rank": 3.0, "product": flat, "gradient_of_q": flat}
    found = sparsity._checks(small | {"column": flat, "matrix": flat})
    assert not any(check.holds for check in found[:-1])


def test_slopes_are_those_of_numpy():
    at, values = [2.0, 5.0, 11.0, 40.0], [3.0, 1.0, 0.7, 0.02]
    expected = np.polyfit(np.log(at), np.log(values), 1)[0]
    assert checks.slope(at, values) == pytest.approx(expected)
    assert np.isnan(checks.slope(at, [1.0, np.inf, 1.0, 1.0]))
    both = checks.slopes(at, [values, [v**2 for v in values]])
    assert both["mean"] == pytest.approx(1.5 * expected)
    assert both["deviation"] == pytest.approx(abs(expected) / 2**0.5)


def test_a_part_is_written_with_its_checks(tmp_path, monkeypatch):
    made = {"series": [], "checks": [Check("c", "t", "m", None).to_json()]}
    monkeypatch.setitem(theory.PARTS, "drift", lambda scale: {**made, "of": scale})
    theory.write_theory(tmp_path / "deep", "quick", ["drift"])
    written = json.loads((tmp_path / "deep" / "theory-drift.json").read_text())
    assert written["checks"] == made["checks"]
    assert (written["scale"], written["of"]) == ("quick", "quick")
    assert {"seconds", "versions"} <= written.keys()
