"""``fedsift demo``."""

import json
from pathlib import Path

from fedsift.cli.demo import METHODS


def test_demo_writes_four_runs_and_a_report(fedsift):
    Path("there/fedavg").mkdir(parents=True)
    Path("there/fedavg/notes.txt").write_text("the user's own")
    ended = fedsift("demo", "--rounds", "3", "--out", "there")
    assert ended.code == 0
    assert Path("there/fedavg/notes.txt").exists()
    summaries = [json.loads(Path("there", m, "summary.json").read_text()) for m in METHODS]
    assert [s["method"] for s in summaries] == ["fedavg", "clean-only", "posterior", "oracle"]
    assert summaries[2]["chosen"]["by"] == "auto"
    assert {(s["rounds"], s["noise_rate"], s["clients"]) for s in summaries} == {(3, 0.4, 10)}
    for summary in summaries:
        assert summary["method"] in ended.out
        assert f"{summary['test_accuracy']:.3f}" in ended.out
    report = Path("there/report.html").read_text()
    assert [s["method"] for s in summaries if s["method"] not in report] == []
    assert ended.out.endswith("report: there/report.html\n")


def test_demo_starts_anew_in_its_own_folder(fedsift):
    for seed in ("0", "1"):
        assert fedsift("demo", "--rounds", "1", "--seed", seed).code == 0
    for method in METHODS:
        assert json.loads(Path("runs/demo", method, "summary.json").read_text())["seed"] == 1


def test_demo_leaves_other_runs_alone(fedsift, tiny):
    fedsift("run", tiny, "--method", "fedavg", "--out", "runs/fedavg")
    before = Path("runs/fedavg/summary.json").read_text()
    ended = fedsift("demo", "--rounds", "1", "--out", "runs")
    assert (ended.code, "runs/fedavg already holds a run" in ended.err) == (2, True)
    assert Path("runs/fedavg/summary.json").read_text() == before
