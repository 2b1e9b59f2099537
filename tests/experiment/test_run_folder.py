"""The files of a run folder, one at a time."""

import json
import math

import pandas as pd
import pytest
import torch

from fedsift.errors import InputError
from fedsift.experiment.run_folder import RunFolder, weights_table
from fedsift.experiment.setup import from_config

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


def test_weights_table_has_a_row_per_sample(tiny):
    setup = from_config(tiny(initial_weight=0.25).resolve())
    data = setup.data.clients[1]
    expected = pd.DataFrame(
        {
            "index": range(20),
            "label": data.labels.numpy(),
            "weight": torch.full((20,), 0.25).numpy(),
            "agreement": torch.full((20,), 0.25).numpy(),
            "true_label": data.true_labels.numpy(),
        }
    )
    pd.testing.assert_frame_equal(weights_table(setup, 1), expected)
