"""A run into a folder: what it leaves, and that it goes on after any kind of end."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from fedsift.algorithms.registry import METHODS
from fedsift.client import update
from fedsift.data import build
from fedsift.errors import InputError, RunError
from fedsift.experiment.run import execute, read_config
from fedsift.federation import LocalFederation, compressed


def stop_after(k: int, error: type[BaseException] = KeyboardInterrupt):
    def observe(record: dict) -> None:
        if record["round"] == k:
            raise error

    return observe


def test_folder_has_everything_about_the_run(tmp_path, tiny):
    summary = execute(tiny(), tmp_path / "run").summary
    names = {str(p.relative_to(tmp_path / "run")) for p in tmp_path.rglob("*") if p.is_file()}
    assert names == {
        "config.toml",
        "rounds.jsonl",
        "summary.json",
        "model.safetensors",
        "files.sha256",
        *(f"clients/{m}/{name}" for m in range(2) for name in ("weights.parquet", "audit.json")),
        *(f"checkpoint/round-00000{k}.safetensors" for k in (4, 6)),
    }
    assert json.loads((tmp_path / "run/summary.json").read_text()) == summary
    assert read_config(tmp_path / "run") == tiny().resolve()


def test_summary_is_the_last_round_and_the_totals(tmp_path, tiny):
    summary = execute(tiny(rho=0.25, initial_weight=0.5), tmp_path).summary
    records = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    last = records[-1]
    for key in ("test_accuracy", "weights_f1", "weights_precision", "weights_auc"):
        assert summary[key] == last[key] is not None
    for key in ("bytes_up", "bytes_down", "exchanges"):
        assert summary[key] == sum(record[key] for record in records)
    assert summary["best_test_accuracy"] == max(r["test_accuracy"] for r in records)
    known = {"method": "iter-sketch", "dataset": "digits", "seed": 0, "rounds": 6}
    assert summary | known | {"noise_rate": 0.25} == summary
    assert summary["hypergradient"]["residual"] == last["residual"]
    assert summary["hypergradient"] | {"iterations": 1, "rate": 5.0} == summary["hypergradient"]
    assert summary["versions"]["torch"] == torch.__version__
    assert summary["seconds"] > 0


@pytest.mark.parametrize("method", ["fedavg", "oracle"])
def test_summary_has_no_detection_without_weights(tmp_path, tiny, method):
    summary = execute(tiny(method, rounds=1), tmp_path).summary
    missing = ("f1", "precision", "recall", "auc", "hypergradient")
    assert [summary[key] for key in missing] == [None] * 5
    assert not (tmp_path / "clients").exists()


def test_saved_model_has_the_accuracy_of_the_summary(tmp_path, tiny):
    summary = execute(tiny(), tmp_path).summary
    tensors = load_file(tmp_path / "model.safetensors")
    c = tiny().resolve()
    sizes = {k: getattr(c, k) for k in ("clients", "samples_per_client", "validation_size")}
    inputs, labels = build("digits", **sizes, test_size=c.test_size, seed=0).test
    logits = inputs.flatten(1) @ tensors["1.weight"].T + tensors["1.bias"]
    assert summary["test_accuracy"] == float((logits.argmax(1) == labels).double().mean())


def test_other_seed_gives_another_model(tmp_path, tiny, outcome):
    for seed in (0, 1):
        execute(tiny(seed=seed), tmp_path / str(seed))
    assert outcome(tmp_path / "0")["model"] != outcome(tmp_path / "1")["model"]


@pytest.mark.parametrize(
    ("method", "every"), [*((name, 2) for name in METHODS), ("iter-topk", 1), ("iter-topk", 100)]
)
def test_interrupted_run_goes_on_bit_equal(tmp_path, tiny, outcome, method, every):
    config = tiny(method, checkpoint_every=every)
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "cut", observe=stop_after(3))
    assert not (tmp_path / "cut/summary.json").exists()
    execute(config, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_sends_differences_goes_on_bit_equal(
    tmp_path, tiny, outcome, monkeypatch, method
):
    for module in (update, compressed):
        monkeypatch.setattr(module, "SMALL", 100)
    config = tiny(method, clients=3, cohort=2, update_rate=8.0, model_rate=8.0)
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "cut", observe=stop_after(3))
    execute(config, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("method", ["iter-sketch", "iter-topk"])
def test_cohorts_and_settings_with_state_go_on_bit_equal(tmp_path, tiny, outcome, method):
    config = tiny(method, clients=3, cohort=2, iterations=3, resample=True, curvature_batch=5)
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "cut", observe=stop_after(3))
    execute(config, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_finished_run_goes_on_with_more_rounds(tmp_path, tiny, outcome):
    execute(tiny(rounds=6), tmp_path / "whole")
    execute(tiny(rounds=3), tmp_path / "short")
    execute(tiny(rounds=6), tmp_path / "short", resume=True)
    assert outcome(tmp_path / "short") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("error", [RunError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("action", ["product", "outer"])
def test_round_that_fails_midway_leaves_no_mark(
    tmp_path, tiny, outcome, monkeypatch, action, error
):
    """Clients have changed their error memory by then; the checkpoint must not have that."""
    config = tiny("iter-topk", checkpoint_every=100)
    execute(config, tmp_path / "whole")
    ask = LocalFederation.ask

    def failing(self, request, clients):
        replies = ask(self, request, clients)
        if (request.round, request.action) == (3, action):
            raise error("failed")
        return replies

    monkeypatch.setattr(LocalFederation, "ask", failing)
    with pytest.raises(error):
        execute(config, tmp_path / "cut")
    monkeypatch.setattr(LocalFederation, "ask", ask)
    execute(config, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def cut_line(run: Path) -> None:
    lines = (run / "rounds.jsonl").read_text()
    (run / "rounds.jsonl").write_text(lines[:-30])


def leave_half_a_checkpoint(run: Path) -> None:
    whole = next((run / "checkpoint").glob("round-*")).read_bytes()
    (run / "checkpoint/.round-000006.safetensors.tmp").write_bytes(whole[:100])


def lose_all_checkpoints(run: Path) -> None:
    for path in (run / "checkpoint").iterdir():
        path.unlink()


def lose_everything_but_the_configuration(run: Path) -> None:
    lose_all_checkpoints(run)
    (run / "checkpoint").rmdir()
    (run / "rounds.jsonl").unlink()


@pytest.mark.parametrize(
    "crash",
    [
        cut_line,
        leave_half_a_checkpoint,
        lose_all_checkpoints,
        lose_everything_but_the_configuration,
    ],
)
def test_run_goes_on_after_a_crash_in_the_middle_of_a_write(tmp_path, tiny, outcome, crash):
    config = tiny()
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "cut", observe=stop_after(5))
    (tmp_path / "cut/checkpoint/round-000005.safetensors").unlink()  # kill -9 would not write it
    crash(tmp_path / "cut")
    execute(config, tmp_path / "cut", resume=True)
    (tmp_path / "cut/checkpoint/.round-000006.safetensors.tmp").unlink(missing_ok=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def test_killed_process_goes_on_bit_equal(tmp_path, tiny, outcome):
    """Clients and server both keep memories here; other methods are interrupted above."""
    config = tiny("iter-topk", rounds=100_000)
    (tmp_path / "config.toml").write_text(config.to_toml())
    lines = kill_when_running(tmp_path / "config.toml", tmp_path / "cut")
    config = config.replace(rounds=lines + 2)
    execute(config, tmp_path / "whole")
    execute(config, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


def kill_when_running(config: Path, out: Path) -> int:
    """Start a run, SIGKILL it after a few rounds, return how many lines it wrote."""
    command = [sys.executable, "-m", "fedsift", "run", str(config), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 180
        try:
            while not (out / "rounds.jsonl").exists() or count(out) < 3:
                assert process.poll() is None, "the run ended by itself"
                assert time.monotonic() < deadline, "the run did not start"
                time.sleep(0.005)
        finally:
            process.kill()  # SIGKILL, also when the test fails: leaving the block waits for its end
    return count(out)


def count(out: Path) -> int:
    return (out / "rounds.jsonl").read_bytes().count(b"\n")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rate": 6}, r"was run with rate = 5\.0, not 6\.0, and cannot be resumed"),
        ({"seed": 1}, "seed = 0, not 1"),
        ({"rounds": 3}, "has done 6 rounds; set rounds to at least that"),
    ],
)
def test_resume_with_another_configuration_is_refused(tmp_path, tiny, outcome, keys, message):
    execute(tiny(), tmp_path)
    before = outcome(tmp_path)
    with pytest.raises(InputError, match=message):
        execute(tiny(**keys), tmp_path, resume=True)
    assert outcome(tmp_path) == before


def test_resume_without_a_checkpoint_compares_the_configuration_too(tmp_path, tiny):
    execute(tiny(rounds=1), tmp_path)
    lose_all_checkpoints(tmp_path)
    with pytest.raises(InputError, match="was run with rate"):
        execute(tiny(rate=9), tmp_path, resume=True)


def test_resumed_run_is_unfinished_until_its_end(tmp_path, tiny):
    execute(tiny(rounds=2), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        execute(tiny(rounds=6), tmp_path, resume=True, observe=stop_after(4))
    assert not (tmp_path / "summary.json").exists()
    assert read_config(tmp_path).rounds == 6


def test_resume_where_nothing_is_is_refused_and_leaves_nothing(tmp_path, tiny):
    with pytest.raises(InputError, match="holds no run to resume; start one without --resume"):
        execute(tiny(), tmp_path / "b", resume=True)
    assert not (tmp_path / "b").exists()


def test_folder_that_holds_a_run_is_left_alone(tmp_path, tiny, outcome):
    execute(tiny(), tmp_path)
    before = outcome(tmp_path)
    with pytest.raises(InputError, match="already holds a run"):
        execute(tiny(), tmp_path)
    assert outcome(tmp_path) == before


def test_bad_input_leaves_no_folder(tmp_path, tiny):
    with pytest.raises(InputError, match="heavy"):
        execute(tiny(heavy=10**7), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_failed_run_leaves_a_checkpoint_and_its_rounds(tmp_path, tiny):
    config = tiny("fedavg", inner_lr=1e20, rounds=50, checkpoint_every=100)
    with pytest.raises(RunError, match=r"no longer finite .* lower inner_lr"):
        execute(config, tmp_path)
    done = count(tmp_path)
    assert 0 < done < 50
    assert [p.name for p in (tmp_path / "checkpoint").iterdir()] == [
        f"round-{done:06d}.safetensors"
    ]


def test_observer_sees_earlier_rounds_again_when_resumed(tmp_path, tiny):
    seen = []
    execute(tiny(rounds=2), tmp_path)
    execute(tiny(rounds=4), tmp_path, resume=True, observe=lambda r: seen.append(r["round"]))
    assert seen == [1, 2, 3, 4]


def test_weights_are_those_of_the_clients(tmp_path, tiny):
    execute(tiny(outer_lr=0.5), tmp_path)
    tables = [pd.read_parquet(tmp_path / f"clients/{m}/weights.parquet") for m in range(2)]
    newest = load_file(tmp_path / "checkpoint/round-000006.safetensors")
    for m, table in enumerate(tables):
        assert table["weight"].tolist() == newest[f"client/{m}/average"].tolist()
        assert table["weight"].between(0, 1).all()
        assert table["weight"].min() < table["weight"].max()
