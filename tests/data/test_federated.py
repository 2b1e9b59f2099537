from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from fedsift.data import ClientData, FederatedData, check_client
from fedsift.errors import DataError
from stored import Watched


def client(count: int = 4, size: int = 2) -> ClientData:
    labels = torch.arange(count) % 3
    return ClientData(torch.zeros(count, 1, size, size), labels, labels, torch.arange(count))


def federated(**changes) -> FederatedData:
    good = client()
    parts = {
        "clients": [client(), client(5)],
        "validation": (good.inputs, good.labels),
        "test": (good.inputs, good.labels),
    }
    return FederatedData("toy", class_names=("a", "b", "c"), **(parts | changes))


def test_good_data_is_kept_as_it_is():
    data = federated()
    assert (data.classes, data.shape, [len(c) for c in data.clients]) == (3, (1, 2, 2), [4, 5])


def with_nan() -> torch.Tensor:
    inputs = torch.zeros(4, 1, 2, 2)
    inputs[2, 0, 1, 1] = float("nan")
    return inputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"inputs": with_nan()}, "client 1 has NaN or infinite inputs in sample 2"),
        ({"inputs": with_nan().nan_to_num(torch.inf)}, "client 1 has NaN or infinite inputs"),
        ({"inputs": torch.zeros(3, 1, 2, 2)}, "client 1 has 3 inputs but 4 labels"),
        ({"inputs": torch.zeros(4, 1, 3, 3)}, r"client 1 has inputs of shape \[1, 3, 3\]"),
        ({"labels": torch.tensor([0, 1, 3, 0])}, "client 1 has the label 3 in sample 2"),
        ({"labels": torch.tensor([0, -1, 2, 0])}, "client 1 has the label -1 in sample 1"),
        ({"labels": torch.zeros(4)}, "client 1 has labels of type torch.float32"),
        ({"labels": torch.zeros(4, dtype=torch.bool)}, "client 1 has labels of type torch.bool"),
        ({"labels": torch.zeros(4, 3, dtype=torch.long)}, "client 1 has labels of shape"),
        ({"true_labels": torch.tensor([9, 0, 0, 0])}, r"client 1 \(true labels\) has the label 9"),
        ({"true_labels": torch.tensor([0])}, "client 1 has 4 samples but true labels of shape"),
        ({"ids": torch.arange(3)}, "client 1 has 4 samples but ids of shape"),
    ],
)
def test_bad_samples_are_refused_with_the_client_named(change, message):
    with pytest.raises(DataError, match=message):
        federated(clients=[client(), replace(client(), **change)])


EMPTY = (torch.zeros(0, 1, 2, 2), torch.zeros(0, dtype=torch.long))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clients": []}, "toy has no client"),
        ({"clients": [client(0)]}, "client 0 has no samples"),
        ({"validation": EMPTY}, "the validation set has no samples"),
        ({"test": EMPTY}, "the test set has no samples"),
        ({"test": (torch.zeros(1, 4), torch.tensor([0]))}, "the test set has inputs of shape"),
    ],
)
def test_missing_samples_are_refused(change, message):
    with pytest.raises(DataError, match=message):
        federated(**change)


def test_sites_without_names_have_numbers():
    assert federated().site_names == ("0", "1")
    assert [federated(site_names=("north", "1")).where(m) for m in (0, 1)] == [
        "site north",
        "client 1",
    ]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("north",), "there are 1 site names for 2 clients"),
        (("north", "north"), "2 sites have the name 'north'"),
        (("north", ""), "'' is not a name for a site"),
        (("north", "a/b"), "'a/b' is not a name for a site"),
        (("north", ".."), r"'\.\.' is not a name for a site"),
        (("north", "x" * 65), "is not a name for a site; use up to 64"),
        (("north", "a\n"), "is not a name for a site"),
    ],
)
def test_names_that_cannot_be_folders_are_refused(names, message):
    with pytest.raises(DataError, match=message):
        federated(site_names=names)


def test_messages_name_the_site():
    sites = [client(), replace(client(), labels=torch.tensor([0, 1, 3, 0]))]
    with pytest.raises(DataError, match="site south has the label 3 in sample 2"):
        federated(clients=sites, site_names=("north", "south"))


@pytest.mark.parametrize("samples", [1, 3, 9])
def test_stored_inputs_are_tested_for_nan_some_at_a_time(monkeypatch, samples):
    monkeypatch.setattr("fedsift.data.federated.NUMBERS", 4 * samples)
    stored = Watched(with_nan())
    with pytest.raises(DataError, match="client 0 has NaN or infinite inputs in sample 2"):
        federated(clients=[replace(client(), inputs=stored)])
    assert stored.largest == min(samples, 4)


def test_a_client_without_true_labels_is_fine():
    data = federated(clients=[replace(client(), true_labels=None)])
    assert data.clients[0].true_labels is None


def test_integer_inputs_need_no_finiteness():
    check_client(torch.ones(2, 5, dtype=torch.long), torch.tensor([0, 1]), classes=2)
