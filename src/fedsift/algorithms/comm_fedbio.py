"""Algorithm 1, Comm-FedBiO: local steps, hypergradient, outer step.

    y_k+1 = FedAvg round from (x_k, y_k)                                   lines 3-10
    v     ≈ (∇²_yy G(x_k, y_k+1))⁻¹ ∇_y F(x_k, y_k+1)                      line 11 or 12
    x_k+1 = P(x_k − η (∇_x F − ∇²_xy G(x_k, y_k+1) v))                     line 13

If x is private (sample weights), client m does its own part of line 13 and sends nothing of it; F
then must not depend on x. If x is shared, clients send ∇²_xy g_m v and the server steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedsift.algorithms.clean_set import HeadStartKeys, with_head_start
from fedsift.algorithms.fedavg import LocalKeys, LocalSteps, draw_cohort, local_of, train_round
from fedsift.algorithms.method import Method, Weighting
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.errors import ConfigError
from fedsift.hypergradient import Estimate, Estimator, Point
from fedsift.hypergradient.settings import EstimatorRow
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Action, Cohort, Federation, Request, Scalar
from fedsift.problem import Composite, HasAgreement, outer_gradients

OUTER_RULES = ("scale-free", "gradient")
NEUTRAL = 0.25


@dataclass(frozen=True)
class Move:
    """The outer step of one round: how x moves along the hypergradient, and by itself."""

    lr: float
    rule: str
    pace: float = 0.0

    def change(self, hypergradient: Tensor) -> Tensor:
        """Return what to subtract from x."""
        if self.rule == "gradient":
            return self.lr * hypergradient
        rms = hypergradient.square().mean().sqrt()
        return torch.where(rms > 0, self.lr * hypergradient / rms, torch.zeros_like(hypergradient))

    def own(self, x: Tensor, agreement: Tensor) -> Tensor:
        """Return what to add to the weights for the model's own opinion of their labels.

        A pull towards t(a): 0 where it is sure of another class, 1 where it is sure of this one, ½
        at a = ¼, not at ½: a right label that is dropped can never be learned.
        """
        target = torch.where(
            agreement < NEUTRAL,
            agreement / (2 * NEUTRAL),
            (agreement + 1 - 2 * NEUTRAL) / (2 - 2 * NEUTRAL),
        )
        return 2 * self.pace * (target - x)

    def scalars(self) -> dict[str, Scalar]:
        """Return the settings as part of a request."""
        return {"outer_lr": self.lr, "outer_rule": self.rule, "pace": self.pace}


@dataclass(frozen=True)
class OuterStep:
    """How x moves over the rounds.

    ``gradient``: x − η ∇h, as the paper writes it. ``scale-free``: x − η ∇h / rms(∇h). For sample
    weights ∇h has a factor 1/N, so that η = 0.1 would need thousands of rounds; dividing by the
    root mean square makes η the typical change of a weight in one round, whatever N, v and the
    loss are. After ``decay_after`` rounds the step falls like 1/k (0: never, as in the paper): the
    weights then settle instead of following the noise of a small validation set.

    ``self_paced`` (c, ours) lets the model's own opinion take over what the step gives up, as far
    as the model has earned it on the validation set:

        η_k = η_0 − τ (η_0 − η_0 / max(1, k / decay_after)),      τ = max(0, 1 − 10 e)
        x  += 2 c (η_0 − η_k) (t(a) − x)

    e is the model's share of errors there, a in [0, 1] says how far it shares a sample's label, in
    the mean over rounds, and t(a) is the weight that this would give it (``Move.own``). So the
    hypergradient leads while the model is young, however many rounds that takes, and what it has
    taught the model settles the weights: a step of self-paced learning. With c = 0 nothing of this
    is done, and τ is 1.
    """

    lr: float = 0.1
    rule: str = "scale-free"
    decay_after: int = 0
    self_paced: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in OUTER_RULES:
            raise ConfigError(f"outer rule '{self.rule}' is unknown; use one of {OUTER_RULES}")

    def at(self, k: int, trust: float = 1.0) -> Move:
        """Return the step of round k, with a model to be trusted so far (τ)."""
        slower = max(1.0, (k + 1) / self.decay_after) if self.decay_after else 1.0
        given_up = trust * (self.lr - self.lr / slower)
        return Move(self.lr - given_up, self.rule, self.self_paced * given_up)

    def of_round(self, server: Server, y: Tensor, k: int) -> Move:
        """Return the step of round k at the model y."""
        return self.at(k, trust(server, y) if self.self_paced else 1.0)


@torch.no_grad()
def trust(server: Server, y: Tensor) -> float:
    """Return τ = max(0, 1 − 10 e), e being the share of clean samples that the model gets wrong.

    1 for a problem without labels to be right or wrong about.
    """
    problem, validation = server.problem, server.validation
    if not (isinstance(problem, Composite) and isinstance(problem, HasAgreement)):
        return 1.0
    agreement = problem.agreement(
        y.new_zeros(len(validation)), problem.outputs(y, validation), validation
    )
    return max(0.0, 1.0 - 10.0 * float((agreement < 0.5).to(y.dtype).mean()))


@dataclass(frozen=True)
class CommFedBiO:
    """Algorithm 1 with any estimator of the hypergradient."""

    estimator: Estimator
    local: LocalSteps = LocalSteps()
    outer: OuterStep = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: local steps from y_k, averaged.
        cohort = draw_cohort(federation, server, k)
        answers, y = train_round(cohort, state, self.local, k)

        # Step 2: the server's own gradient of F at y_k+1.
        x = state.x if state.x is not None else y.new_zeros(0)
        gx, gy = outer_gradients(server.problem, x, y, server.validation)

        # Step 3: v, with the help of the cohort.
        point = Point(y, gy, k, state.x)
        estimate, solver = self.estimator.estimate(cohort, point, state.solver)

        # Step 4: the outer step, at the clients if x is theirs.
        if estimate.usable:
            x_next = self._outer_step(cohort, server, point, estimate, gx)
        else:
            x_next = state.x
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "residual": estimate.residual,
            "v_norm": float(estimate.v.norm()),
            "solver_step_scale": solver.step_scale,
        }
        events = answers.events + estimate.events
        return RoundInfo(metrics, events), ServerState(y, x_next, solver)

    def _outer_step(
        self, cohort: Cohort, server: Server, point: Point, estimate: Estimate, gx: Tensor
    ) -> Tensor | None:
        outer = self.outer.of_round(server, point.y, point.round)
        total = sum(cohort.federation.sizes.values())
        scalars = {
            **estimate.direction_scalars,
            **outer.scalars(),
            "total_samples": total,
        }
        request = Request(Action.OUTER, point.round, estimate.direction_arrays, scalars)
        answers = cohort.ask(request)
        if point.x is None:
            return None
        hypergradient = gx - answers.mean("cross")
        return server.problem.project(point.x - outer.change(hypergradient))


@dataclass(frozen=True)
class OuterKeys(Keys):
    """The outer step."""

    table: ClassVar[str] = "outer"
    outer_lr: float = key(0.1, "outer step size η", low=0, open_low=True)
    outer_rule: str = key(
        "scale-free",
        "scale-free divides the hypergradient by its root mean square; gradient does not",
        choices=lambda: OUTER_RULES,
    )
    outer_decay: int = key(
        10,
        "rounds after which the outer step falls like 1/k, as far as the model is trusted; "
        "0 disables decay and self_paced",
        low=0,
    )
    self_paced: float = key(
        1.0,
        "c: how strongly the model's own predictions move the weights as the outer step falls; "
        "0: off",
        low=0,
    )


@dataclass(frozen=True)
class WeightKeys(Keys):
    """The weights of the samples and what they do to the loss."""

    table: ClassVar[str] = "outer"
    bootstrap: float = key(
        1.0,
        "share of a down-weighted sample's loss that goes to the predicted class; 0: off",
        low=0,
        high=1,
    )
    initial_weight: float = key(1.0, "weight of every sample before round 1", low=0, high=1)


# What every method reads that moves the weights by a hypergradient.
BILEVEL: tuple[type[Keys], ...] = (LocalKeys, HeadStartKeys, OuterKeys, WeightKeys)


def outer_of(settings: Settings) -> OuterStep:
    """Return the outer step that the keys describe."""
    own = settings[OuterKeys]
    return OuterStep(own.outer_lr, own.outer_rule, own.outer_decay, own.self_paced)


def weighting_of(settings: Settings) -> Weighting:
    """Return the weighting that the keys describe."""
    own = settings[WeightKeys]
    return Weighting(own.initial_weight, own.bootstrap)


def with_estimator(row: EstimatorRow) -> Method:
    """Return the method that is Algorithm 1 with an estimator of the table."""

    def build(settings: Settings, context: BuildContext) -> Algorithm:
        estimator = row.build(settings, context)
        algorithm = CommFedBiO(estimator, local_of(settings), outer_of(settings))
        return with_head_start(settings, algorithm)

    groups = (*BILEVEL, *row.groups)
    return Method(row.text, groups, build, learns_weights=True, weighting=weighting_of)
