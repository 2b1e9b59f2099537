from __future__ import annotations

import shutil
import sys
from pathlib import Path

import huggingface_hub
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub.utils import filter_repo_objects

from fedsift.data import DATASETS, load
from fedsift.data.hub import HubImages
from fedsift.errors import DataError

LABELS = [7, 0, 9, 3, 3, 1, 2, 8, 4, 5]


@pytest.mark.parametrize(
    "files",
    [
        ["train.parquet"],
        ["train-00000-of-00001.parquet"],
        ["mnist/train-00000-of-00001.parquet"],
        ["mnist/train-00000-of-00002.parquet", "mnist/train-00001-of-00002.parquet"],
    ],
)
def test_images_of_any_layout_are_the_pixels_standardised(
    files, data_root, write_images, mnist_pixels
):
    for file, rows in zip(files, np.array_split(np.arange(10), len(files)), strict=True):
        labels = [LABELS[r] for r in rows]
        write_images(data_root / "ylecun/mnist" / file, mnist_pixels[rows], label=labels)
    source = load("mnist", "train")
    rows = [8, 0, 5, 8, 2]
    expected = (mnist_pixels[rows].astype(np.float64) / 255 - 0.1307) / 0.3081
    assert source.labels.tolist() == LABELS
    np.testing.assert_allclose(
        source.inputs(torch.tensor(rows)).numpy()[:, 0], expected, rtol=1e-5, atol=1e-6
    )


def test_colour_images_have_three_channels(data_root, write_images):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3), dtype=np.uint8)
    path = data_root / "uoft-cs/cifar10/plain_text/test-00000-of-00001.parquet"
    write_images(path, pixels, column="img", label=[0, 9, 1])
    inputs = load("cifar10", "test").inputs(torch.tensor([2, 1]))
    mean, std = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
    expected = ((pixels[[2, 1]] / 255 - mean) / std).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(inputs.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_black_and_white_images_become_0_and_255(data_root, write_images):
    bits = np.random.default_rng(0).random((1, 28, 28)) < 0.5
    write_images(data_root / "ylecun/mnist/test.parquet", bits, label=[0])
    inputs = load("mnist", "test").inputs(torch.tensor([0]))
    np.testing.assert_allclose(inputs[0, 0] * 0.3081 + 0.1307, bits[0], atol=1e-6)


def test_writers_are_numbered_over_all_files(data_root, write_images, mnist_pixels):
    folder = data_root / "flwrlabs/femnist/data"
    for shard, writers in enumerate([["b", "b", "a"], ["a", "c", "b"]]):
        write_images(
            folder / f"train-0000{shard}-of-00002.parquet",
            mnist_pixels[:3],
            writer_id=writers,
            character=[61, 0, 10],
        )
    source = load("femnist", "train")
    assert source.groups.tolist() == [0, 0, 1, 1, 2, 0]
    assert [source.class_names[c] for c in source.labels[:3].tolist()] == ["z", "0", "A"]


def test_without_a_local_folder_the_split_is_downloaded(
    tmp_path, monkeypatch, write_images, mnist_pixels
):
    repository, cache, calls = tmp_path / "repository", tmp_path / "cache", []
    for split in ("train", "test"):
        path = repository / f"mnist/{split}-00000-of-00001.parquet"
        write_images(path, mnist_pixels, label=LABELS)

    def snapshot_download(repo_id, *, repo_type, allow_patterns):
        calls.append((repo_id, repo_type))
        names = [str(p.relative_to(repository)) for p in repository.rglob("*.parquet")]
        for name in filter_repo_objects(names, allow_patterns=allow_patterns):
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(repository / name, cache / name)
        return str(cache)

    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    assert load("mnist", "train").labels.tolist() == LABELS
    assert calls == [("ylecun/mnist", "dataset")]
    assert [p.name for p in cache.rglob("*.parquet")] == ["train-00000-of-00001.parquet"]


def test_a_failed_download_says_how_to_go_on_without(monkeypatch):
    def snapshot_download(*_args, **_options):
        raise ConnectionError("no route to host")

    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(DataError, match=r"ylecun/mnist.*no route to host.*FEDSIFT_DATA"):
        load("mnist", "train")


def test_without_the_extra_a_download_says_what_to_install(monkeypatch):
    monkeypatch.delenv("FEDSIFT_DATA", raising=False)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DataError, match=r"huggingface_hub; run pip install 'fedsift\[hub\]'"):
        load("mnist", "train")


