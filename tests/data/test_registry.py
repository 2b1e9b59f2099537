from __future__ import annotations

import pytest

from fedsift.data import available, info, load
from fedsift.errors import DataError


def places() -> dict[str, str]:
    return {dataset.name: dataset.where for dataset in available()}


def test_without_a_local_folder_datasets_are_on_the_hub(monkeypatch):
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    assert places() == {
        "digits": "embedded",
        "cifar10-features": "missing",
        **dict.fromkeys(("mnist", "cifar10", "femnist"), "hub"),
    }


@pytest.mark.usefixtures("tiny_mnist", "tiny_femnist")
def test_with_a_local_folder_datasets_are_there_or_missing():
    expected = {"digits": "embedded", "mnist": "path", "cifar10": "missing", "femnist": "path"}
    assert places() == expected | {"cifar10-features": "missing"}


def test_a_missing_shard_does_not_stop_the_listing(tiny_mnist):
    (tiny_mnist / "train.parquet").rename(tiny_mnist / "train-00000-of-00002.parquet")
    assert places()["mnist"] == "path"


def test_listing_gives_the_facts_of_a_dataset(monkeypatch):
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    femnist = available()[-1]
    assert (femnist.name, femnist.classes, femnist.shape, femnist.location) == (
        "femnist",
        62,
        (1, 28, 28),
        "flwrlabs/femnist",
    )


def test_info_counts_rows_labels_and_writers(tiny_femnist):
    (train,) = info("femnist")
    labels = [i * 7 % 62 for i in range(48)]
    assert (train.split, train.rows, train.writers) == ("train", 48, 12)
    assert train.files == (str(tiny_femnist / "data/train-00000-of-00001.parquet"),)
    assert train.columns["image"] == "struct<bytes: binary, path: string>"
    assert list(train.labels.values()) == [labels.count(c) for c in range(62)]


def test_info_on_embedded_data_has_no_file():
    train, test = info("digits")
    assert (train.files, train.columns, train.writers) == ((), {}, None)
    assert sum(train.labels.values()) + sum(test.labels.values()) == 1797


def test_an_unknown_dataset_lists_the_known_and_a_close_one():
    with pytest.raises(
        DataError, match="digits, mnist, cifar10, cifar10-features, femnist; did you mean 'mnist'"
    ):
        load("minst", "train")


def test_a_name_like_no_other_gets_no_hint():
    with pytest.raises(DataError, match=r"digits, mnist, cifar10, cifar10-features, femnist$"):
        info("imagenet-22k")


def test_an_unknown_split_lists_the_known():
    with pytest.raises(DataError, match="femnist has no split 'test'; it has train"):
        load("femnist", "test")
