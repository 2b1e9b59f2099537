"""The files of a run folder, one at a time."""

import json
import math

import pytest
import torch

from fedsift.audit import SiteRecord, read_record, sites_of
from fedsift.errors import InputError
from fedsift.experiment.run_folder import RunFolder

RECORDS = [{"round": 1, "loss": 0.5}, {"round": 2, "loss": 0.25}, {"round": 3, "loss": 0.125}]


@pytest.fixture
def folder(tmp_path, tiny) -> RunFolder:
    folder = RunFolder(tmp_path / "deep" / "run")
    folder.open(tiny())
    return folder


def test_records_are_lines_of_json(folder):
    for record in RECORDS:
        folder.append(record)
    assert [json.loads(line) for line in folder.rounds.read_text().splitlines()] == RECORDS


def test_numbers_that_json_does_not_know_become_null(folder):
    folder.append({"a": math.nan, "b": [math.inf, 1.0], "c": {"d": -math.inf}})
    assert json.loads(folder.rounds.read_text()) == {"a": None, "b": [None, 1.0], "c": {"d": None}}


@pytest.mark.parametrize("torn", ["", '{"round": 4, "lo', '{"round": 4}\n{"rou'])
def test_lines_after_the_checkpoint_are_dropped(folder, torn):
    for record in RECORDS:
        folder.append(record)
    with folder.rounds.open("a") as file:
        file.write(torn)
    assert folder.keep_rounds(2) == RECORDS[:2]
    folder.append(RECORDS[2])
    assert [json.loads(line) for line in folder.rounds.read_text().splitlines()] == RECORDS


def test_too_few_lines_for_the_checkpoint_are_refused(folder):
    folder.append(RECORDS[0])
    with pytest.raises(InputError, match="has 1 rounds but the checkpoint has 2"):
        folder.keep_rounds(2)


@pytest.mark.parametrize("name", ["config.toml", "rounds.jsonl"])
def test_folder_with_a_run_is_not_free(tmp_path, name):
    RunFolder(tmp_path).check_free()
    (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"already holds a run; add --resume .* --out"):
        RunFolder(tmp_path).check_free()


def test_file_in_the_way_is_refused(tmp_path, tiny):
    (tmp_path / "run").touch()
    with pytest.raises(InputError, match=r"cannot write to .*run"):
        RunFolder(tmp_path / "run").open(tiny())


def test_a_record_is_read_as_it_was_written(tmp_path):
    probabilities = torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    record = SiteRecord(
        "north",
        torch.tensor([1, 0, 1]),
        torch.tensor([0.5, 0.25, 1.0]),
        probabilities,
        ("a", "b", "ä"),
        torch.tensor([0.1, 0.2, 0.3]),
        torch.tensor([1, 1, 1]),
        probabilities.flip(0),
    )
    record.write(tmp_path)
    read = read_record(tmp_path, "north")
    for name in ("labels", "weights", "probabilities", "agreement", "true_labels", "clean"):
        assert torch.equal(getattr(read, name), getattr(record, name))
    assert read.ids == record.ids
    assert sites_of(tmp_path) == ["north"]


def test_sites_are_in_the_order_of_their_numbers(tmp_path):
    for site in ("10", "9", "north"):
        (tmp_path / "clients" / site).mkdir(parents=True)
        (tmp_path / "clients" / site / "weights.parquet").touch()
    assert sites_of(tmp_path) == ["north", "9", "10"]
    with pytest.raises(InputError, match="is not what a finished run leaves of a site"):
        read_record(tmp_path, "9")


def test_a_folder_in_use_is_refused(tmp_path):
    with RunFolder(tmp_path).held(), pytest.raises(InputError, match="is in use by process"):
        RunFolder(tmp_path).held().__enter__()
    with RunFolder(tmp_path).held():
        pass
    assert list(tmp_path.iterdir()) == []
