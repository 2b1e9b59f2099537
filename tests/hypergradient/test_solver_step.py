"""The guard: what it lets pass, what it stops, what it says."""

import math

import pytest
import torch

from fedsift.hypergradient import Guard, SolverState
from fedsift.hypergradient.solver_step import Update, step_back

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
    state = SolverState(
        v=FINE, memory=FINE, fresh=False, sent=FINE, version=4, step_scale=0.5, resets=1
    )
    update = Update(FINE, trouble="the residual reached 40")
    sentence, after = step_back(state, update, step=0.05, k=6)
    assert after == SolverState(version=4, step_scale=0.25, resets=2)
    assert sentence == (
        "the solver diverged in round 7 (the residual reached 40); v and its error were reset and "
        "the step went from 0.05 to 0.025: lower solver_lr, the rate or the heavy hitters"
    )


def test_negative_curvature_changes_the_advice():
    update = Update(FINE, curvature=-1.0, trouble="the residual reached 40")
    sentence, _ = step_back(SolverState(), update, step=0.1, k=0)
    assert sentence.endswith("use curvature 'gauss-newton' or raise the damping")
