"""``fedsift run``: where its keys come from, what it prints, how it goes on."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from fedsift.algorithms.registry import METHODS
from fedsift.experiment.config import Config, from_mapping
from fedsift.experiment.run import read_config


def test_run_prints_its_figures_and_its_folder(fedsift, tiny):
    ended = fedsift("run", tiny, "--out", "there")
    summary = json.loads(Path("there/summary.json").read_text())
    assert ended.code == 0
    assert f"{summary['test_accuracy']:.3f}" in ended.out
    assert ended.out.endswith("run folder: there\nreport:     there/report.html\n")
    assert "<html" in Path("there/report.html").read_text()
    assert "auto 3/3" in ended.err
    assert re.search(
        r"^\d+ of \d+ labels look wrong; `fedsift audit there` lists them$", ended.out, re.M
    )


def test_file_then_options_then_set(fedsift, tiny):
    settings = ("--set", "method=iter-topk", "--set", "seed=7", "--set", "solver.rate=4")
    ended = fedsift("run", tiny, "--method", "non-iter", *settings)
    config = read_config(Path("runs/digits-iter-topk-7"))
    assert ended.code == 0
    assert (config.rounds, config.clients, config.value("rate")) == (3, 2, 4.0)


def test_folder_keeps_every_key(fedsift, tiny):
    fedsift("run", tiny, "--out", "run")
    tables = tomllib.loads(Path("run/config.toml").read_text())
    assert {t: list(keys) for t, keys in tables.items()} == {
        t: list(keys) for t, keys in Config.of(method="out-of-fold").tables().items()
    }
    assert tables["data"]["rho"] == 0.4  # the default is written out


def test_kept_configuration_repeats_the_run(fedsift, tiny):
    fedsift("run", tiny, "--set", "seed=3", "--out", "a")
    fedsift("run", "a/config.toml", "--out", "b")
    a, b = (Path(name, "model.safetensors").read_bytes() for name in "ab")
    assert a == b


def test_resume_needs_no_more_than_the_folder(fedsift, tiny):
    fedsift("run", tiny, "--set", "seed=3", "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", "--set", "rounds=5")
    assert ended.code == 0
    assert len(Path("run/rounds.jsonl").read_text().splitlines()) == 5
    assert (read_config(Path("run")).rounds, read_config(Path("run")).seed) == (5, 3)


def test_resume_finds_the_default_folder(fedsift, tiny):
    fedsift("run", tiny, "--method", "iter-topk")
    ended = fedsift("run", "--method", "iter-topk", "--resume", "--set", "rounds=4")
    assert ended.code == 0
    assert json.loads(Path("runs/digits-iter-topk-0/summary.json").read_text())["rounds"] == 4


def test_resume_reads_the_keys_of_the_method_in_the_folder(fedsift, tiny):
    fedsift("run", tiny, "--method", "iter-topk", "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", "--set", "iterations=2")
    assert ended.err.startswith("fedsift: run was run with iterations = 1, not 2")


def test_resume_with_another_rate_is_refused(fedsift, tiny):
    fedsift("run", tiny, "--method", "single-loop", "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", "--set", "rate=9")
    assert ended.code == 2
    assert ended.err == (
        "fedsift: run was run with rate = 20.0, not 9.0, and cannot be resumed with it; choose "
        "another folder with --out\n"
    )


@pytest.mark.parametrize("method", METHODS)
def test_keys_are_a_configuration_file(fedsift, method):
    text = fedsift("run", "--keys", method).out
    assert from_mapping(tomllib.loads(text), "keys") == Config.of(method=method)
    assert all("# " in line for line in text.splitlines() if "=" in line)


def test_keys_are_those_of_the_method_that_would_run(fedsift):
    assert fedsift("run", "--keys").out == fedsift("run", "--keys", "auto").out
    assert (
        fedsift("run", "--method", "focus", "--keys").out == fedsift("run", "--keys", "focus").out
    )


def test_keys_of_auto_are_those_of_all_its_methods(fedsift):
    (own,) = fedsift("run", "--keys", "auto").out.split("[inner]")[1:]
    names = [line.split()[0] for line in own.split("\n") if line]
    assert names == ["local_steps", "batch_size", "[outer]", "scored"]


@pytest.mark.parametrize(
    ("model", "method"), [("linear", "out-of-fold"), ("digits_cnn", "posterior")]
)
def test_the_chosen_method_is_said_and_kept(fedsift, tiny, model, method):
    ended = fedsift("run", tiny, "--model", model, "--set", "validation_size=50")
    assert ended.code == 0
    assert f"note: auto chose {method}: " in ended.err
    assert method in ended.out
    assert read_config(Path("runs/digits-auto-0")).method == method
    why = json.loads(Path("runs/digits-auto-0/summary.json").read_text())["chosen"]["why"]
    assert f"auto chose {method}: {why}." in Path("runs/digits-auto-0/report.html").read_text()


@pytest.mark.parametrize("words", [[], ["--method", "auto"], ["--method", "out-of-fold"]])
def test_a_run_of_auto_is_resumed(fedsift, tiny, words):
    fedsift("run", tiny, "--set", "rounds=5", "--out", "whole")
    fedsift("run", tiny, "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", *words, "--set", "rounds=5")
    assert ended.code == 0, ended.err
    for name in ("config.toml", "chosen.json", "model.safetensors"):
        assert Path("run", name).read_bytes() == Path("whole", name).read_bytes()
    summaries = [json.loads(Path(n, "summary.json").read_text()) for n in ("run", "whole")]
    assert [s.pop("seconds") > 0 for s in summaries] == [True, True]
    assert summaries[0] == summaries[1]


def test_a_run_of_auto_is_not_resumed_with_another_key(fedsift, tiny):
    fedsift("run", tiny, "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", "--method", "auto", "--set", "l2=1")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith("fedsift: run was run with l2 = 0.001, not 1.0")


@pytest.mark.parametrize(
    ("text", "words", "where"),
    [
        ("", ["--set", "rate=5"], "command line"),
        ("rate = 5", [], "x.toml"),
        ("rate = 5", ["--method", "auto"], "x.toml"),
        ("method = 'single-loop'\nrate = 5", ["--method", "auto"], "command line"),
    ],
)
def test_a_key_of_one_of_the_methods_needs_its_name(fedsift, text, words, where):
    Path("x.toml").write_text(text)
    ended = fedsift("run", "x.toml", *words)
    assert (ended.code, ended.err) == (
        2,
        f"fedsift: {where}: auto does not read the key 'rate'; methods that read it: single-loop, "
        "iter-topk, iter-sketch, non-iter, cg, neumann; choose one of them as the method; `fedsift "
        "run --keys auto` prints the keys of auto\n",
    )
    assert not Path("runs").exists()


def test_keys_of_no_method_are_refused(fedsift):
    ended = fedsift("run", "--keys", "fedagv")
    assert (ended.code, ended.out) == (2, "")
    assert "did you mean 'fedavg'?" in ended.err


def test_a_key_without_effect_is_refused(fedsift):
    words = ("--set", "system=galerkin", "--set", "self_paced=5")
    ended = fedsift("run", "--method", "fedavg", *words)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "fedavg does not read the key 'system'; methods that read it: non-iter" in ended.err
    assert not Path("runs").exists()


def test_a_preset_is_overridden_by_set(fedsift, tmp_path):
    words = "run --method fedavg --preset paper-steps --set rounds=1 --set clients=2"
    words += " --set samples_per_client=20 --set batch_size=8"
    assert fedsift(*words.split(), "--out", "out").code == 0
    config = tomllib.loads(Path("out/config.toml").read_text())
    assert (config["inner"]["inner_lr"], config["inner"]["batch_size"]) == (0.01, 8)
    ended = fedsift("run", "--preset", "paper-steps", "--out", "other")
    assert ended.code == 2
    assert "--preset paper-steps needs a method by its name; give --method" in ended.err
