"""``fedsift data``."""

import re

import pytest

from fedsift.data import DATASETS

PLACES = {
    "digits": "embedded",
    "mnist": "hub: ylecun/mnist",
    "cifar10": "hub: uoft-cs/cifar10",
    "femnist": "hub: flwrlabs/femnist",
}


@pytest.mark.parametrize("columns", ["80", "160"])
def test_list_has_every_dataset_and_its_place(fedsift, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = fedsift("data", "list").out
    for row in DATASETS.values():
        (line,) = (line for line in out.splitlines() if line.startswith(f"  {row.name} "))
        assert f" {len(row.class_names)} " in line
        assert PLACES[row.name] in line


def test_list_shows_the_whole_path_of_missing_files(fedsift, monkeypatch):
    monkeypatch.setenv("FEDSIFT_DATA", "/data/" + "very-long-name/" * 4 + "[old]")
    lines = fedsift("data", "list").out.splitlines()
    last_column = [re.split(r"\s{2,}", line.strip())[-1] for line in lines]
    assert "/data/" + "very-long-name/" * 4 + "[old]/ylecun/mnist" in "".join(last_column)


def test_info_counts_the_labels_of_each_split(fedsift):
    out = fedsift("data", "info", "digits").out
    assert "digits train: 1297 samples\n" in out
    assert "digits test: 500 samples\n" in out
    train, test = (line for line in out.splitlines() if "labels" in line)
    counts = [int(part.partition(": ")[2]) for part in train.partition("labels")[2].split(",")]
    assert (len(counts), sum(counts)) == (10, 1297)
    assert test != train


def test_prepare_says_what_is_ready(fedsift):
    assert fedsift("data", "prepare", "digits").out.splitlines() == [
        "digits train: 1297 samples are ready",
        "digits test: 500 samples are ready",
    ]
