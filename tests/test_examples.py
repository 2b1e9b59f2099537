"""The examples run and show what they say."""

import runpy
from pathlib import Path

import torch

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_penalties_rise_on_noise_features():
    x = runpy.run_path(str(EXAMPLES / "hyperparameter.py"))["main"]()
    assert x[:5].max() < x[5:].min()


def test_the_readme_example_runs():
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
