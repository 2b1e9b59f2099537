"""The guide's federation: own files at their sites, over Flower with TLS."""

from __future__ import annotations

import pandas as pd
import pytest

from fedsift.cli.main import main
from fedsift.flower.local_deployment import LocalDeployment
from own_files import DIAGNOSES, QUEUES, SHAPES, SITES, write_pictures, write_table, write_text

pytestmark = pytest.mark.timeout(600)
TABLE = ("--label-column", "diagnosis", "--id-column", "patient")
TEXT = ("--label-column", "queue", "--id-column", "ticket")


def federate(folder, sites, clean, reading=(), labels=()):
    """Run a federation of files; return every site's issues, made at the site."""
    (folder / "own.toml").write_text('clients = 3\nrounds = 8\nmethod = "single-loop"\n')
    data = {name: str(path) for name, path in sites.items()}
    own = {"server": ("--validation", str(clean), *reading), "site": (*reading, *labels)}
    tables = {}
    with LocalDeployment(folder / "fed", data, options=own) as federation:
        done = federation.submit(str(folder / "own.toml"), folder / "run")
        assert done.returncode == 0, done.stdout + done.stderr
    assert "audits are at the sites" in (folder / "run" / "report.html").read_text()
    run = (folder / "run" / "run.txt").read_text()
    for m, name in enumerate(sites):
        place = folder / "fed" / f"site-{m}" / run
        assert main(["audit", str(place)]) == 0
        tables[name] = pd.read_csv(place / "clients" / name / "issues.csv")
    return tables


def test_a_table(tmp_path):
    write_table(tmp_path)
    sites = {name: tmp_path / f"{name}.csv" for name in SITES}
    tables = federate(tmp_path, sites, tmp_path / "clean.csv", TABLE)
    for name, table in tables.items():
        raw = pd.read_csv(tmp_path / f"{name}.csv").set_index("patient")
        assert set(table["id"]) == set(raw.index)
        assert table["given_label"].tolist() == raw.loc[table["id"], "diagnosis"].tolist()
        assert set(table["predicted_label"]) <= set(DIAGNOSES)
        assert set(table["site"]) == {name}


@pytest.mark.deep
def test_corrections_reach_the_sites(tmp_path):
    write_table(tmp_path)
    sites = {name: tmp_path / f"{name}.csv" for name in SITES}
    raw = {
        name: pd.read_csv(path).set_index("patient")["diagnosis"] for name, path in sites.items()
    }
    rows = [
        {"site": name, "id": given.index[n], "label": DIAGNOSES[given.iloc[n] == DIAGNOSES[0]]}
        for name, given in raw.items()
        for n in range(5)
    ]
    corrected = pd.DataFrame(rows).assign(unusable=lambda t: t["id"].str.endswith("4"))
    corrected.to_csv(tmp_path / "corrected.csv", index=False)
    labels = ("--labels", str(tmp_path / "corrected.csv"))
    for name, table in federate(tmp_path, sites, tmp_path / "clean.csv", TABLE, labels).items():
        own = corrected[corrected["site"] == name].set_index("id")
        expected = raw[name].drop(own.index[own["unusable"]])
        expected.update(own["label"][~own["unusable"]])
        found = table.set_index("id")["given_label"]
        assert found[expected.index].tolist() == expected.tolist()
        assert len(found) == len(expected) == 59


@pytest.mark.deep
@pytest.mark.parametrize("bits", [8, 16])
def test_pictures(tmp_path, bits):
    write_pictures(tmp_path, bits)
    sites = {name: tmp_path / "scans" / name for name in SITES}
    for name, table in federate(tmp_path, sites, tmp_path / "scans/clean").items():
        assert {tmp_path / "scans" / name / file for file in table["id"]} == set(
            tmp_path.glob(f"scans/{name}/*/*.png")
        )
        assert set(table["given_label"]) == set(SHAPES)


@pytest.mark.deep
def test_text(tmp_path):
    write_text(tmp_path)
    sites = {name: tmp_path / f"tickets-{name}.csv" for name in ("a", "b", "c")}
    for name, table in federate(tmp_path, sites, tmp_path / "tickets-clean.csv", TEXT).items():
        assert set(table["id"]) == {f"T-{name}{n}" for n in range(60)}
        assert set(table["given_label"]) == set(QUEUES)
