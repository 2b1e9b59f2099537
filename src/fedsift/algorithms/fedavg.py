"""FedAvg: local steps from y_k, then the N_m-weighted mean (lines 3-10 of Algorithm 1).

    y^m_t+1 = y^m_t − γ ∇_y g_m(x_k, y^m_t; batch)            at client m, t = 1..T
    y_k+1   = y_k + Σ_m (N_m / Σ N) (y^m_T − y_k)             at the server

`oracle` is FedAvg on clients that hold only their correctly labelled samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from fedsift.algorithms.method import Method
from fedsift.algorithms.state import RoundInfo, Server, ServerState
from fedsift.errors import RunError
from fedsift.keys import BuildContext, Keys, Settings, key
from fedsift.messages import Action, Answers, Cohort, Federation, Request, Scalar, sample_cohort
from fedsift.problem import Problem, Stackable


@dataclass(frozen=True)
class LocalSteps:
    """T steps of SGD with step γ on batches of ``batch_size`` samples (0: all)."""

    steps: int = 5
    lr: float = 0.1
    batch_size: int = 64

    def scalars(self) -> dict[str, Scalar]:
        """Return the settings as part of a request."""
        return {"steps": self.steps, "lr": self.lr, "batch_size": self.batch_size}


@dataclass(frozen=True)
class FedAvg:
    """Algorithm 1 without its outer step."""

    local: LocalSteps = LocalSteps()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        cohort = draw_cohort(federation, server, k)
        answers, y = train_round(cohort, state, self.local, k)
        info = RoundInfo({"train_loss": answers.mean_scalar("loss")}, answers.events)
        return info, ServerState(y, state.x, state.solver)


def draw_cohort(federation: Federation, server: Server, k: int) -> Cohort:
    """Draw the clients of round k."""
    return sample_cohort(federation, server.cohort, server.min_clients, server.seed, k, "cohort")


def train_round(
    cohort: Cohort, state: ServerState, local: LocalSteps, k: int
) -> tuple[Answers, Tensor]:
    """Send y_k, let the cohort train, return its answers and y_k+1."""
    arrays = {"y": state.y} if state.x is None else {"y": state.y, "x": state.x}
    answers = cohort.ask(Request(Action.TRAIN, k, arrays, local.scalars()))
    return answers, next_y(state, answers, local, k)


def next_y(state: ServerState, answers: Answers, local: LocalSteps, k: int) -> Tensor:
    """Return y_k+1 = y_k + the mean update, or stop the run where it is not finite."""
    y = state.y + answers.mean("update")
    if not bool(torch.isfinite(y).all()):
        raise RunError(
            f"the model is no longer finite after round {k + 1}; lower inner_lr (now {local.lr:g})"
        )
    return y


class Trained(NamedTuple):
    """y^m_T and the mean loss over the T steps, both on the device of y."""

    y: Tensor
    loss: Tensor


def local_sgd(
    problem: Problem,
    x: Tensor,
    y: Tensor,
    batch: Any,
    local: LocalSteps,
    generator: torch.Generator,
) -> Trained:
    """Take T steps from y on the client's own batches."""
    y = y.clone()
    losses = []
    for positions in _minibatches(len(batch), local, generator, y.device):
        part = _part(batch, positions)
        y.requires_grad_(True)
        loss = problem.inner_loss(x, y, part)
        (gradient,) = torch.autograd.grad(loss, y)
        y = y.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss.detach())
    return Trained(y, torch.stack(losses).mean())


def stacked_sgd(
    problem: Stackable,
    clients: Sequence[tuple[Tensor, Any, torch.Generator]],
    y: Tensor,
    local: LocalSteps,
) -> list[Trained] | None:
    """Do ``local_sgd`` for several clients (x_m, batch_m, generator) at once.

    Their batches have equal lengths; the result differs in rounding only. None where the problem
    does not want it.
    """
    drawn = [_minibatches(len(batch), local, source, y.device) for _, batch, source in clients]
    ys, losses = y.expand(len(clients), -1).clone(), []
    stacked = None
    for t in range(local.steps):
        if stacked is None or drawn[0][t] is not None:
            rows = [positions[t] for positions in drawn]
            parts = [(x, _part(b, at)) for (x, b, _), at in zip(clients, rows, strict=True)]
            stacked = problem.stack(parts)
        if stacked is None:
            return None
        ys.requires_grad_(True)
        loss = stacked(ys)
        (gradient,) = torch.autograd.grad(loss.sum(), ys)
        ys = ys.detach().sub_(gradient, alpha=local.lr)
        losses.append(loss.detach())
    mean = torch.stack(losses).mean(dim=0)
    return [Trained(*pair) for pair in zip(ys.unbind(), mean.unbind(), strict=True)]


def _part(batch: Any, positions: Tensor | None) -> Any:
    return batch if positions is None else batch.take(positions)


def _minibatches(
    n: int, local: LocalSteps, generator: torch.Generator, device: torch.device
) -> list[Tensor] | list[None]:
    """Return T batches: passes over a shuffled order, reshuffled when it runs out.

    Drawn on the CPU, so that every device draws alike, and moved once per pass.
    """
    if local.batch_size <= 0 or local.batch_size >= n:
        return [None] * local.steps
    per_pass = n // local.batch_size
    batches: list[Tensor] = []
    while len(batches) < local.steps:
        order = torch.randperm(n, generator=generator)[: per_pass * local.batch_size]
        batches += torch.split(order.to(device), local.batch_size)
    return batches[: local.steps]


@dataclass(frozen=True)
class LocalKeys(Keys):
    """The local steps of every method."""

    table: ClassVar[str] = "inner"
    local_steps: int = key(5, "local steps T per round", low=1)
    inner_lr: float = key(0.1, "inner step size γ", low=0, open_low=True)
    batch_size: int = key(64, "samples per local step; 0: all", low=0)


def local_of(settings: Settings) -> LocalSteps:
    """Return the local steps that the keys describe."""
    own = settings[LocalKeys]
    return LocalSteps(own.local_steps, own.inner_lr, own.batch_size)


def build(settings: Settings, context: BuildContext) -> FedAvg:  # noqa: ARG001
    """Build FedAvg from its keys."""
    return FedAvg(local_of(settings))


FEDAVG = Method("plain federated averaging on the labels as they are", (LocalKeys,), build)
ORACLE = Method(
    "federated averaging on the correctly labelled samples only",
    (LocalKeys,),
    build,
    needs_truth=True,
)
