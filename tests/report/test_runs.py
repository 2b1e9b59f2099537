from __future__ import annotations

import json

import pytest

from fedsift.errors import InputError
from fedsift.report import load_run

WEIGHTS = {"index": [0, 1], "label": [3, 4], "weight": [0.1, 0.9], "true_label": [5, 4]}


def test_a_finished_run_is_read_from_its_files(make_run):
    folder = make_run("non-iter", 0.5, 0.75, seed=7, f1=0.9, weights=[WEIGHTS, WEIGHTS])

    run = load_run(folder)

    assert (run.method, run.dataset, run.seed, run.finished) == ("non-iter", "digits", "7", True)
    assert run.config["solver"]["rate"] == 20
    assert run.rounds["test_accuracy"].tolist() == [0.5, 0.75]
    assert run.number("f1") == 0.9
    assert run.weights["client"].tolist() == ["0", "0", "1", "1"]
    assert run.weights["true_label"].tolist() == [5, 4, 5, 4]


def test_a_last_line_that_was_cut_off_is_ignored(make_run):
    folder = make_run("fedavg", 0.5, 0.75)
    path = folder / "rounds.jsonl"
    whole = path.read_bytes()
    line = '{"round": 3, "test_accuracy": 0.8, "events": ["é"]}'.encode()

    for cut in range(1, len(line)):
        path.write_bytes(whole + line[:cut])
        assert len(load_run(folder).rounds) == 2
    path.write_bytes(whole + line)
    assert len(load_run(folder).rounds) == 3


@pytest.mark.parametrize("broken", ['{"round": 2, "tes\n', "[1]\n", '{"weights_f1": "high"}\n'])
def test_a_broken_line_is_named(make_run, broken):
    path = make_run("fedavg", 0.5) / "rounds.jsonl"
    path.write_text(path.read_text() + broken)

    with pytest.raises(InputError, match=r"rounds\.jsonl, line 2, .*; "):
        load_run(path.parent)


def test_null_absent_and_infinite_numbers_are_missing(make_run):
    folder = make_run("fedavg", None, 0.5, rounds={"residual": [float("inf"), None]})

    rounds = load_run(folder).rounds

    assert rounds["test_accuracy"].isna().tolist() == [True, False]
    assert rounds[["residual", "weights_f1"]].isna().all(axis=None)


def test_a_round_repeated_by_a_resumed_run_counts_once(make_run):
    folder = make_run("fedavg", 0.1, 0.2, 0.3, rounds={"round": [1, 2, 2]})

    rounds = load_run(folder).rounds

    assert rounds["test_accuracy"].tolist() == [0.1, 0.3]


def test_an_unfinished_run_is_summed_up_from_its_rounds(make_run):
    columns = {"bytes_up": [10, 20, 30], "bytes_down": [1, None, 3]}
    folder = make_run("focus", 0.7, 0.6, None, rounds=columns, finished=False)

    run = load_run(folder)

    assert not run.finished
    assert (run.method, run.rounds_done) == ("focus", 3)
    assert run.number("test_accuracy") == 0.6
    assert run.number("best_test_accuracy") == 0.7
    assert run.number("bytes_up") == 60
    assert run.number("bytes_down") is None
    assert run.number("auc") is None


def test_a_run_that_has_only_begun_is_readable(make_run):
    folder = make_run("focus", finished=False)
    (folder / "rounds.jsonl").unlink()

    run = load_run(folder)

    assert run.rounds_done == 0
    assert run.number("test_accuracy") is None


def test_clients_without_true_labels_leave_them_missing(make_run):
    unknown = {key: WEIGHTS[key] for key in ("index", "label", "weight")}

    run = load_run(make_run("non-iter", 0.5, weights=[unknown]))

    assert run.learns_weights
    assert not run.truth_known


@pytest.mark.parametrize(("method", "weight"), [("oracle", [0.0, 1.0]), ("non-iter", [1.0, 1.0])])
def test_fixed_weights_are_not_learned(make_run, method, weight):
    run = load_run(make_run(method, 0.5, weights=[WEIGHTS | {"weight": weight}]))

    assert not run.learns_weights


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("config.toml", "a = ", r"config\.toml is not valid TOML \(.*\); repair it$"),
        ("summary.json", '{"a": ', r"summary\.json is not valid JSON; repair or remove it$"),
        ("summary.json", "[]", r"summary\.json is not a JSON object; "),
        ("clients/0/weights.parquet", "x", r"weights\.parquet is not a valid Parquet file; "),
    ],
)
def test_a_broken_file_is_named(make_run, file, content, sentence):
    folder = make_run("non-iter", 0.5, weights=[WEIGHTS])
    (folder / file).write_text(content)

    with pytest.raises(InputError, match=sentence):
        load_run(folder)


def test_a_table_of_weights_needs_its_columns(make_run):
    folder = make_run("non-iter", 0.5, weights=[{"index": [0], "label": [1]}])

    with pytest.raises(InputError, match=r"weights\.parquet has no column weight; "):
        load_run(folder)


def test_another_folder_is_not_a_run_folder(tmp_path):
    (tmp_path / "summary.json").write_text(json.dumps({"method": "fedavg"}))

    with pytest.raises(InputError, match=r"is not a run folder: it has no config\.toml; "):
        load_run(tmp_path)
