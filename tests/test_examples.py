"""The examples run and show what they say."""

import json
import runpy
from pathlib import Path

import pandas as pd
import pytest
import torch

from fedsift.experiment.config import Config

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_penalties_rise_on_noise_features():
    x = runpy.run_path(str(EXAMPLES / "hyperparameter.py"))["main"]()
    assert x[:5].max() < x[5:].min()


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


def test_the_readme_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (EXAMPLES.parent / "README.md").read_text(encoding="utf-8")
    code = text.split("```python")[1].split("```")[0].replace("rounds=60", "rounds=3")
    source = torch.Generator().manual_seed(0)

    def draw(count):
        inputs = torch.randn(count, 20, generator=source)
        return inputs, inputs[:, :3].argmax(dim=1)

    names = {"X1": "y1", "X2": "y2", "X3": "y3", "Xv": "yv"}
    values = {}
    for inputs, labels in names.items():
        values[inputs], values[labels] = draw(40)
    exec(code, values)
    result = values["result"]
    assert len(result.history) == 3
    assert len(result.label_issues(client=0)) == 40
    assert result.model(values["Xv"]).shape == (40, 3)
