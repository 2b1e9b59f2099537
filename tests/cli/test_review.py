"""``fedsift review --export`` and what the next run makes of it."""

from __future__ import annotations

import pandas as pd
import pytest

from fedsift.audit.review import Asked, Decisions
from own_files import write_table

READING = ("--label-column", "diagnosis", "--id-column", "patient")
SITES = ("--site", "north=north.csv", "--site", "south=south.csv", "--validation", "clean.csv")
FAST = ("--method", "single-loop", "--set", "rounds=2", "--model", "linear")


@pytest.fixture
def run(fedsift, empty_folder):
    """Run on two tables and decide: the label of row 0 is changed, row 1 is unusable."""
    write_table(empty_folder, samples=20)
    assert fedsift("run", *SITES, *READING, *FAST, "--out", "run").code == 0
    decide(
        empty_folder / "run",
        20,
        [Asked(0, 0, "relabel", other(empty_folder)), Asked(1, 0, "unusable")],
    )
    return empty_folder


def other(folder):
    """Return the number of the class that row 0 of north has not."""
    given = pd.read_csv(folder / "north.csv")["diagnosis"][0]
    return int(given == "benign")


def decide(run, count, asked):
    store = Decisions(run / "clients/north/decisions.jsonl", count)
    store.save(asked, "ana")
    store.close()


def labels_of(folder, run, site="north"):
    table = pd.read_parquet(folder / run / "clients" / site / "weights.parquet")
    return table.set_index("id")["label"]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_corrections_reach_the_next_run(fedsift, run, form):
    ended = fedsift("review", "run", "--client", "north", "--export", form, "--out", f"new.{form}")
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [
            f"new.{form}: 1 labels changed, 1 unusable, 2 decided",
            f"use it with --labels new.{form}",
        ],
    )
    again = fedsift("run", *SITES, *READING, *FAST, "--labels", f"new.{form}", "--out", "next")
    assert again.code == 0
    before, after = labels_of(run, "run"), labels_of(run, "next")
    assert after.index.tolist() == before.drop("N0001").index.tolist()
    assert after["N0000"] == other(run) != before["N0000"]
    assert after.drop("N0000").tolist() == before.drop(["N0000", "N0001"]).tolist()
    assert labels_of(run, "next", "south").tolist() == labels_of(run, "run", "south").tolist()


def test_a_second_review_keeps_what_the_first_left_out(fedsift, run):
    first = ("review", "run", "--client", "north", "--export", "parquet", "--out", "new.parquet")
    assert fedsift(*first).code == 0
    corrected = ("--labels", "new.parquet", "--out", "next")
    assert fedsift("run", *SITES, *READING, *FAST, *corrected).code == 0
    decide(run / "next", 19, [Asked(5, 0, "unusable")])
    assert fedsift("review", "next", "--client", "north", "--export", "csv").code == 0
    table = pd.read_csv(run / "next/clients/north/corrected.csv").set_index("id")
    assert table.index[table["unusable"]].tolist() == ["N0006", "N0001"]
    third = ("--labels", "next/clients/north/corrected.csv", "--out", "third")
    assert fedsift("run", *SITES, *READING, *FAST, *third).code == 0
    after = labels_of(run, "third")
    assert len(after) == 18
    assert after["N0000"] == other(run)


def test_the_users_own_file(fedsift, run):
    ended = fedsift("review", "run", "--client", "north", "--export", "own")
    assert ended.code == 0
    assert "--label-column diagnosis_corrected --ignore-column diagnosis" in ended.out
    new = pd.read_csv(run / "run/clients/north/corrected-north.csv")
    old = pd.read_csv(run / "north.csv")
    pd.testing.assert_frame_equal(new.drop(columns="diagnosis_corrected"), old)
    assert new["diagnosis_corrected"].isna().tolist() == [False, True, *[False] * 18]
    assert new["diagnosis_corrected"][2:].tolist() == old["diagnosis"][2:].tolist()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--export", "images"), "cannot be exported as images; choose parquet, csv, own"),
        (("--sample", "N9999", "--no-browser"), "no sample with the id N9999"),
        (("--export", "own", "--out", "north.csv"), "is the data themselves"),
    ],
)
def test_bad_input_is_one_line(fedsift, run, arguments, said):
    ended = fedsift("review", "run", "--client", "north", *arguments)
    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_an_export_waits_for_an_open_review(fedsift, run):
    store = Decisions(run / "run/clients/north/decisions.jsonl", 20)
    ended = fedsift("review", "run", "--client", "north", "--export", "csv")
    store.close()
    assert ended.code == 2
    assert "open in another review" in ended.err
