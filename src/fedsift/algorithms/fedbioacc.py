"""FedBiOAcc (Li, Huang and Huang, NeurIPS 2023), uncompressed: SimFBO's steps with less variance.

At client m, T times from (y_k, v_k) and the momenta (ω, q, ν):

    y' = y − γ ω,      v' = v − α q
    ω ← ∇_y g_m(x, y'; B) + (1 − a) (ω − ∇_y g_m(x, y; B))
    q ← p(y', v'; B)      + (1 − a) (q − p(y, v; B)),         p = ∇²_yy g_m v + δ v − ∇_y F(y_k)
    ν ← c(y', v'; B)      + (1 − a) (ν − c(y, v; B)),         c = ∇²_xy g_m v

STORM: the same minibatch B at both points takes its noise out of the difference. The server takes
the means of y, v, ω and q; x moves along ν.

| symbol | here     | meaning                                                              |
|--------|----------|----------------------------------------------------------------------|
| a      | `storm`  | weight of the newest gradient, the paper's c α_t², constant here     |

Departures from the paper are those of ``simfbo``: ∇_y F is the server's, at y_k; where x is
private, ν stays at its client, and x is stepped once a round by our outer step. There x steps at
every local step, along the ν of the step before; here along the newest. Step sizes fall like
t^(-1/3) there (α_t), and are constant here. A sample that is not in B has c = 0 in both terms.
Before the first round, and where v left its ball and was put back (P_r of ``simfbo``), the momenta
are the gradients of a first minibatch. At our step sizes a small a lets the noise of H_B grow with
q, so the default is 0.9, chosen on seed 20 of digits. ``tests/algorithms/
test_local_bilevel_listing.py`` compares with NumPy; the paper's listing was not at hand.

One exchange per round: five vectors of length d down, four up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.fedavg import draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import OuterSchedule, OuterStep, TotalSamples
from fedsift.algorithms.simfbo import SolverStep, matrix_of, projected
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.compress import Payload
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.estimate import relative
from fedsift.hypergradient.settings import MatrixKeys, StepKeys
from fedsift.keys import BuildContext, Keys, Settings, key, number
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem import outer_gradients
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class Storm:
    """a, the weight of the newest gradient."""

    storm: float = 0.9


@dataclass(frozen=True)
class FedBiOAcc:
    """One exchange per round."""

    step: float = 0.1
    curvature: CurvatureSettings = CurvatureSettings("gauss-newton", damping=0.5)
    storm: Storm = Storm()
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: the one exchange, from (x_k, y_k, v_k) and the momenta.
        x = state.y.new_zeros(0) if state.x is None else state.x
        gx, gy = outer_gradients(server.problem, x, state.y, server.validation)
        v = torch.zeros_like(gy) if state.solver.v is None else state.solver.v
        cohort, move = draw_cohort(federation, server, k), self.outer.at_round(server, state.y, k)
        arrays: dict[str, Payload] = {"y": state.y, "v": v, "gradient": gy, **state.own}
        if state.x is not None:
            arrays["x"] = state.x
        total = TotalSamples(sum(federation.sizes.values()))
        parts = self.local, self.curvature, SolverStep(self.step), self.storm, move, total
        answers = cohort.ask(Request("fedbioacc", k, arrays, scalars_of(*parts)))

        # Step 2: y, v, their momenta and, where it is shared, x.
        y, change = next_y(state, answers, self.local, k), answers.mean("v_update")
        v_next, sentences = projected(v + change, gy, self.curvature.damping, k)
        own = {name: answers.mean(name) for name in ("y_momentum", "v_momentum")}
        x_next = None
        if state.x is not None:
            own["x_momentum"] = answers.mean("cross")
            x_next = server.problem.project(state.x - move.change(gx - answers.mean("cross")))
        if not torch.equal(v_next, v + change):  # momenta of a v that is not the one they led to
            own = {}
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "residual": relative(change, self.step * self.local.steps * gy),  # mean over steps
            "v_norm": float(v.norm()),
        }
        solver = replace(state.solver, v=v_next)
        state = replace(state, y=y, x=x_next, solver=solver, own=own)
        return RoundInfo(metrics, (*answers.events, *sentences)), state


@dataclass(frozen=True)
class StormKeys(Keys):
    """The momentum of FedBiOAcc."""

    table: ClassVar[str] = "solver"
    storm: float = key(
        0.9, "a: weight of the newest gradient in FedBiOAcc's momenta", low=0, high=1
    )


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    step, storm = number(settings[StepKeys].solver_lr), Storm(settings[StormKeys].storm)
    outer = outer_of(settings)
    algorithm = FedBiOAcc(step, matrix_of(settings), storm, local_of(settings), outer)
    return with_head_start(settings, algorithm)


METHOD = Method(
    "FedBiOAcc: SimFBO's local steps with momentum that reduces variance, uncompressed",
    (*BILEVEL, StepKeys, MatrixKeys, StormKeys),
    build,
    learns_weights=True,
    means_only=True,
    weighting=weighting_of,
    general=True,
    asks="fedbioacc",
)
