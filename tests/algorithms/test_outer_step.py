"""The outer step by its two rules."""

import pytest
import torch

from fedsift.algorithms import ServerState
from fedsift.algorithms.outer_step import Move, OuterStep, scaled, seen_scale
from fedsift.errors import ConfigError
from fedsift.messages import Answers, Reply


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


def test_scale_free_steps_are_scaled_alike_at_all_clients():
    """Two clients, ∇h of one ten times that of the other: so are their steps, not 0.1 each."""
    small, large = torch.full((30,), 1e-4), torch.full((10,), 1e-3)
    replies = tuple(
        Reply(m, len(h), {}, {"outer_square": float(h.square().mean())})
        for m, h in enumerate((small, large))
    )
    v = torch.full((16,), 0.5)
    state = ServerState(v, own=seen_scale(Answers(replies), v))
    move = scaled(Move(0.1, "scale-free"), state, 3 * v)  # v, and so ∇h, is three times as long
    steps = torch.cat((move.change(3 * small), move.change(3 * large)))
    assert float(steps.square().mean().sqrt()) == pytest.approx(0.1)
    assert float(steps[-1] / steps[0]) == pytest.approx(10)


def test_until_a_scale_is_known_each_client_has_its_own():
    v = torch.ones(4)
    assert scaled(Move(0.1, "scale-free"), ServerState(v), v).rms == 0.0
    assert seen_scale(Answers((Reply(0, 5, {}, {"outer_square": 1.0}),)), 0 * v) == {}
    assert seen_scale(Answers((Reply(0, 5),)), v) == {}  # x is shared
