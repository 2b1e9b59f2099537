"""``fedsift audit`` on a run of milliseconds, and training on corrected labels."""

from __future__ import annotations

import json

import pandas as pd
import pytest


@pytest.fixture
def run(fedsift, tiny):
    keys = ("--method", "single-loop", "--set", "share_summary=true")
    assert fedsift("run", tiny, "--out", "run", *keys).code == 0
    return "run"


def test_every_site_gets_its_file(fedsift, run, empty_folder):
    ended = fedsift("audit", run)
    assert ended.code == 0
    for client in range(2):
        table = pd.read_csv(empty_folder / run / "clients" / str(client) / "issues.csv")
        weights = pd.read_parquet(empty_folder / run / "clients" / str(client) / "weights.parquet")
        assert list(table.columns) == [
            *("site", "index", "id", "given_label", "predicted_label"),
            *("label_score", "is_label_issue", "confidence", "weight"),
        ]
        assert table["label_score"].is_monotonic_increasing
        by_index = table.set_index("index").sort_index()
        assert by_index["given_label"].tolist() == weights["label"].tolist()
        assert by_index["weight"].tolist() == pytest.approx(weights["weight"].tolist())


def test_one_site_elsewhere(fedsift, run, empty_folder):
    ended = fedsift("audit", run, "--client", "1", "--format", "label-studio", "--out", "there")
    assert ended.code == 0
    names = {path.name for path in (empty_folder / "there").iterdir()}
    assert names == {"issues-1.label-studio.json", "issues-1.label-studio.xml"}


def test_the_server_gets_counts_only(run, empty_folder):
    summary = json.loads((empty_folder / run / "summary.json").read_text())
    own = json.loads((empty_folder / run / "clients" / "1" / "audit.json").read_text())
    counts = {key: own["summary"][key] for key in ("samples", "flagged")}
    assert summary["sites"]["1"] == counts
    constants = {"temperature", "optimism", "spread", "misfit", "rate_error"}
    assert set(summary["calibration"]) == {*constants, "samples", "judged"}


def test_nothing_is_shared_unless_allowed(fedsift, tiny, empty_folder):
    fedsift("run", tiny, "--out", "quiet")
    assert "sites" not in json.loads((empty_folder / "quiet" / "summary.json").read_text())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("audit", "nowhere"), "not the folder of a finished run"),
        (("audit", "run", "--client", "2"), "has no site 2; it has 0, 1"),
        (("audit", "run", "--client", "-1"), "has no site -1"),
        (("review", "run", "--client", "7"), "has no site 7"),
        (("review", "run", "--client", "../0"), "has no site ../0"),
        (("run", "tiny.toml", "--labels", "none.parquet", "--out", "x"), "no corrected labels"),
    ],
)
def test_bad_input_is_one_line(fedsift, run, arguments, said):
    ended = fedsift(*arguments)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_a_run_trains_on_corrected_labels(fedsift, run, tiny, empty_folder):
    weights = pd.read_parquet(empty_folder / run / "clients" / "0" / "weights.parquet")
    table = pd.DataFrame({"site": "0", "index": weights["index"], "label": weights["true_label"]})
    table["unusable"] = table["index"] == 3
    table.to_parquet("corrected.parquet")
    assert fedsift("run", tiny, "--labels", "corrected.parquet", "--out", "after").code == 0
    after = pd.read_parquet(empty_folder / "after" / "clients" / "0" / "weights.parquet")
    expected = weights["true_label"].drop(index=3).tolist()
    assert after["label"].tolist() == expected
    assert (empty_folder / "after" / "config.toml").read_text().count("corrected.parquet") == 1
    assert fedsift("audit", "after", "--client", "0").code == 0
