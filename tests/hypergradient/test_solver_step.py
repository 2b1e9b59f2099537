"""The guard: what it lets pass, what it stops, what it says."""

import math
from dataclasses import replace

import pytest
import torch

from fedsift.compress import FORMS, CountSketch, Identity, TopK, feedback_for
from fedsift.hypergradient import Guard, SolverState
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.solver_step import Update, after_losses, step_back, update_v
from fedsift.messages import Answers, Reply

FINE = torch.ones(3)


@pytest.mark.parametrize(
    ("residual", "error", "v", "said"),
    [
        (2.0, 100.0, FINE, None),
        (31.0, 1.0, FINE, "the residual reached 31"),
        (1.0, 3001.0, FINE, "the compression error reached 3e+03 steps"),
        (math.nan, 1.0, FINE, "a number became infinite"),
        (1.0, math.inf, FINE, "a number became infinite"),
        (1.0, 1.0, torch.tensor([1.0, math.nan]), "a number became infinite"),
    ],
)
def test_the_guard_names_what_is_wrong(residual, error, v, said):
    assert Guard().verdict(residual, error, v) == said


def test_stepping_back_forgets_and_says_so():
    state = SolverState(FINE, FINE, epoch=3, fresh=False, step_scale=0.5, resets=1)
    update = Update(FINE, trouble="the residual reached 40")
    sentence, after = step_back(state, update, step=0.05, k=6)
    assert after == SolverState(epoch=4, step_scale=0.25, resets=2)
    assert sentence == (
        "the solver diverged in round 7 (the residual reached 40); v and its error were reset and "
        "the step went from 0.05 to 0.025: lower solver_lr, the rate or the heavy hitters"
    )


def test_negative_curvature_changes_the_advice():
    update = Update(FINE, curvature=-1.0, trouble="the residual reached 40")
    sentence, _ = step_back(SolverState(), update, step=0.1, k=0)
    assert sentence.endswith("use curvature 'gauss-newton' or raise the damping")


@pytest.mark.parametrize(
    ("limit", "said"), [(31, None), (29, "the compression error reached 30 steps")]
)
def test_the_error_that_clients_report_is_measured_in_steps(limit, said):
    """Mean error (30 * 8 + 10 * 0) / 40 = 6 against α ‖b‖ = 0.1 * 2."""
    witness, zeros = Witness(3), torch.zeros(4)
    product = {"product": zeros, "residual": witness.seen(zeros, zeros)}
    replies = (
        Reply(0, 30, product, {"error": 8.0, "curvature": 0.0}),
        Reply(1, 10, product, {"error": 0.0, "curvature": 0.0}),
    )
    b, guard = torch.ones(4), Guard(error=limit)
    feedback = feedback_for(Identity(4))
    update = update_v(
        feedback,
        Answers(replies),
        b,
        b,
        None,
        step=0.1,
        damping=0.0,
        guard=guard,
        judge=Judge.of(witness, b),
    )
    assert update.trouble == said


def test_only_ef21_at_clients_starts_a_new_epoch_when_a_reply_is_lost():
    """Its two sides may then differ; the others keep what they have at one side."""
    state, answers = SolverState(v=FINE, memory=FINE, fresh=False), Answers((Reply(0, 30),))
    for compressor in (TopK(4, 1), CountSketch(4, 5, 1, 0)):
        for form in FORMS:
            feedback = feedback_for(compressor, form)
            dropped = after_losses(state, feedback, 2, answers)
            lost = isinstance(compressor, TopK) and form == "ef21"
            assert dropped == (replace(state, memory=None, epoch=1) if lost else state)
            assert after_losses(state, feedback, 1, answers) == state
