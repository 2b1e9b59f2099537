"""Corrected labels against the table that they come from."""

from dataclasses import replace

import pandas as pd
import pytest
import torch

from fedsift.data import ClientData, FederatedData, apply_corrections
from fedsift.errors import DataError
from fedsift.problem.inputs import whole
from stored import Watched


@pytest.fixture
def data():
    def client(labels):
        labels = torch.tensor(labels)
        inputs = torch.arange(len(labels)).float()[:, None]
        return ClientData(inputs, labels, torch.zeros_like(labels), torch.arange(len(labels)) + 10)

    held = (torch.zeros(2, 1), torch.tensor([0, 1]))
    clients = [client([0, 1, 1]), client([1, 0])]
    return FederatedData("own", clients, held, held, ("a", "b", "c"), noise_rate=0.6)


def table(*rows):
    return pd.DataFrame(rows, columns=["site", "index", "class", "unusable"])


def write(path, *rows):
    table(*rows).to_parquet(path)
    return path


def test_labels_are_replaced_and_unusable_samples_left_out(data, tmp_path):
    path = write(tmp_path / "c.parquet", (0, 2, 0, False), (0, 1, 1, True))
    new = apply_corrections(data, path)
    assert new.clients[0].labels.tolist() == [0, 0]
    assert new.clients[0].inputs.flatten().tolist() == [0, 2]
    assert new.clients[0].ids.tolist() == [10, 12]
    assert new.clients[1].labels.tolist() == [1, 0]  # not in the file
    assert new.noise_rate == pytest.approx(1 / 4)
    assert data.clients[0].labels.tolist() == [0, 1, 1]  # the given data stay as they are


def test_stored_samples_are_left_out_unread(data, tmp_path):
    stored = Watched(data.clients[0].inputs)
    data = replace(data, clients=[replace(data.clients[0], inputs=stored), data.clients[1]])
    path = write(tmp_path / "c.parquet", (0, 1, 1, True))
    new = apply_corrections(data, path).clients[0]
    assert not torch.is_tensor(new.inputs)
    assert whole(new.inputs).flatten().tolist() == [0, 2]


def test_a_folder_is_all_its_files(data, tmp_path):
    write(tmp_path / "0.parquet", (0, 0, 2, False))
    write(tmp_path / "1.parquet", (1, 0, 2, False))
    new = apply_corrections(data, tmp_path)
    assert [c.labels[0].item() for c in new.clients] == [2, 2]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(2, 0, 0, False)], "has the site 2"),
        ([(0, 3, 0, False)], "has an index above 2"),
        ([(0, -1, 0, False)], "below 0"),
        ([(0, 0, 3, False)], "a class outside 0 to 2"),
        ([(0, 0, 1, False), (0, 0, 2, False)], "a sample twice"),
        ([(1, 0, 0, True), (1, 1, 0, True)], "no usable sample"),
    ],
)
def test_what_does_not_fit_is_refused(data, tmp_path, rows, said):
    with pytest.raises(DataError, match=said):
        apply_corrections(data, write(tmp_path / "c.parquet", *rows))


def test_files_that_are_none(data, tmp_path):
    with pytest.raises(DataError, match="no corrected labels at"):
        apply_corrections(data, tmp_path / "none.parquet")
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        apply_corrections(data, tmp_path / "x.parquet")
    pd.DataFrame({"site": [0]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="no column 'index'"):
        apply_corrections(data, tmp_path / "x.parquet")
