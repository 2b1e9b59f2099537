from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fedsift as fs
from fedsift.data.sources import spool
from fedsift.data.sources.file_rows import FileRows
from fedsift.data.sources.spool import spooled
from fedsift.errors import DataError

NUMBERS = np.random.default_rng(0).normal(size=(500, 7)).astype(np.float32)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Let nearly nothing be held in memory, and look at where it goes."""
    monkeypatch.setattr(spool, "HELD", 3000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def pieces():
    return (NUMBERS[start : start + 60] for start in range(0, 500, 60))


def test_small_arrays_stay_as_they_are():
    assert all(isinstance(part, np.ndarray) for part in spooled(pieces(), "a file"))


def test_large_arrays_are_read_from_a_file_without_a_name(small):
    (found,) = spooled(pieces(), "a file")
    assert isinstance(found, FileRows)
    assert list(small.iterdir()) == []
    rows = np.array([499, 3, 4, 5, 0, 60, 60, 61])
    np.testing.assert_array_equal(found[rows], NUMBERS[rows])
    np.testing.assert_array_equal(found[np.arange(500)], NUMBERS)
    assert found[np.arange(0)].shape == (0, 7)


@pytest.mark.parametrize("odd", [NUMBERS[:5, :6], NUMBERS[:5].astype(np.float64)])
def test_pieces_that_differ_are_refused_and_leave_no_file(small, odd):
    with pytest.raises(DataError, match="a file has inputs that differ"):
        spooled([NUMBERS, odd], "a file")
    assert list(small.iterdir()) == []


def test_a_full_disk_is_a_sentence(small, monkeypatch):
    def full(*_args, **_more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "ascontiguousarray", full)
    with pytest.raises(DataError, match=r"no room.*TMPDIR"):
        spooled(pieces(), "a file")
    assert list(small.iterdir()) == []


def test_features_in_parquet_are_read_by_row_groups(small, tmp_path):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(NUMBERS.ravel()), 7)
    table = pa.table({"inputs": lists, "label": ["ab"[n % 2] for n in range(500)]})
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, start in enumerate((0, 250)):
        part = table.slice(start, 250)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=40)
    inputs = fs.read(folder).content.inputs
    rows = torch.tensor([499, 0, 250, 251, 39, 40])
    assert isinstance(inputs.parts[0], FileRows)
    assert torch.equal(inputs.take(rows), torch.from_numpy(NUMBERS)[rows])
