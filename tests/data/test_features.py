"""Features in parquet: small files as they are, wrong ones refused, the real ones."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fedsift.data import build, effective_rate, info, load
from fedsift.errors import DataError

FOLDER = "features/cifar10-efficientnet-lite0"
NAME = "cifar10-features"
NUMBERS = np.random.default_rng(0).normal(size=(40, 1280)).astype(np.float16)


def write(root, split, count, **columns):
    path = root / FOLDER / f"{split}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pa.list_(pa.float16(), 1280)
    cells = pa.FixedSizeListArray.from_arrays(pa.array(NUMBERS[:count].ravel()), type=kind)
    labels = {"label": [i % 10 for i in range(count)]}
    pq.write_table(pa.table({"inputs": cells, **labels, **columns}), path)


@pytest.fixture
def tiny_features(data_root):
    people = {f"human_{h}": [(i + h) % 10 for i in range(40)] for h in (1, 2, 3)}
    write(data_root, "train", 40, **people)
    write(data_root, "test", 10)
    return data_root


@pytest.mark.usefixtures("tiny_features")
def test_inputs_and_labels_are_those_of_the_file():
    source = load(NAME, "train")
    rows = torch.tensor([17, 3, 17])
    assert torch.equal(source.inputs(rows), torch.from_numpy(NUMBERS)[rows].float())
    assert source.given["human_2"].tolist() == [(i + 2) % 10 for i in range(40)]
    assert load(NAME, "test").given == {}


@pytest.mark.usefixtures("tiny_features")
@pytest.mark.parametrize(("column", "shift"), [("", 1), ("human_3", 3)])
def test_people_s_labels_go_to_the_clients_and_true_ones_to_the_server(column, shift):
    sizes = {"clients": 3, "samples_per_client": 8, "validation_size": 10}
    data = build(NAME, noise="human", noise_column=column, **sizes)
    for client in data.clients:
        assert torch.equal(client.labels, (client.true_labels + shift) % 10)
    assert data.noise_rate == 1.0
    at = [
        int((torch.from_numpy(NUMBERS).float() == x).all(dim=1).nonzero())
        for x in data.validation[0]
    ]
    assert data.validation[1].tolist() == [row % 10 for row in at]


def test_a_missing_file_is_named(data_root):
    with pytest.raises(
        DataError, match=f"there is no {data_root}.*train.parquet; put the features"
    ):
        load(NAME, "train")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([[1.0, 2.0]] * 10, "has 20 numbers in 10 rows; 1280 per row were expected"),
        ([1.0] * 10, "has type double; features must be lists"),
    ],
)
def test_a_column_of_another_kind_is_refused(data_root, cells, message):
    path = data_root / FOLDER / "train.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"inputs": cells, "label": list(range(10))}), path)
    with pytest.raises(DataError, match=message):
        load(NAME, "train").inputs(torch.tensor([0]))


REAL = Path(os.environ.get("FEDSIFT_DATA", "")) / FOLDER
here = pytest.mark.skipif(not REAL.is_dir(), reason=f"FEDSIFT_DATA has no {FOLDER}")


@here
def test_the_real_features_have_people_s_labels_of_which_about_18_percent_are_wrong():
    train, test = info(NAME)
    source = load(NAME, "train")
    assert (train.rows, test.rows, set(train.labels.values())) == (10_000, 2_000, {1000})
    for column in ("human_1", "human_2", "human_3"):
        assert 0.16 < effective_rate(source.given[column], source.labels) < 0.20


@here
def test_instance_noise_on_the_real_features_makes_cats_dogs():
    data = build(NAME, noise="instance", rho=0.3)
    labels, true = (
        torch.cat([getattr(c, n) for c in data.clients]) for n in ("labels", "true_labels")
    )
    names = data.class_names
    cats = labels[true == names.index("cat")].bincount(minlength=10)
    cats[names.index("cat")] = 0
    assert names[int(cats.argmax())] == "dog"
    assert data.noise_rate == pytest.approx(0.3)
