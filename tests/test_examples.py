"""The examples run and show what they say."""

import runpy
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_penalties_rise_on_noise_features():
    x = runpy.run_path(str(EXAMPLES / "hyperparameter.py"))["main"]()
    assert x[:5].max() < x[5:].min()
