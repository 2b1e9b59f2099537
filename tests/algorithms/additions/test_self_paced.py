"""The falling step, trust, and the pull of the weights, by hand."""

import pytest
import torch

from conftest import quadratic_case
from fedsift.algorithms import Server
from fedsift.algorithms.additions.self_paced import SelfPaced, pull, trust
from fedsift.algorithms.outer_step import OuterStep
from fedsift.problem import LabelledBatch


def test_the_outer_step_falls_like_one_over_k():
    outer = SelfPaced(OuterStep(0.1), 10, 0.0)
    assert [round(outer.at(k).lr, 6) for k in (0, 9, 19, 99)] == [0.1, 0.1, 0.05, 0.01]


def test_the_models_own_opinion_takes_over_what_the_step_gives_up():
    outer = SelfPaced(OuterStep(0.1), 10, 2.0)
    assert [round(outer.at(k).pace, 6) for k in (0, 9, 19, 99)] == [0.0, 0.0, 0.1, 0.18]
    for earned, lr, pace in ((0.0, 0.1, 0.0), (0.5, 0.055, 0.09), (1.0, 0.01, 0.18)):
        move = outer.at(99, earned)
        assert (move.lr, move.pace) == (pytest.approx(lr), pytest.approx(pace))
    assert SelfPaced(OuterStep(0.1), 10, 0.0).at(99).pace == 0.0


def test_the_models_own_opinion_pulls_a_weight_towards_it():
    agreement, x = (
        torch.tensor([0.0, 0.125, 0.25, 0.625, 1.0]),
        torch.tensor([0.5, 0.5, 0.5, 0.0, 1]),
    )
    first = pull(x, agreement, 0.1)
    torch.testing.assert_close(first, torch.tensor([-0.1, -0.05, 0.0, 0.15, 0.0]))
    for _ in range(100):
        x = x + pull(x, agreement, 0.1)
    torch.testing.assert_close(x, torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0]))


def test_a_model_is_trusted_by_its_errors_on_the_validation_set(conv):
    predicted = conv.problem.outputs(conv.y, conv.batch).argmax(dim=1)
    for errors in (0, 1, 2):
        labels = predicted.clone()
        labels[:errors] = (labels[:errors] + 1) % 3
        server = Server(conv.problem, LabelledBatch.of(conv.batch.inputs, labels))
        assert trust(server, conv.y) == pytest.approx(max(0.0, 1 - 10 * errors / 12))
    assert trust(Server(quadratic_case().problem, None), conv.y) == 1.0
