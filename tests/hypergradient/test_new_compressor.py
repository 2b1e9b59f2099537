"""A compressor that the package does not know: one class, one feedback, one row of the table."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from fedsift.compress import (
    COMPRESSORS,
    NoFeedback,
    RateKeys,
    Sparse,
    feedback_for,
    make_compressor,
)
from fedsift.compress.registry import Row
from fedsift.hypergradient import Constant, Guard, Iterative, SolverState
from fedsift.hypergradient.residual import Judge, Witness
from fedsift.hypergradient.solver_step import update_v
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Answers, Reply
from fedsift.randomness import generator

D, STEP = 40, 0.02


@dataclass(frozen=True)
class RandomK:
    """S sends the numbers at k coordinates that the seed draws."""

    length: int
    k: int
    seed: int
    linear = True

    @property
    def numbers(self):
        return self.k

    @property
    def kept(self):
        order = torch.randperm(self.length, generator=generator(self.seed, "random-k"))
        return order[: self.k].sort().values

    def compress(self, g):
        return Sparse(self.kept, g.detach()[self.kept], self.length)

    def decompress(self, payload):
        return payload.values.new_zeros(self.length).index_put_((self.kept,), payload.values)

    def spec(self):
        return {"name": "random-k", "length": self.length, "k": self.k, "seed": self.seed}


@dataclass(frozen=True)
class Unbiased(NoFeedback):
    """Scale by d/k, so that the mean over seeds is the plain step."""

    def server(self, payloads, shares, step, memory, right=None, total=1.0):
        delta, _ = super().server(payloads, shares, step, memory)
        return self.compressor.length / self.compressor.k * delta, None


@pytest.fixture
def compressor(monkeypatch):
    def build(settings, context):
        return RandomK(context.length, int(context.length / settings[RateKeys].rate), context.seed)

    monkeypatch.setitem(COMPRESSORS, "random-k", Row(RandomK, build, Unbiased))
    settings = Settings.of((RateKeys,), {"rate": 4})
    return make_compressor("random-k", settings, BuildContext(D, seed=3))


def test_it_runs_through_an_update_of_v(compressor):
    feedback = feedback_for(compressor)
    products = [torch.randn(D, generator=generator(m), dtype=torch.float64) for m in range(2)]
    scalars, witness = {"error": 0.0, "curvature": 1.0}, Witness(1)
    replies = tuple(
        Reply(
            m,
            n,
            {"product": feedback.client(p, STEP, None)[0], "residual": witness.seen(p, p)},
            scalars,
        )
        for m, (n, p) in enumerate(zip((30, 10), products, strict=True))
    )
    v, b = torch.zeros(D, dtype=torch.float64), torch.ones(D, dtype=torch.float64)
    judge = Judge.of(witness, b)
    update = update_v(
        *(feedback, Answers(replies), v, b, None),
        step=STEP,
        damping=0.0,
        guard=Guard(),
        judge=judge,
    )
    kept = torch.zeros(D, dtype=torch.float64).index_fill_(0, compressor.kept, 1.0)
    mean = 0.75 * products[0] + 0.25 * products[1]
    torch.testing.assert_close(update.v, STEP * b - STEP * 4 * kept * mean)
    assert update.seen.residual == pytest.approx(float((mean - b).norm() / b.norm()), rel=0.2)
    assert update.trouble is None


def test_it_runs_through_algorithm_2(compressor, quadratic):
    solver = Iterative(feedback_for(compressor), 5, Constant(STEP))
    estimate, state = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    H, b = quadratic.mean.A, quadratic.point.outer_gradient
    kept = torch.zeros(D, dtype=torch.float64).index_fill_(0, compressor.kept, 1.0)
    v = torch.zeros(D, dtype=torch.float64)
    for _ in range(5):
        v = v - STEP * (4 * kept * (H @ v) - b)
    torch.testing.assert_close(estimate.v, v)
    assert estimate.usable
    assert state.memory is None
