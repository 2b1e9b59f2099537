"""Runs with ``auto``: what they leave is what the method that was chosen leaves, and they go on."""

import json
import logging
from typing import Any

import pytest
import torch
from torch import nn

import fedsift as fs
from fedsift.errors import ConfigError, InputError
from fedsift.experiment.common_keys import RunKeys
from fedsift.experiment.config import Config
from fedsift.experiment.paper_grid import Choice, plan
from fedsift.experiment.run import execute, read_config
from fedsift.experiment.setup import from_config
from fedsift.randomness import generator

CASES = [("linear", "out-of-fold"), ("mlp", "posterior")]
every_case = pytest.mark.parametrize(("model", "method"), CASES)
KEYS: dict[str, Any] = {"local_steps": 2, "batch_size": 8}


def samples(name: str, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    source = generator(0, name)
    labels = torch.randint(3, (count,), generator=source)
    return torch.randn(count, 4, generator=source) + 3 * torch.eye(3, 4)[labels], labels


def federation(model: nn.Module | None = None) -> fs.Simulation:
    pairs = [samples(f"client {m}", 24) for m in range(2)]
    return fs.simulate(model or nn.Linear(4, 3), pairs, samples("clean", 15))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def without_choice(outcome: dict[str, Any]) -> dict[str, Any]:
    summary = {key: value for key, value in outcome["summary"].items() if key != "chosen"}
    return {**outcome, "summary": summary}


def stop_after(k):
    def observe(record):
        if record["round"] == k:
            raise KeyboardInterrupt

    return observe


def test_it_is_the_default():
    assert RunKeys.method == Config.of().method == "auto"
    assert "chosen" in fs.fit(federation(), rounds=1, **KEYS).summary


@every_case
def test_the_folder_is_that_of_the_method_by_name(tmp_path, tiny, outcome, model, method):
    auto = tiny("auto", model=model, validation_size=50)
    execute(auto, tmp_path / "auto")
    execute(auto.replace(method=method), tmp_path / "named")
    found = outcome(tmp_path / "auto")
    assert without_choice(found) == outcome(tmp_path / "named")
    assert found["summary"]["method"] == method
    assert found["summary"]["chosen"].keys() == {"by", "why"}
    assert read_config(tmp_path / "auto") == auto.replace(method=method).resolve()
    assert not (tmp_path / "named" / "chosen.json").exists()


@every_case
@pytest.mark.parametrize("again", ["auto", "the folder's"])
def test_it_goes_on_bit_equal(tmp_path, tiny, outcome, model, method, again):
    config = tiny("auto", model=model, validation_size=50)
    execute(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        execute(config, tmp_path / "cut", observe=stop_after(3))
    resumed = config if again == "auto" else read_config(tmp_path / "cut")
    assert resumed.method == ("auto" if again == "auto" else method)
    execute(resumed, tmp_path / "cut", resume=True)
    assert outcome(tmp_path / "cut") == outcome(tmp_path / "whole")


@pytest.mark.parametrize(
    ("began", "goes_on", "message"),
    [
        ({}, {"l2": 0.5}, "with l2 = 0.001, not 0.5"),
        ({}, {"batch_size": 9}, "with batch_size = 8, not 9"),
        ({}, {"seed": 1}, "with seed = 0, not 1"),
        ({"method": "fedavg"}, {}, "with method = 'fedavg', not 'out-of-fold'"),
        ({"method": "out-of-fold", "share_noise": False}, {}, "with share_noise = False, not True"),
        ({}, {"model": "mlp"}, "with model = 'linear', not 'mlp'"),
    ],
)
def test_another_configuration_does_not_go_on(tmp_path, tiny, began, goes_on, message):
    execute(tiny(**{"method": "auto", **began}), tmp_path)
    before = (tmp_path / "config.toml").read_text()
    with pytest.raises(InputError, match=message):
        execute(tiny("auto", **goes_on), tmp_path, resume=True)
    assert (tmp_path / "config.toml").read_text() == before


def test_a_run_by_name_goes_on_with_auto_where_that_chooses_it(tmp_path, tiny):
    execute(tiny("auto").replace(method="out-of-fold", rounds=2), tmp_path)
    summary = execute(tiny("auto"), tmp_path, resume=True).summary
    assert (summary["rounds"], summary["method"]) == (6, "out-of-fold")


def test_a_choice_of_an_earlier_run_is_not_kept(tmp_path, tiny):
    execute(tiny("auto", rounds=1), tmp_path)
    for name in ("config.toml", "rounds.jsonl"):
        (tmp_path / name).unlink()
    assert "chosen" not in execute(tiny("fedavg", rounds=1), tmp_path).summary
    assert not (tmp_path / "chosen.json").exists()


@pytest.mark.parametrize("content", ["", "[1]", '{"methods": 1}'])
def test_a_choice_that_cannot_be_read_is_named(tmp_path, tiny, content):
    execute(tiny("auto", rounds=1), tmp_path)
    (tmp_path / "chosen.json").write_text(content)
    with pytest.raises(InputError, match=r"chosen\.json cannot be read; remove it"):
        execute(read_config(tmp_path), tmp_path, resume=True)


def test_setup_has_the_method_and_why(tiny):
    setup = from_config(tiny("auto").resolve())
    assert setup.config.method == setup.choice.method == "out-of-fold"
    assert from_config(tiny("out-of-fold").resolve()).choice is None


@pytest.mark.parametrize(("make", "method"), [(None, "out-of-fold"), (network, "posterior")])
def test_fit_says_what_it_chose(caplog, capsys, make, method):
    given = federation(None if make is None else make())
    with caplog.at_level(logging.INFO, logger="fedsift"):
        result = fs.fit(given, rounds=1, progress=True, **KEYS)
    sentence = f"auto chose {method}: {result.summary['chosen']['why']}"
    assert [r.levelname for r in caplog.records if r.message == sentence] == ["INFO"]
    assert sentence in " ".join(capsys.readouterr().err.split())
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="fedsift"):
        fs.fit(given, method, rounds=1, progress=True, **KEYS)
    assert "chose" not in caplog.text + capsys.readouterr().err


def test_fit_goes_on(tmp_path):
    model = nn.Linear(4, 3)
    whole = fs.fit(federation(model), rounds=4, **KEYS)
    with pytest.raises(KeyboardInterrupt):
        fs.fit(federation(model), rounds=4, **KEYS, out=tmp_path, observe=stop_after(2))
    result = fs.fit(federation(model), rounds=4, **KEYS, out=tmp_path, resume=True)
    assert torch.equal(result.model.weight, whole.model.weight)
    same = ("method", "chosen", "f1", "bytes_up", "rounds")
    assert [result.summary.get(k) for k in same] == [whole.summary.get(k) for k in same]
    with pytest.raises(InputError, match="with local_steps = 2, not 3"):
        fs.fit(federation(model), rounds=4, local_steps=3, out=tmp_path, resume=True)
    with pytest.raises(InputError, match="with method = 'out-of-fold', not 'posterior'"):
        fs.fit(federation(network()), rounds=4, **KEYS, out=tmp_path, resume=True)


def test_a_saved_result_keeps_the_choice(tmp_path):
    folder = fs.fit(federation(), rounds=1, **KEYS).save(tmp_path / "saved")
    assert fs.load(folder, nn.Linear(4, 3)).summary["chosen"]["by"] == "auto"
    assert json.loads((folder / "chosen.json").read_text())["method"] == "out-of-fold"


def test_the_paper_s_figures_name_their_methods():
    with pytest.raises(ConfigError, match="--methods has 'auto'; choose from fedavg, "):
        plan("fig1", choice=Choice(methods=["auto"], datasets=["digits"]))
