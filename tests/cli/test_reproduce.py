"""``fedsift reproduce`` on tiny runs: the same code as at full scale."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from fedsift.cli import reproducing
from fedsift.errors import RunError
from fedsift.experiment.theory import heavy_hitters, sketched

TINY = ("clients=2", "samples_per_client=20", "validation_size=30", "test_size=40")
TINY = tuple(word for key in (*TINY, "model=linear") for word in ("--set", key))


@pytest.fixture
def tiny_figure(fedsift):
    def call(*arguments):
        return fedsift("reproduce", *arguments, "--rounds", "2", *TINY, "--out", "out")

    return call


def test_figure_1_smoke(tiny_figure):
    ended = tiny_figure("fig1", "--set", "preprocess_steps=5")
    assert ended.code == 0
    assert "the embedded digits are used instead" in ended.out
    results = sorted(path.stem for path in Path("out/results").iterdir())
    assert len(results) == 24
    assert results == sorted(path.name for path in Path("out/runs").iterdir())
    for split in ("iid", "non-iid"):
        assert f"digits, {split}" in ended.out
    assert "24/24 digits-non-iid-disagreement-s0 2/2" in ended.err
    assert "out/fig1.png\nout/fig1.svg\nout/fig1.md\n" in ended.out
    assert Path("out/fig1.md").read_text().count("\n") == 2 + 24


def test_a_second_call_runs_nothing_and_list_says_so(tiny_figure, monkeypatch):
    words = ("fig2", "--methods", "iter-topk", "--splits", "iid")
    before = tiny_figure(*words, "--status")
    assert before.out.count(" queued   ") == 4
    assert before.out.endswith("4 runs: 4 queued; no round was measured yet\n")
    assert not Path("out").exists()
    assert tiny_figure(*words).code == 0
    monkeypatch.setattr("fedsift.experiment.reproduce.execute", None)
    again = tiny_figure(*words)
    assert (again.code, again.err) == (0, "")
    assert "digits-iid-iter-topk-rate1000-s0" in tiny_figure(*words, "--status").out
    assert tiny_figure(*words, "--status").out.endswith("4 runs: 4 done\n")


def test_interrupted_it_goes_on_with_the_same_command(tiny_figure, monkeypatch):
    words = ("fig1", "--methods", "fedavg,oracle", "--splits", "iid")
    complete = reproducing.complete

    def stop(job, out, observe):
        if job.config.method == "oracle":
            raise KeyboardInterrupt
        return complete(job, out, observe)

    with monkeypatch.context() as patch:
        patch.setattr(reproducing, "complete", stop)
        ended = tiny_figure(*words)
    assert ended.code == 130
    assert ended.err.endswith("interrupted; 1 of 2 runs are done, the same command continues\n")
    said = tiny_figure(*words, "--status").out.splitlines()[-1]
    assert said.startswith("2 runs: 1 done, 1 queued; about 1 min left at 1 side by side")


def test_a_failed_run_does_not_stop_the_others(tiny_figure, monkeypatch):
    complete = reproducing.complete

    def fail(job, out, observe):
        if job.config.method == "oracle":
            raise RunError("the model is no longer finite")
        return complete(job, out, observe)

    monkeypatch.setattr(reproducing, "complete", fail)
    ended = tiny_figure("fig1", "--methods", "oracle,fedavg", "--splits", "iid")
    assert ended.code == 1
    assert "fedsift: digits-iid-oracle-s0: the model is no longer finite\n" in ended.err
    assert Path("out/results/digits-iid-fedavg-s0.json").exists()
    assert Path("out/fig1.png").exists()


def test_another_configuration_is_refused_before_anything_runs(tiny_figure):
    words = ("fig1", "--splits", "iid", "--methods")
    tiny_figure(*words, "fedavg")
    ended = tiny_figure(*words, "oracle,fedavg", "--set", "batch_size=256")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "out/runs/digits-iid-fedavg-s0 holds a run with batch_size = 64, not 256" in ended.err
    assert not Path("out/runs/digits-iid-oracle-s0").exists()


def test_drawing_needs_the_results_only(tiny_figure, fedsift):
    tiny_figure("fig1", "--methods", "fedavg,single-loop")
    Path("out/results").rename("kept")
    ended = fedsift("reproduce", "fig1", "--draw", "kept", "--out", "drawn")
    assert ended.code == 0
    text = Path("drawn/fig1.svg").read_text()
    words = ["digits, i.i.d.", "digits, non-i.i.d.", "Test accuracy (%)", "Round", "single-loop"]
    assert [word for word in words if word not in text] == []
    assert Path("drawn/fig1.png").stat().st_size > 1000
    assert sorted(path.name for path in Path("drawn").iterdir()) == [
        *("fig1.md", "fig1.png", "fig1.svg")
    ]


def test_killed_in_the_background_it_goes_on_to_the_same_end(fedsift, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as here, or sums have other last bits
    words = ("reproduce", "fig1", "--datasets", "digits", "--splits", "iid", "--no-draw")
    words = (*words, "--methods", "iter-topk", "--rounds", "300", *TINY)
    words = (*words, "--set", "checkpoint_every=7", "--out")
    started = fedsift(*words, "out", "--background")
    pid = int(re.fullmatch(r"process (\d+) works in the background; .*\n", started.out)[1])
    records = Path("out/runs/digits-iid-iter-topk-s0/rounds.jsonl")
    try:
        wait_for(lambda: records.exists() and len(records.read_text().splitlines()) > 10)
        assert Path("out/queue.pid").read_text() == str(pid)
        second = fedsift(*words, "out", "--background")
        assert (second.code, second.err.count("\n")) == (2, 1)
        assert f"is in use by process {pid}" in second.err
        said = fedsift(*words, "out", "--status").out
        assert re.search("digits-iid-iter-topk-s0 +running", said)
        assert f"process {pid} works in the background" in said
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    said = fedsift(*words, "out", "--status").out
    assert re.search("digits-iid-iter-topk-s0 +stopped", said)
    assert "in the background" not in said
    for out in ("out", "whole"):
        assert fedsift(*words, out).code == 0
    ends = [Path(out) / "results/digits-iid-iter-topk-s0.json" for out in ("out", "whole")]
    series = [json.loads(path.read_text())["series"] for path in ends]
    assert series[0] == series[1]
    assert len(series[0]["round"]) == 60


def test_runs_side_by_side_are_each_made_once(tiny_figure):
    words = ("fig1", "--splits", "iid", "--methods", "fedavg,oracle,focus", "--jobs", "2")
    ended = tiny_figure(*words)
    assert ended.code == 0
    assert len(list(Path("out/results").iterdir())) == 3
    for path in Path("out/runs").iterdir():
        rounds = (path / "rounds.jsonl").read_text().splitlines()
        assert [json.loads(line)["round"] for line in rounds] == [1, 2]
    assert list(Path("out/claims").iterdir()) == []


def test_a_preset_is_in_the_name_and_the_file(tiny_figure):
    words = ("fig1", "--splits", "iid", "--methods", "iter-topk", "--preset", "paper-literal")
    assert tiny_figure(*words, "--no-draw").code == 0
    result = json.loads(Path("out/results/digits-iid-iter-topk-paper-literal-s0.json").read_text())
    assert result["preset"] == "paper-literal"
    assert result["config"]["curvature"] == "hessian"
    assert not Path("out/fig1.png").exists()


def wait_for(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_theory_writes_numbers_a_figure_and_a_table(fedsift, monkeypatch):
    monkeypatch.setitem(heavy_hitters.SIZES, "quick", heavy_hitters.Size({50: 3, 100: 3}))
    monkeypatch.setitem(sketched.SIZES, "quick", sketched.Size(2, (2, 4)))
    parts = ("--part", "heavy-hitters", "--part", "theorem2")
    ended = fedsift("reproduce", "theory", *parts, "--out", "out")
    assert ended.code == 0
    measured = json.loads(Path("out/results/theory-theorem2.json").read_text())
    assert measured["checks"][0]["measured"] in Path("out/theory-theorem2.md").read_text()
    text = Path("out/theory-theorem2.svg").read_text()
    assert [word for word in ("Theorem 2", "what the proof allows") if word not in text] == []
    drawn = fedsift("reproduce", "theory", *parts, "--draw", "out/results", "--out", "drawn")
    assert drawn.code == 0
    assert Path("drawn/theory-theorem2.svg").read_text() == text
    assert Path("drawn/theory-heavy-hitters.png").stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("fig4", "invalid choice: 'fig4'"),
        ("fig1 --methods fedagv", "--methods has 'fedagv'; choose from fedavg"),
        ("fig1 --datasets imagenet", "--datasets has 'imagenet'; choose from digits"),
        ("fig1 --terms fair", "--terms has 'fair'; choose from as-paper, head-start"),
        ("fig1 --jobs 0", "--jobs is 0; give at least 1"),
        ("fig1 --preset plain", "there is no preset 'plain'; choose from paper-steps"),
        ("fig1 --seeds 1,x", "'1,x' is not a list of whole numbers such as 0,1"),
        ("fig1 --set rate=5", "--set rate would mix up the runs"),
        ("fig1 --draw nowhere", "nowhere has no results for fig1"),
        ("theory --draw nowhere", "there is no nowhere/theory-theorem1.json"),
        ("fig1 --part drift", "fig1 has no parts; leave out --part"),
        ("theory --seeds 1", "theory has no runs to choose; leave out --seeds"),
    ],
)
def test_bad_input_is_one_line(fedsift, arguments, words):
    ended = fedsift("reproduce", *arguments.split())
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert words in ended.err
    assert list(Path().iterdir()) == []