@pytest.mark.usefixtures("tiny_mnist")
def test_without_the_extra_an_image_says_what_to_install(monkeypatch):
    source = load("mnist", "train")
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DataError, match=r"pillow; run pip install 'fedsift\[hub\]'"):
        source.inputs(torch.tensor([0]))


@pytest.fixture
def mnist_file(data_root) -> Path:
    return data_root / "ylecun/mnist/train.parquet"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label": [0, 10]}, "labels from 0 to 10; mnist has the classes 0 to 9"),
        ({"label": [-1, 1]}, "labels from -1 to 1"),
        ({"label": ["0", "1"]}, "type string"),
        ({"label": pa.array([0, None])}, "empty in 1 rows"),
        ({"target": [0, 1]}, "it has image, target"),
    ],
)
def test_bad_labels_name_file_and_column(columns, message, mnist_file, write_images, mnist_pixels):
    write_images(mnist_file, mnist_pixels[:2], **columns)
    with pytest.raises(DataError) as raised:
        load("mnist", "train")
    assert message in str(raised.value)
    assert str(mnist_file) in str(raised.value)
    assert "'label'" in str(raised.value)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: data[: len(data) // 2], "not a readable PNG"),
        (lambda _: b"GIF89a", "not a readable PNG"),
        (lambda _: None, "has no image"),
        (lambda _: np.zeros((28, 28, 3), np.uint8), "mode RGB and size 28x28"),
        (lambda _: np.zeros((27, 28), np.uint8), "mode L and size 28x27"),
    ],
)
def test_a_bad_image_is_named_and_harms_no_other(
    spoil, message, mnist_file, write_images, mnist_pixels
):
    write_images(mnist_file, mnist_pixels[:1], label=[0])
    good = pq.read_table(mnist_file)["image"][0].as_py()["bytes"]
    write_images(mnist_file, [good, good, spoil(good)], label=[0, 1, 2])
    source = load("mnist", "train")
    assert len(source.inputs(torch.tensor([0, 1]))) == 2
    with pytest.raises(DataError) as raised:
        source.inputs(torch.tensor([1, 2]))
    assert message in str(raised.value)
    assert f"row 2 of column 'image' of {mnist_file}" in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "message"),
    [({"label": [0]}, "no column 'image'"), ({"image": [b""], "label": [0]}, "type binary")],
)
def test_a_file_without_images_is_refused(columns, message, mnist_file):
    mnist_file.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), mnist_file)
    source = load("mnist", "train")
    with pytest.raises(DataError, match=message):
        source.inputs(torch.tensor([0]))


def test_a_file_that_is_not_parquet_is_named(mnist_file):
    mnist_file.parent.mkdir(parents=True)
    mnist_file.write_bytes(b"<html>not found</html>")
    with pytest.raises(DataError, match=rf"{mnist_file} cannot be read as parquet"):
        load("mnist", "train")


def test_a_file_without_rows_is_refused(mnist_file, write_images):
    write_images(mnist_file, [], label=pa.array([], pa.int64()))
    with pytest.raises(DataError, match=rf"{mnist_file} has no rows"):
        load("mnist", "train")


def test_a_missing_file_says_where_it_was_expected(data_root):
    with pytest.raises(DataError, match=rf"train\.parquet .* {data_root}/ylecun/mnist"):
        load("mnist", "train")


def test_a_missing_shard_is_noticed(data_root, write_images, mnist_pixels):
    path = data_root / "ylecun/mnist/mnist/train-00001-of-00003.parquet"
    write_images(path, mnist_pixels, label=LABELS)
    with pytest.raises(DataError, match="has 1 of the 3 files"):
        load("mnist", "train")


def test_the_rows_have_a_mean_and_a_deviation_per_channel():
    for row in DATASETS.values():
        if isinstance(row.reader, HubImages):
            assert len(row.reader.mean) == len(row.reader.std) == row.shape[0]
