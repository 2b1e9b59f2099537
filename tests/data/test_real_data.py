"""The real files, where FEDSIFT_DATA says they are; few rows are decoded."""

from __future__ import annotations

import io
import os

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from fedsift.data import DATASETS, build, info, load

pytestmark = pytest.mark.skipif("FEDSIFT_DATA" not in os.environ, reason="FEDSIFT_DATA is not set")


@pytest.mark.parametrize("name", ["mnist", "cifar10", "femnist"])
def test_decoded_pixels_are_those_of_pillow(name):
    row, source = DATASETS[name], load(name, "train")
    reader = row.reader
    file = pq.ParquetFile(source.files[0])
    first = file.read_row_group(0, columns=[reader.image_column])
    rows = [17, 3, 99]
    images = [first[reader.image_column][r].as_py()["bytes"] for r in rows]
    pixels = np.stack([np.asarray(Image.open(io.BytesIO(image))) for image in images])
    pixels = pixels.reshape(3, *row.shape[1:], row.shape[0]) / 255
    expected = ((pixels - np.array(reader.mean)) / np.array(reader.std)).transpose(0, 3, 1, 2)
    decoded = source.inputs(torch.tensor(rows)).numpy()
    np.testing.assert_allclose(decoded, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["mnist", "cifar10", "femnist"])
def test_a_sample_of_the_inputs_is_standardised(name):
    source = load(name, "train")
    inputs = source.inputs(torch.arange(0, len(source), len(source) // 1000))
    assert inputs.mean((0, 2, 3)).abs().max() < 0.05
    assert (inputs.std((0, 2, 3)) - 1).abs().max() < 0.05


def test_mnist_is_complete():
    train, test = info("mnist")
    assert list(train.labels.values()) == [
        *(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
    ]
    assert (train.rows, test.rows) == (60_000, 10_000)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_the_papers_federation(name):
    data = build(name, split="non-iid", test_size=100)
    ids = torch.cat([client.ids for client in data.clients]).tolist()
    assert [len(client) for client in data.clients] == [500] * 10
    assert len(set(ids)) == 5000
    assert (len(data.validation[1]), len(data.test[1])) == (500, 100)


def test_the_papers_femnist_federation():
    data = build("femnist", samples_per_client=100, validation_size=100, test_size=100)
    groups = load("femnist", "train").groups
    writers = [set(groups[client.ids].tolist()) for client in data.clients]
    assert [len(client) for client in data.clients] == [100] * 10
    assert sum(map(len, writers)) == len(set.union(*writers)) <= 350
