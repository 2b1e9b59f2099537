"""Rows that the package does not have, one of each table: a dataset without images, a noise, ..."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from fedsift.cli.main import main
from fedsift.data import (
    DATASETS,
    NOISES,
    PARTITIONS,
    SPLITS,
    Dataset,
    Location,
    Source,
    available,
    build,
    info,
)


@dataclass(frozen=True)
class Line:
    """Sample i is the point (i, -i) of class i mod 3."""

    count: int

    def read(self, dataset, split):
        labels = torch.arange(self.count) % 3

        def decode(rows):
            return torch.stack([rows, -rows], dim=1).float()

        name = f"{dataset.name}/{split}"
        return Source(name, labels, dataset.class_names, dataset.shape, decode)

    def where(self, dataset):
        return Location("made", f"{dataset.name} of {self.count}")


@pytest.fixture(autouse=True)
def line(monkeypatch):
    row = Dataset(
        name="line",
        description="points on a line",
        class_names=("a", "b", "c"),
        shape=(2,),
        model="linear",
        reader=Line(90),
        clients=4,
        samples_per_client=15,
        validation_size=30,
    )
    monkeypatch.setitem(DATASETS, "line", row)


def test_a_new_dataset_is_split_over_clients():
    data = build("line", noise="none")
    rows = torch.cat([client.ids for client in data.clients])
    assert data.shape == (2,)
    assert [len(client) for client in data.clients] == [15] * 4
    assert torch.equal(torch.cat([client.inputs[:, 0] for client in data.clients]), rows.float())
    assert torch.equal(torch.cat([client.labels for client in data.clients]), rows % 3)
    assert (len(data.validation[1]), len(data.test[1])) == (30, 90)


def test_a_new_dataset_is_listed_and_described():
    listed = available()[-1]
    assert (listed.name, listed.classes, listed.shape) == ("line", 3, (2,))
    assert (listed.where, listed.location) == ("made", "line of 90")
    assert [(split.split, split.rows, split.labels) for split in info("line")] == [
        (name, 90, {"a": 30, "b": 30, "c": 30}) for name in ("train", "test")
    ]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("list",), "made: line of 90"),
        (("info", "line"), "labels   a: 30, b: 30, c: 30"),
        (("prepare", "line"), "line test: 90 samples are ready"),
    ],
)
def test_a_new_dataset_is_known_to_the_command_line(arguments, shown, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["data", *arguments]) == 0
    assert shown in capsys.readouterr().out


def test_a_new_noise_makes_the_labels(monkeypatch):
    def first(labels, rate, classes, generator, about):
        """Give the first samples the last class."""
        noisy = labels.clone()
        noisy[: round(rate * len(labels))] = classes - 1
        return noisy

    monkeypatch.setitem(NOISES, "first", first)
    data = build("line", noise="first", rho=0.4)
    wrong = 0
    for client in data.clients:
        assert client.labels[:6].tolist() == [2] * 6
        assert torch.equal(client.labels[6:], client.true_labels[6:])
        wrong += sum(label != 2 for label in client.true_labels[:6].tolist())
    assert data.noise_rate == pytest.approx(wrong / 60)


def test_a_new_partition_decides_who_gets_what(monkeypatch):
    def by_class(pool, generator):
        return [torch.nonzero(pool.labels == c).flatten() for c in range(pool.clients)]

    monkeypatch.setitem(PARTITIONS, "by-class", by_class)
    data = build("line", partition="by-class", clients=3, noise="none")
    assert [set(client.labels.tolist()) for client in data.clients] == [{0}, {1}, {2}]
    assert sum(map(len, data.clients)) == 60  # all that validation leaves
    assert all(client.ids.tolist() == sorted(client.ids.tolist()) for client in data.clients)


def test_a_new_split_sets_the_noise_rates(monkeypatch):
    monkeypatch.setitem(SPLITS, "mild", (0.2, 0.2))
    assert build("line", split="mild").noise_rate == pytest.approx(0.2)
    assert build("line", split="mild", rho=(0.6, 0.6)).noise_rate == pytest.approx(0.6)
