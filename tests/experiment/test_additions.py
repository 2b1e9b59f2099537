"""One file and one row: a new compressor, estimator or method runs end to end."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedsift.algorithms import FedAvg, LocalSteps
from fedsift.algorithms.comm_fedbio import with_estimator
from fedsift.algorithms.method import Method
from fedsift.algorithms.registry import METHODS
from fedsift.compress import COMPRESSORS, ClientFeedback, RateKeys, Sparse
from fedsift.compress.registry import Row
from fedsift.experiment.run import execute, read_config
from fedsift.hypergradient import Exact
from fedsift.hypergradient.settings import CurvatureKeys, EstimatorRow, curvature_of
from fedsift.keys import Keys, key


@dataclass(frozen=True)
class First:
    """Sends the first k numbers."""

    length: int
    k: int

    @property
    def numbers(self):
        return self.k

    def compress(self, g):
        return Sparse(torch.arange(self.k), g[: self.k], self.length)

    def decompress(self, payload):
        return torch.cat((payload.values, payload.values.new_zeros(self.length - self.k)))

    def spec(self):
        return {"name": "first", "length": self.length, "k": self.k}


def build_first(settings, context):
    return First(context.length, int(context.length / settings[RateKeys].rate))


def test_a_compressor(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(COMPRESSORS, "first", Row(First, build_first, ClientFeedback))
    first, dense = (
        execute(tiny("single-loop", compressor=name, rounds=2), tmp_path / name)
        for name in ("first", "identity")
    )
    assert read_config(tmp_path / "first").value("compressor") == "first"
    assert first["bytes_up"] < dense["bytes_up"]


def test_an_estimator(tmp_path, tiny, monkeypatch):
    row = EstimatorRow("exact", (CurvatureKeys,), lambda keys, _: Exact(curvature_of(keys)))
    monkeypatch.setitem(METHODS, "exact", with_estimator(row))
    summary = execute(tiny("exact", rounds=2), tmp_path)
    assert summary["hypergradient"]["residual"] < 1e-3
    assert summary["f1"] is not None


@dataclass(frozen=True)
class PaceKeys(Keys):
    table: ClassVar[str] = "inner"
    pace: float = key(0.2, "step size", low=0)


def build_mine(settings, context):
    return FedAvg(LocalSteps(2, settings[PaceKeys].pace, 8))


def test_a_method(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(METHODS, "mine", Method("mine", (PaceKeys,), build_mine))
    mine = execute(tiny("mine", pace=0.3, rounds=2), tmp_path / "mine")
    fedavg = execute(tiny("fedavg", inner_lr=0.3, rounds=2), tmp_path / "fedavg")
    assert read_config(tmp_path / "mine").value("pace") == 0.3
    assert mine["validation_loss"] == fedavg["validation_loss"]
