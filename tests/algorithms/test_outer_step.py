"""The outer step by its two rules."""

import pytest
import torch

from fedsift.algorithms.outer_step import Move, OuterStep
from fedsift.errors import ConfigError


def test_scale_free_steps_have_the_size_of_the_learning_rate():
    step = Move(0.1, "scale-free").change(torch.tensor([3e-9, -4e-9]))
    assert abs(float(step.square().mean().sqrt()) - 0.1) < 1e-6
    assert step[0] > 0 > step[1]
    assert Move(0.1, "scale-free").change(torch.zeros(3)).tolist() == [0.0] * 3


def test_an_unknown_rule_is_refused():
    with pytest.raises(ConfigError, match="outer rule 'adam' is unknown"):
        OuterStep(0.1, "adam")


def test_the_papers_step_is_the_same_in_every_round():
    outer = OuterStep(0.1, "gradient")
    assert (
        outer.at_round(None, None, 0) == outer.at_round(None, None, 1000) == Move(0.1, "gradient")
    )
    assert outer.at_round(None, None, 5).change(torch.tensor([2.0, -3.0])).tolist() == (
        pytest.approx([0.2, -0.3])
    )
