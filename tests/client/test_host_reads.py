"""How often a round reads a number back from its device: not in the loop of the local steps.

On a GPU every such read waits for all that was started before. They are counted on the CPU, where
they are the same operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedsift.algorithms.outer_gradients import OuterToo
from fedsift.algorithms.outer_step import Move, Scoring, TotalSamples
from fedsift.algorithms.posterior import Optimism
from fedsift.client import Client, answer, initial_state
from fedsift.compress import NoFeedback, TopK
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.products import Compression
from fedsift.hypergradient.residual import Witness
from fedsift.messages import Request, scalars_of
from fedsift.problem.sgd import LocalSteps

READ = torch.ops.aten._local_scalar_dense.default


class Reads(TorchDispatchMode):
    """Counts reads within it."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is READ
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class Reading:
    """A problem that reads its loss in every step: the count must notice."""

    problem: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.problem, name)

    def inner_loss(self, x, y, batch):
        loss = self.problem.inner_loss(x, y, batch)
        assert float(loss.detach()) >= 0
        return loss


def reads(conv, action, parts, arrays, steps, problem=None):
    """Return how many reads a request of so many local steps takes, the second one of a site."""
    client = Client(0, problem or conv.problem, conv.batch)
    state = initial_state(client)
    for k in (0, 1):
        scalars = scalars_of(LocalSteps(steps, 0.1, 2), *parts)
        with Reads() as seen:
            _, state = answer(client, state, Request(action, k, arrays, scalars))
    return seen.count


def parts_of_single_loop(length):
    feedback = NoFeedback(TopK.at_rate(length, 4))
    return (
        CurvatureSettings("gauss-newton", 4, 0.0),
        Move(0.1, "gradient"),
        Witness(3),
        OuterToo(False),
        Compression.by(feedback, 0.1),
        TotalSamples(12),
        Scoring(4, differences=True),
    )


@pytest.mark.parametrize(("action", "most"), [("train", 1), ("step", 14), ("train-posterior", 48)])
def test_reads_do_not_grow_with_the_local_steps(conv, action, most):
    arrays = {"y": conv.y} | ({"v": conv.v} if action == "step" else {})
    parts = {
        "train": (),
        "step": parts_of_single_loop(len(conv.y)),
        "train-posterior": (Optimism(0.5, 1.0, 0.9, 0.2), Scoring()),
    }[action]
    few, many = (reads(conv, action, parts, arrays, steps) for steps in (1, 5))
    # Most of posterior's are the ends of the searches for rates, which a GPU does not look at.
    assert few == many <= most


def test_a_read_in_every_step_is_counted(conv):
    few, many = (reads(conv, "train", (), {"y": conv.y}, n, Reading(conv.problem)) for n in (1, 5))
    assert many == few + 4
