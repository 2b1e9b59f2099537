"""Steps that the run finds: their numbers, and what happens to a round that diverges."""

import json

import pytest
import torch

from fedsift.algorithms import LocalSteps, found_steps
from fedsift.algorithms.found_steps import FoundSteps, clean_loss
from fedsift.algorithms.registry import METHODS
from fedsift.algorithms.step_trial import find_step
from fedsift.errors import ConfigError, Diverged, RunError
from fedsift.experiment.run import execute, train
from fedsift.experiment.setup import from_config
from fedsift.keys import BuildContext, Settings
from tiny import tiny_config

AUTO = [name for name, row in METHODS.items() if row.reads("inner_lr")]
FAR = 1e4  # a step that no model here survives


def config(method="fedavg", **keys):
    return tiny_config(method, {"rounds": 4, "inner_lr": "auto", "checkpoint_every": 1}, **keys)


def records(folder):
    lines = (folder / "rounds.jsonl").read_text().splitlines()
    return [{**json.loads(line), "seconds": None} for line in lines]


@pytest.fixture
def too_large(monkeypatch):
    """Let the trial err by orders of magnitude."""
    monkeypatch.setattr(found_steps, "find_step", lambda *_: FAR)


@pytest.mark.parametrize("method", AUTO)
def test_every_method_takes_the_step_that_is_found(method):
    """It is the same for all, and a run with this number in place of "auto" is the same."""
    setup = from_config(config(method).resolve())
    step = find_step(setup.server, setup.initial_state().y, LocalSteps(batch_size=8))
    found = train(setup)
    given = train(from_config(config(method, inner_lr=step).resolve()))
    assert [record["inner_lr"] for record in found.rounds] == [step] * 4
    assert torch.equal(found.state.y, given.state.y)
    assert found.summary["events"] == given.summary["events"]


@pytest.mark.parametrize("method", AUTO)
def test_a_step_that_is_far_too_large_is_halved_until_rounds_go_well(method, too_large):
    setup = from_config(config(method, rounds=2).resolve())
    start = clean_loss(setup.server, setup.initial_state().y)
    found = train(setup)
    last = found.rounds[-1]
    halvings = [e for r in found.rounds for e in r["events"] if "is done again with" in e]
    assert last["inner_lr"] == FAR / 2 ** len(halvings)
    assert len(halvings) > 3
    assert clean_loss(setup.server, found.state.y) <= 9 * start
    assert halvings[0].startswith("round 1 is done again with inner_lr 5e+03: ")


def test_a_run_that_was_cut_between_two_halvings_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    steps = iter([1.0])
    monkeypatch.setattr(found_steps, "find_step", lambda *_: next(steps))
    whole = execute(config("single-loop", rounds=4, head_start=0), tmp_path / "whole")
    steps = iter([1.0])
    execute(config("single-loop", rounds=2, head_start=0), tmp_path / "cut")
    resumed = execute(config("single-loop", head_start=0), tmp_path / "cut", resume=True)
    assert torch.equal(whole.state.y, resumed.state.y)
    assert records(tmp_path / "whole") == records(tmp_path / "cut")


def test_the_halved_step_survives_a_resumed_run(tmp_path, too_large):
    execute(config(rounds=1), tmp_path)
    resumed = execute(config(rounds=2), tmp_path, resume=True)
    first, second = (record["inner_lr"] for record in resumed.rounds)
    assert second <= first < FAR
    assert resumed.rounds[0]["events"]


def test_a_jump_of_the_clean_loss_is_taken_back(monkeypatch):
    """The round is repeated from the y before it, with half the step."""
    setup = from_config(config(rounds=1).resolve())
    monkeypatch.setattr(found_steps, "find_step", lambda *_: 64.0)
    monkeypatch.setattr(found_steps, "JUMP", 1.0)
    found = train(setup)
    halvings = len(found.rounds[0]["events"])
    assert halvings >= 1
    given = train(from_config(config(rounds=1, inner_lr=64.0 / 2**halvings).resolve()))
    assert torch.equal(found.state.y, given.state.y)
    assert "the loss on the clean set went from" in found.rounds[0]["events"][0]


def test_a_number_that_was_given_is_used_as_it_is():
    with pytest.raises(Diverged, match=r"no longer finite .* lower inner_lr"):
        train(from_config(config(inner_lr=1e20, rounds=50).resolve()))


def test_sites_that_diverge_with_any_step_end_the_run(monkeypatch):
    setup = from_config(config().resolve())
    monkeypatch.setattr(found_steps, "find_step", lambda *_: 1e25)
    with pytest.raises(RunError, match=r"round 1 diverges with steps as small as .*; scale the"):
        train(setup)


def test_the_solvers_numbers_follow_from_the_inner_step():
    keys = {"solver_lr": "auto", "damping": "auto", "inner_lr": 0.2}
    setup = from_config(config("single-loop", **keys).resolve())
    found = train(setup)
    assert isinstance(setup.algorithm, FoundSteps)
    assert found.rounds[0]["solver_lr"] == 0.2
    assert found.rounds[0]["damping"] == pytest.approx(0.25)
    numbers = {"inner_lr": 0.2, "solver_lr": 0.2, "damping": 0.25}
    given = train(from_config(config("single-loop", **numbers).resolve()))
    assert torch.equal(found.state.y, given.state.y)


def test_at_the_usual_step_the_solver_has_its_usual_numbers():
    assert found_steps.OF_INNER["solver_lr"](0.1) == 0.1
    assert found_steps.OF_INNER["damping"](0.1) == pytest.approx(0.5)


def test_the_same_numbers_are_the_same_method():
    settings = Settings.of(METHODS["fedavg"].groups)
    made = [METHODS["fedavg"].algorithm(settings, BuildContext(9, seed)) for seed in (0, 0, 1)]
    assert made[0] == made[1] != made[2]


def test_a_method_is_built_from_numbers_only():
    settings = Settings.of(METHODS["fedavg"].groups)
    with pytest.raises(ConfigError, match=r"let Method\.algorithm find them"):
        METHODS["fedavg"].build(settings, BuildContext(9))
