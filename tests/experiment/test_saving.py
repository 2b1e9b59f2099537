"""Results in folders: what is loaded is what was saved; a stopped run goes on."""

from __future__ import annotations

import pandas as pd
import pytest
import torch
from torch import nn

import fedsift as fs
from fedsift.cli.main import main
from fedsift.errors import ConfigError, InputError
from given import X, Y

PAIRS = {"north": (X, Y), "south": (X[::-1].copy(), Y)}
KEYS = {"local_steps": 2, "device": "cpu", "seed": 3}


def linear() -> nn.Module:
    layer = nn.Linear(2, 3)
    nn.init.zeros_(layer.weight), nn.init.zeros_(layer.bias)
    return layer


def federation(sites=PAIRS) -> fs.Simulation:
    return fs.simulate(linear(), sites, (X, Y))


@pytest.fixture(scope="module")
def result() -> fs.Result:
    return fs.fit(federation(), rounds=3, **KEYS)


def same(one: fs.Result, two: fs.Result) -> None:
    assert one.sites == two.sites
    pd.testing.assert_frame_equal(one.label_issues(), two.label_issues())
    steady = ["round", "validation_loss", "validation_accuracy", "bytes_up"]
    pd.testing.assert_frame_equal(one.history[steady], two.history[steady])
    for site in one.sites:
        assert torch.equal(one.weights(site), two.weights(site))
        assert torch.equal(one.pred_probs(site), two.pred_probs(site))
        assert one.site_summary(site) == two.site_summary(site)


def test_what_is_loaded_is_what_was_saved(result, tmp_path):
    again = fs.load(result.save(tmp_path / "run"), model=linear())
    same(again, result)
    assert torch.equal(again.model.weight, result.model.weight)
    assert again.audits[1].content.fields(2) == result.audits[1].content.fields(2)


def test_the_command_line_reads_a_saved_result(result, tmp_path, capsys):
    folder = str(result.save(tmp_path / "run"))
    for command in (["audit", folder], ["report", folder, "--out", str(tmp_path / "r.html")]):
        assert main(command) == 0
    assert "north" in capsys.readouterr().out


def test_a_run_that_was_stopped_goes_on_to_the_same_end(tmp_path):
    whole = fs.fit(federation(), rounds=5, **KEYS)

    def stop(record):
        if record["round"] == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.fit(federation(), rounds=5, **KEYS, out=tmp_path, observe=stop)
    resumed = fs.fit(federation(), rounds=5, **KEYS, out=tmp_path, resume=True)
    same(resumed, whole)
    same(fs.load(tmp_path), whole)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda out: fs.fit(federation(), rounds=3, out=out), "already holds a run"),
        (
            lambda out: fs.fit(
                federation({"north": (X, Y)}), rounds=3, out=out, resume=True, **KEYS
            ),
            "cannot be resumed",
        ),
        (
            lambda out: fs.fit(
                federation({**PAIRS, "north": (X, Y[::-1].copy())}),
                rounds=3,
                out=out,
                resume=True,
                **KEYS,
            ),
            "the samples differ from those",
        ),
        (lambda out: fs.fit(federation(), out=out / "none", resume=True), "holds no run to resume"),
        (lambda out: fs.load(out).model, "is a module of your own; give it as"),
        (lambda out: fs.load(out, model=nn.Linear(2, 4)).model, "does not fit"),
        (lambda out: fs.load(out, model=nn.Flatten()).model, "does not fit"),
        (lambda out: fs.load(out / "none"), "is not the folder of a finished run"),
        (lambda out: fs.load(out).save(out / "copy"), "copy that folder"),
    ],
)
def test_what_does_not_fit_is_one_sentence(result, tmp_path, call, said):
    result.save(tmp_path / "run")
    with pytest.raises(InputError, match=said) as caught:
        call(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_resume_needs_a_folder():
    with pytest.raises(ConfigError, match="resume needs the folder of the run; give it as out"):
        fs.fit(federation(), resume=True)


def test_what_the_clean_set_lacks_is_logged(caplog):
    few = X[Y < 2][:4], Y[Y < 2][:4]
    result = fs.fit(fs.simulate(linear(), PAIRS, few), rounds=1, **KEYS)
    assert "the clean set has no sample of class '2'" in caplog.text
    assert result.summary["clean_set"]["missing"] == ["2"]
