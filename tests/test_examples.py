"""The examples run and show what they say."""

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest

from fedsift.experiment.config import Config

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_penalties_rise_on_noise_features():
    x = runpy.run_path(str(EXAMPLES / "hyperparameter.py"))["main"]()
    assert x[:5].max() < x[5:].min()


def test_an_own_problem_penalises_the_noise():
    x = runpy.run_path(str(EXAMPLES / "own_problem.py"))["main"]()
    assert x[:2].max() < x[2:].min() - 0.5


def test_a_learned_centre_is_better_than_a_random_one():
    shared, alone = runpy.run_path(str(EXAMPLES / "personal.py"))["main"]()
    assert shared > alone + 0.02  # 0.681 and 0.633 when this was written


def test_corrected_labels_are_mostly_right(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "clean_and_retrain.py"))
    config = Config.of(rounds=15, clients=4, model="linear", eval_every=15)
    example["main"](config, tmp_path)
    before, after = (
        json.loads((tmp_path / name / "summary.json").read_text())["noise_rate"]
        for name in ("noisy", "after")
    )
    assert after < before / 2


@pytest.mark.deep
def test_training_on_corrected_labels_is_better(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "clean_and_retrain.py"))
    noisy, _, corrected, oracle = example["main"](Config.of(eval_every=60), tmp_path).values()
    assert noisy + 0.03 < corrected  # 90.8 and 97.6 % when this was written
    assert corrected > oracle - 0.02


def test_the_level_keeps_the_mean_confidence():
    choose = runpy.run_path(str(EXAMPLES / "clean_and_retrain.py"))["choose_level"]
    assert choose(pd.Series([0.5, 0.99, 0.9, 0.97])) == 0.9  # mean of three 0.953, of four 0.84
    assert choose(pd.Series([0.6, 0.7])) == 1.0
