"""``fedsift run``: where its keys come from, what it prints, how it goes on."""

import json
import tomllib
from pathlib import Path

from fedsift.cli.run import all_keys
from fedsift.experiment.config import Config, from_mapping
from fedsift.experiment.run import read_config


def test_run_prints_its_figures_and_its_folder(fedsift, tiny):
    ended = fedsift("run", tiny, "--out", "there")
    summary = json.loads(Path("there/summary.json").read_text())
    assert ended.code == 0
    assert f"{summary['test_accuracy']:.3f}" in ended.out
    assert ended.out.endswith("run folder: there\nreport:     there/report.html\n")
    assert "<html" in Path("there/report.html").read_text()
    assert "single-loop 3/3" in ended.err


def test_file_then_options_then_set(fedsift, tiny):
    settings = ("--set", "method=iter-topk", "--set", "seed=7", "--set", "solver.rate=4")
    ended = fedsift("run", tiny, "--method", "non-iter", *settings)
    config = read_config(Path("runs/digits-iter-topk-7"))
    assert ended.code == 0
    assert (config.rounds, config.clients, config.rate) == (3, 2, 4.0)


def test_folder_keeps_every_key(fedsift, tiny):
    fedsift("run", tiny, "--out", "run")
    tables = tomllib.loads(Path("run/config.toml").read_text())
    assert {t: list(keys) for t, keys in tables.items()} == {
        t: list(keys) for t, keys in Config().tables().items()
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
    fedsift("run", tiny, "--method", "fedavg")
    ended = fedsift("run", "--method", "fedavg", "--resume", "--set", "rounds=4")
    assert ended.code == 0
    assert json.loads(Path("runs/digits-fedavg-0/summary.json").read_text())["rounds"] == 4


def test_resume_with_another_rate_is_refused(fedsift, tiny):
    fedsift("run", tiny, "--out", "run")
    ended = fedsift("run", "--out", "run", "--resume", "--set", "rate=9")
    assert ended.code == 2
    assert ended.err == (
        "fedsift: run was run with rate = 5.0, not 9.0, and cannot be resumed with it; choose "
        "another folder with --out\n"
    )


def test_keys_are_a_configuration_file(fedsift):
    text = fedsift("run", "--keys").out
    assert from_mapping(tomllib.loads(text), "keys") == Config()
    assert text == all_keys()
    assert all("# " in line for line in text.splitlines() if "=" in line)
