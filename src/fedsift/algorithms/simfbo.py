"""SimFBO (Yang, Xiao and Ji, NeurIPS 2023), uncompressed: y, v and x by the same local steps.

At client m, on a minibatch in each of T local steps from (y_k, v_k):

    y ← y − γ ∇_y g_m(x_k, y)
    v ← v − α (∇²_yy g_m(x_k, y) v + δ v − ∇_y F(y_k))
    q ← q + ∇²_xy g_m(x_k, y) v

and the server takes the means of all three: y_k+1, v_k+1 = P_r(·), and x_k+1 by the outer step
along the mean of q over the T steps.

Departures from the paper, as far as it is known (docs/first-order.md). F is the server's alone
here, so that ∇_y F and ∇_x F are its own, at (x_k, y_k), and ∇_y F travels with y and v; in the
paper client i steps along ∇f_i at its own point. x is x_k in all local steps, private (sample
weights) or shared, and is stepped once a round by our outer step, along the mean over the T steps;
in the paper it steps at the clients together with y and v. With T = 1 these are the same
(``tests/algorithms/test_local_bilevel_listing.py``, against NumPy). r = ‖∇_y F‖ / δ bounds the
solution of a positive semidefinite matrix with damping δ; without damping there is no P_r. All
clients do T steps of equal size (a_i = 1), so ShroFBO, which normalises by them, is the same; the
server's step is 1. The paper's listing was not at hand.

One exchange per round: y, v and ∇_y F down, two vectors of length d up. It is what `single-loop` is
measured with: that does one step of v per round, on products that are compressed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fedsift.algorithms.bilevel import BILEVEL, outer_of, weighting_of, with_head_start
from fedsift.algorithms.fedavg import draw_cohort, local_of, next_y
from fedsift.algorithms.method import Method
from fedsift.algorithms.outer_step import OuterSchedule, OuterStep, TotalSamples
from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.compress import Payload
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.estimate import relative
from fedsift.hypergradient.settings import MatrixKeys, StepKeys
from fedsift.keys import BuildContext, Settings, number
from fedsift.messages import Federation, Request, scalar, scalars_of
from fedsift.problem import outer_gradients
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class SolverStep:
    """α of the local steps of v."""

    step: float = scalar("solver_step")


@dataclass(frozen=True)
class SimFBO:
    """One exchange per round."""

    step: float = 0.1
    curvature: CurvatureSettings = CurvatureSettings("gauss-newton", damping=0.5)
    local: LocalSteps = LocalSteps()
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        # Step 1: the one exchange, from (x_k, y_k, v_k).
        x = state.y.new_zeros(0) if state.x is None else state.x
        gx, gy = outer_gradients(server.problem, x, state.y, server.validation)
        v = torch.zeros_like(gy) if state.solver.v is None else state.solver.v
        cohort, move = draw_cohort(federation, server, k), self.outer.at_round(server, state.y, k)
        arrays: dict[str, Payload] = {"y": state.y, "v": v, "gradient": gy}
        if state.x is not None:
            arrays["x"] = state.x
        total = TotalSamples(sum(federation.sizes.values()))
        scalars = scalars_of(self.local, self.curvature, SolverStep(self.step), move, total)
        answers = cohort.ask(Request("simfbo", k, arrays, scalars))

        # Step 2: y, v and, where it is shared, x.
        y, change = next_y(state, answers, self.local, k), answers.mean("v_update")
        v_next, sentences = projected(v + change, gy, self.curvature.damping, k)
        x_next = None
        if state.x is not None:
            x_next = server.problem.project(state.x - move.change(gx - answers.mean("cross")))
        metrics = {
            "train_loss": answers.mean_scalar("loss"),
            "residual": relative(change, self.step * self.local.steps * gy),  # mean over steps
            "v_norm": float(v.norm()),
        }
        state = replace(state, y=y, x=x_next, solver=replace(state.solver, v=v_next))
        return RoundInfo(metrics, (*answers.events, *sentences)), state


def projected(
    v: Tensor, outer_gradient: Tensor, damping: float, k: int
) -> tuple[Tensor, tuple[str, ...]]:
    """Return P_r(v), r = ‖∇_y F‖ / δ; zero, and a sentence, where v is not finite."""
    if not bool(torch.isfinite(v).all()):
        sentence = f"v was not finite in round {k + 1} and starts again from zero; lower solver_lr"
        return torch.zeros_like(v), (sentence,)
    if not damping:
        return v, ()
    radius = outer_gradient.norm() / damping
    return v * (radius / v.norm().clamp(min=1e-30)).clamp(max=1.0), ()


def matrix_of(settings: Settings) -> CurvatureSettings:
    """Return the matrix that the keys describe, on the samples of the local steps."""
    own = settings[MatrixKeys]
    return CurvatureSettings(own.curvature, number(own.damping))


def build(settings: Settings, context: BuildContext) -> Algorithm:  # noqa: ARG001
    """Build it from its keys."""
    step = number(settings[StepKeys].solver_lr)
    algorithm = SimFBO(step, matrix_of(settings), local_of(settings), outer_of(settings))
    return with_head_start(settings, algorithm)


METHOD = Method(
    "SimFBO: local steps of model, solver and weights together, uncompressed",
    (*BILEVEL, StepKeys, MatrixKeys),
    build,
    learns_weights=True,
    means_only=True,
    weighting=weighting_of,
    general=True,
    asks="simfbo",
)
