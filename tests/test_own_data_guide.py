"""docs/guide/own-data.md, command by command, on files of these names; over Flower too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pandas as pd
import pytest

import fedsift as fs
from fedsift.cli.main import main
from fedsift.data.schema import Schema, SchemaSettings, Workspace
from own_files import (
    DIAGNOSES,
    QUEUES,
    SHAPES,
    SITES,
    WORDS,
    write_features,
    write_pictures,
    write_table,
    write_text,
)

GUIDE = (Path(__file__).parents[1] / "docs" / "guide" / "own-data.md").read_text(encoding="utf-8")
QUICK = ("--set", "rounds=20")
BILLING = set(WORDS["billing"])


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", GUIDE, flags=re.M | re.S)[1]


def commands(title: str, *names: str) -> list[list[str]]:
    """Return the commands of a section, as they are typed."""
    lines = re.findall(r"^    fedsift (.*)$", section(title), flags=re.M)
    found = [shlex.split(line) for line in lines]
    return [words for words in found if words[0] in names]


def run_all(title: str) -> None:
    for words in commands(title, "data", "run", "audit"):
        quick = QUICK if words[0] == "run" else ()
        assert main([*words, *quick]) == 0, words


def check(table: pd.DataFrame, classes: tuple[str, ...], ids: set[str]) -> None:
    assert set(table["given_label"]) | set(table["predicted_label"]) <= set(classes)
    assert set(table["id"]) == ids
    assert table["is_label_issue"].any()
    assert table["label_score"].is_monotonic_increasing


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_table(here, capsys):
    write_table(here)
    run_all("A table")
    shown = capsys.readouterr().out
    assert "smoker: true/false" in shown
    for site in SITES:
        table = pd.read_csv(here / "runs/table/clients" / site / "issues.csv")
        check(table, DIAGNOSES, {f"{site[0].upper()}{n:04d}" for n in range(60)})
        own = pd.read_csv(here / f"{site}.csv").set_index("patient").loc[table["id"]]
        given = own[["age", "marker", "smoker", "stage"]].reset_index(drop=True)
        pd.testing.assert_frame_equal(table[list(given)], given)
    raw = pd.read_csv(here / "north.csv").set_index("patient")
    audit = fs.load("runs/table").audits[0]
    row = audit.table.iloc[0]
    fields = audit.content.fields(int(row["index"]))
    assert fields["marker"] == raw.loc[row["id"], "marker"]  # as in the file, not standardised
    assert row["given_label"] == raw.loc[row["id"], "diagnosis"]


@pytest.mark.parametrize("bits", [8, 16])
def test_pictures(here, bits):
    write_pictures(here, bits)
    run_all("Pictures")
    table = pd.read_parquet(here / "runs/scans/clients/south/issues.parquet")
    files = {str(p.relative_to(here / "scans/south")) for p in here.glob("scans/south/*/*.png")}
    check(table, SHAPES, files)


def test_features(here, capsys):
    write_features(here)
    run_all("Features")
    assert "auto chose out-of-fold" in capsys.readouterr().err
    table = pd.read_csv(here / "runs/features/clients/a/issues.csv")
    check(table, QUEUES, {f"F-a{n}" for n in range(80)})


def test_text(here, capsys):
    write_text(here)
    run_all("Text")
    assert "note: auto chose out-of-fold: only a last linear layer" in capsys.readouterr().err
    table = pd.read_csv(here / "runs/tickets/clients/a/issues.csv")
    check(table, QUEUES, {f"T-a{n}" for n in range(60)})
    assert table["text"][0] in set(pd.read_csv(here / "tickets-a.csv")["text"])
    audit = fs.load("runs/tickets").audits[0]
    raw = pd.read_csv(here / "tickets-a.csv")
    assert audit.content.fields(7) == {"text": raw["text"][7]}


def test_text_with_a_method_that_suits_it_less(here, capsys):
    write_text(here)
    (words,) = commands("Text", "run")
    assert main([*words, "--method", "single-loop", "--set", "rounds=1"]) == 0
    shown = capsys.readouterr().err
    assert "--method out-of-fold finds more wrong labels" in shown
    assert "auto" not in shown


def test_text_out_of_fold(here):
    write_text(here)
    (words,) = commands("Text", "run")
    assert main([*words, *QUICK]) == 0
    result = fs.load("runs/tickets")
    assert (result.summary["method"], result.summary["chosen"]["by"]) == ("out-of-fold", "auto")
    wrong = {name: pd.read_csv(f"tickets-{name}.csv") for name in ("a", "b", "c")}
    for name, raw in wrong.items():
        table = result.label_issues(name).set_index("index").sort_index()
        words_of = raw["text"].str.split().map(set)
        billing = words_of.map(lambda found: len(found & BILLING)) > 2
        truth = billing.map({True: "billing", False: "technical"})
        assert (table["is_label_issue"] == (truth != raw["queue"])).mean() > 0.9


def test_python(here):
    write_table(here)
    (code,) = re.findall(r"```python\n(.*?)```", section("Your own model"), flags=re.S)
    names: dict[str, object] = {}
    exec(code.replace("rounds=30", "rounds=4"), names)
    result, again = names["result"], names["again"]
    pd.testing.assert_frame_equal(names["issues"], again.label_issues())
    assert result.sites == again.sites == SITES
    assert main(["audit", "runs/python"]) == 0
    assert type(again.model) is type(result.model)


ENCODER = """
import torch
from torch import nn
def make():
    torch.manual_seed({seed})
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
"""


@pytest.fixture
def encoder(here, monkeypatch):
    write_pictures(here)
    monkeypatch.setenv("FEDSIFT_CACHE", str(here / "cache"))
    monkeypatch.syspath_prepend(here)
    (here / "guide_encoder.py").write_text(ENCODER.format(seed=0))
    return "guide_encoder:make"


def test_an_encoder_is_run_once_and_its_features_are_kept(here, encoder):
    (words,) = commands("Pictures", "run")
    typed = [*words, "--encoder", encoder, *QUICK]
    assert main(typed) == 0
    chunks = {path: path.stat().st_mtime_ns for path in (here / "cache").rglob("*.npy")}
    assert chunks
    assert main([*typed, "--out", "runs/again"]) == 0
    assert {p: p.stat().st_mtime_ns for p in (here / "cache").rglob("*.npy")} == chunks
    one, two = (fs.load(f"runs/{name}") for name in ("scans", "again"))
    pd.testing.assert_frame_equal(one.label_issues(), two.label_issues())
    assert one.summary["input_shape"] == [16]
    assert one.audits[0].content.picture(0)  # a person still sees the picture


def test_a_site_with_another_encoder_is_refused(here, encoder, tmp_path):
    clean, own = fs.read("scans/clean"), fs.read("scans/north")
    settings, workspace = SchemaSettings(encoder=encoder), Workspace(encoder=encoder)
    schema = Schema.fit(clean, settings=settings, workspace=workspace)
    (here / "other_encoder.py").write_text(ENCODER.format(seed=1))
    assert len(schema.inputs(own, workspace)) == len(own)
    for given, said in ((None, "--encoder"), ("other_encoder:make", "weights")):
        with pytest.raises(fs.InputError, match=said):
            schema.inputs(own, Workspace(encoder=given))
