"""One file and one row: a new part of each kind runs end to end, from key to run folder."""

import json
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import torch

from fedsift.algorithms import FedAvg, LocalSteps, RoundInfo, ServerState
from fedsift.algorithms.comm_fedbio import with_estimator
from fedsift.algorithms.method import Method
from fedsift.algorithms.registry import METHODS
from fedsift.client import ACTIONS
from fedsift.client.state import Outcome
from fedsift.compress import COMPRESSORS, ClientFeedback, RateKeys, Sparse
from fedsift.compress.registry import Row
from fedsift.data import DATASETS, NOISES, PARTITIONS
from fedsift.data.dataset import Dataset, Location, Source
from fedsift.experiment.run import execute, read_config
from fedsift.hypergradient import Exact
from fedsift.hypergradient.settings import CurvatureKeys, EstimatorRow, curvature_of
from fedsift.keys import Keys, key
from fedsift.messages import Cohort, Request
from fedsift.randomness import generator


@dataclass(frozen=True)
class First:
    """Sends the first k numbers."""

    length: int
    k: int
    linear = True

    @property
    def numbers(self):
        return self.k

    def compress(self, g):
        return Sparse(torch.arange(self.k), g[: self.k], self.length)

    def decompress(self, payload):
        return torch.zeros(self.length).index_put_((payload.indices,), payload.values)

    def spec(self):
        return {"name": "first", "length": self.length, "k": self.k}


def build_first(settings, context):
    return First(context.length, int(context.length / settings[RateKeys].rate))


def test_a_compressor(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(COMPRESSORS, "first", Row(First, build_first, ClientFeedback))
    first, dense = (
        execute(tiny("single-loop", compressor=name, rounds=2), tmp_path / name).summary
        for name in ("first", "identity")
    )
    assert read_config(tmp_path / "first").value("compressor") == "first"
    assert first["bytes_up"] < dense["bytes_up"]


def test_an_estimator(tmp_path, tiny, monkeypatch):
    row = EstimatorRow("exact", (CurvatureKeys,), lambda keys, _: Exact(curvature_of(keys)))
    monkeypatch.setitem(METHODS, "exact", with_estimator(row))
    summary = execute(tiny("exact", rounds=2), tmp_path).summary
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
    mine = execute(tiny("mine", pace=0.3, rounds=2), tmp_path / "mine").summary
    fedavg = execute(tiny("fedavg", inner_lr=0.3, rounds=2), tmp_path / "fedavg").summary
    assert read_config(tmp_path / "mine").value("pace") == 0.3
    assert mine["validation_loss"] == fedavg["validation_loss"]


@dataclass(frozen=True)
class Counting:
    """A method that only asks its clients a new question."""

    def round(self, federation, server, state, k):
        answers = Cohort(federation, tuple(federation.sizes)).ask(Request("labels", k))
        return RoundInfo({"zeros": sum(answers.numbers("zeros"))}), ServerState(state.y)


def count_zeros(client, state, request, shared):
    return Outcome({}, {"zeros": int((client.batch.labels == 0).sum())}, state)


def test_an_action(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(ACTIONS, "labels", count_zeros)
    monkeypatch.setitem(METHODS, "counting", Method("mine", (), lambda *_: Counting()))
    execute(tiny("counting", rounds=1, noise="none"), tmp_path)
    record = json.loads((tmp_path / "rounds.jsonl").read_text())
    assert 0 < record["zeros"] < 20
    assert record["exchanges"] == 1


def to_zero(labels, rate, classes, generator, about):
    """Give the first samples of a client the class 0."""
    return labels.masked_fill(torch.arange(len(labels)) < rate * len(labels), 0)


def test_a_noise(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(NOISES, "to-zero", to_zero)
    summary = execute(tiny("single-loop", noise="to-zero", rho=0.5, rounds=1), tmp_path).summary
    table = pd.read_parquet(tmp_path / "clients" / "0" / "weights.parquet")
    assert (table["label"][:10] == 0).all()
    assert 0.3 < summary["noise_rate"] <= 0.5  # some had the class 0 before


def in_turn(pool, generator):
    """Deal the samples out in turn."""
    return [torch.arange(m, len(pool.used), pool.clients) for m in range(pool.clients)]


def test_a_partition(tmp_path, tiny, monkeypatch):
    monkeypatch.setitem(PARTITIONS, "in-turn", in_turn)
    summary = execute(tiny("fedavg", partition="in-turn", rounds=1), tmp_path).summary
    assert read_config(tmp_path).partition == "in-turn"
    assert summary["clients"] == 2


class Blobs:
    """Reads rows of numbers that need no file: two classes, two columns."""

    def read(self, dataset, split):
        labels = torch.arange(200) % 2
        noise = torch.randn(200, 2, generator=generator("blobs", split))
        rows = noise + 4.0 * labels[:, None]
        return Source(split, labels, dataset.class_names, dataset.shape, lambda at: rows[at])

    def where(self, dataset):
        return Location("embedded", "this test")


def test_a_dataset_that_is_not_of_images(tmp_path, tiny, monkeypatch):
    row = Dataset("blobs", "two blobs", ("no", "yes"), (2,), "linear", Blobs())
    monkeypatch.setitem(DATASETS, "blobs", row)
    summary = execute(tiny("single-loop", dataset="blobs", rounds=6), tmp_path).summary
    assert summary["dataset"] == "blobs"
    assert summary["test_accuracy"] > 0.9
