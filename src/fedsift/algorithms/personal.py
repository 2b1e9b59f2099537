"""A personal lower level: every client has a y_m of its own, and only x is shared.

    min_x h(x) = Σ_m (N_m / N) f_m(x, y_m(x)),      y_m(x) = argmin_y g_m(x, y)
    ∇h = Σ_m (N_m / N) (∇_x f_m − ∇²_xy g_m v_m),   (∇²_yy g_m) v_m = ∇_y f_m

It is implicit MAML's setting (Rajeswaran et al., NeurIPS 2019) with any f_m and g_m. In round k

    server     sends x_k
    client m   y_m by T local steps from its last one, v_m by its own system, replies with its ∇h
    server     x_k+1 = P(x_k − η mean)

Nothing of y_m or v_m travels, no product is exchanged, and a round is one exchange.

| method        | v_m                                                                 |
|---------------|---------------------------------------------------------------------|
| `single-loop` | one step from the last one:  v − α (H v − ∇_y f_m)                  |
| `cg`          | `terms` conjugate gradients from the last one                       |
| `neumann`     | α Σ_i (I − α H)^i ∇_y f_m, `terms` products                         |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fedsift.algorithms.bilevel import outer_of
from fedsift.algorithms.fedavg import LocalKeys, draw_cohort
from fedsift.algorithms.outer_step import OuterSchedule, OuterStep
from fedsift.algorithms.sequence import Sequence
from fedsift.algorithms.state import RoundInfo, Server, ServerState
from fedsift.errors import ConfigError
from fedsift.hypergradient import CurvatureSettings
from fedsift.hypergradient.series import SeriesKeys
from fedsift.hypergradient.settings import StepKeys, curvature_of
from fedsift.keys import AUTO, Auto, Settings
from fedsift.messages import Federation, Request, scalars_of
from fedsift.problem.sgd import LocalSteps

SOLVERS = ("single-loop", "cg", "neumann")
PERSONAL = Sequence("personal")


@dataclass(frozen=True)
class OwnSystem:
    """How a client solves its system; a step of 0 is its own 1/L_m, as for its local steps."""

    solver: str = "cg"
    terms: int = 10
    solver_lr: float = 0.0


@dataclass(frozen=True)
class Personal:
    """One exchange per round; ``state.y`` is only where every y_m starts."""

    system: OwnSystem = OwnSystem()
    curvature: CurvatureSettings = CurvatureSettings()
    local: LocalSteps = LocalSteps(lr=0.0)
    outer: OuterSchedule = OuterStep()

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        assert state.x is not None
        cohort = draw_cohort(federation, server, k)
        scalars = scalars_of(self.local, self.curvature, self.system)
        answers = cohort.ask(Request("personal", k, {"x": state.x, "y": state.y}, scalars))
        hypergradient = answers.mean("hypergradient")
        move = self.outer.at_round(server, state.y, k)
        x = server.problem.project(state.x - move.change(hypergradient))
        metrics = {
            "outer_loss": answers.mean_scalar("outer_loss"),
            "train_loss": answers.mean_scalar("loss"),
            "residual": answers.mean_scalar("own_residual"),
            "hypergradient_norm": float(hypergradient.norm()),
        }
        return RoundInfo(metrics, answers.events), replace(state, x=x)


def personal_of(method: str, settings: Settings) -> Personal:
    """Return a method of the table for a personal y, by its own keys."""
    if method not in SOLVERS:
        raise ConfigError(
            f"{method} exchanges products of one y for all clients, and here every client has its "
            f"own; use one of {', '.join(SOLVERS)}"
        )
    terms = 1 if method == "single-loop" else settings[SeriesKeys].terms
    step = 0.0 if method == "cg" else _given(settings[StepKeys].solver_lr)
    local = settings[LocalKeys]
    steps = LocalSteps(local.local_steps, _given(local.inner_lr), local.batch_size)
    system = OwnSystem(method, terms, step)
    return Personal(system, curvature_of(settings), steps, outer_of(settings))


def _given(step: Auto) -> float:
    """Return a step size; 0 where every client finds its own."""
    return 0.0 if step == AUTO else step
