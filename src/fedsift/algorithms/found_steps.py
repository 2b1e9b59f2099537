"""Step sizes that nobody chooses: every key that is "auto" becomes a number before round 0.

    γ   inner_lr    by a trial on the clean set (``step_trial.py``)
    α   solver_lr   s γ            training brings λ_max to about 2 / γ, so that α λ_max ≈ 2 s
    δ   damping     1 / (20 γ)     0.5 at γ = 0.1, which was chosen by hand

    s               n / (n + d) for a sketch of n numbers, which takes this part of any vector away
                    and no more: α λ_max ≤ O(n / d). Top-k takes away at least k / d, but most of
                    the products of trained models: 1 (results/solver_forms.json)


    y_k+1           is taken back, and round k done again with γ / 2, where F(y_k+1) is not finite
                    or above 3 max(F(y_0), F(y_k)), F being the loss on the clean set

All of it is the server's and without an exchange: a client gets a number, as if a person had chosen
it. A method is built from numbers and does not know where they come from. A number that the user
gives is used as it is, and a run that it breaks ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fedsift.algorithms.state import Algorithm, RoundInfo, Server, ServerState
from fedsift.algorithms.step_trial import find_step
from fedsift.errors import Diverged
from fedsift.hypergradient import SolverState
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Federation
from fedsift.problem.sgd import LocalSteps

JUMP = 3.0  # far above what noise and memorised labels do in one round
HALVINGS = 20  # of one round: at a millionth of the step found, the step is not what is wrong
OWN = "auto_"  # before the names of what is kept in ``ServerState.own``
INNER = "inner_lr"
OF_INNER: Mapping[str, Callable[[float], float]] = {
    INNER: lambda inner: inner,
    "solver_lr": lambda inner: inner,
    "damping": lambda inner: 0.05 / inner,
}

Build = Callable[[Settings, BuildContext], Algorithm]


@dataclass(frozen=True)
class FoundSteps:
    """A method with numbers in place of "auto"."""

    build: Build
    settings: Settings
    context: BuildContext
    _built: dict[float, Algorithm] = field(default_factory=dict, repr=False, compare=False)

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        kept, state = _apart(state)
        kept = kept or self._opening(server, state.y)
        if INNER in self.settings.automatic():
            info, state, kept = self._guarded(federation, server, state, kept, k)
        else:
            info, state = self._with(kept[INNER]).round(federation, server, state, k)
        metrics = {**self._steps(kept[INNER]), **info.metrics}
        return RoundInfo(metrics, info.events), _together(kept, state)

    def _guarded(
        self,
        federation: Federation,
        server: Server,
        state: ServerState,
        kept: dict[str, float],
        k: int,
    ) -> tuple[RoundInfo, ServerState, dict[str, float]]:
        """Do a round; again, with half the step, while it leaves a model that is far worse."""
        inner, worst = kept[INNER], JUMP * max(kept["start"], kept["last"])
        events: tuple[str, ...] = ()
        for _ in range(HALVINGS):
            try:
                info, after = self._with(inner).round(federation, server, state, k)
                loss = clean_loss(server, after.y)
                if loss <= worst:
                    info = replace(info, events=(*events, *info.events))
                    return info, after, {**kept, INNER: inner, "last": loss}
                reason = f"the loss on the clean set went from {kept['last']:.3g} to {loss:.3g}"
            except Diverged as error:
                reason = str(error).partition(";")[0]
            state, inner = replace(state, solver=_restarted(state.solver)), inner / 2
            events += (f"round {k + 1} is done again with inner_lr {inner:.3g}: {reason}",)
        raise Diverged(
            f"round {k + 1} diverges with steps as small as {2 * inner:.3g}; scale the inputs of "
            "the sites as those of the clean set are"
        )

    def _opening(self, server: Server, y: Tensor) -> dict[str, float]:
        """Return the step of round 0, and F(y_0)."""
        given = self.settings.values()
        if INNER not in self.settings.automatic():
            return {INNER: given[INNER]}
        loss, local = clean_loss(server, y), LocalSteps(batch_size=given["batch_size"])
        return {INNER: find_step(server, y, local), "start": loss, "last": loss}

    def _steps(self, inner: float) -> dict[str, float]:
        """Return the numbers of all keys that are "auto"."""
        return {name: OF_INNER[name](inner) for name in self.settings.automatic()}

    def _with(self, inner: float) -> Algorithm:
        """Return the method with its numbers; the last one is kept."""
        if inner not in self._built:
            self._built.clear()
            context = replace(self.context, found=self.settings.automatic())
            self._built[inner] = self.build(self.settings.replace(self._steps(inner)), context)
        return self._built[inner]


def with_found_steps(build: Build, settings: Settings, context: BuildContext) -> Algorithm:
    """Build a method, or, where a key is "auto", what finds its number first."""
    automatic = settings.automatic()
    if not automatic:
        return build(settings, context)
    build(settings.replace(dict.fromkeys(automatic, 1.0)), context)  # refuses what is wrong now
    return FoundSteps(build, settings, context)


@torch.no_grad()
def clean_loss(server: Server, y: Tensor) -> float:
    """Return F(y); infinite where it is no number."""
    loss = server.problem.outer_loss(y.new_zeros(0), y, server.validation)
    return float(loss.nan_to_num(nan=torch.inf))


def _restarted(solver: SolverState) -> SolverState:
    """Return the solver with its v, and nothing that rests on a round that did not count."""
    return solver.without_memory()


def _apart(state: ServerState) -> tuple[dict[str, float], ServerState]:
    """Return what is ours of the state, and the state without it."""
    mine = {name: float(v) for name, v in state.own.items() if name.startswith(OWN)}
    rest = {name: v for name, v in state.own.items() if name not in mine}
    return {n.removeprefix(OWN): v for n, v in mine.items()}, replace(state, own=rest)


def _together(kept: Mapping[str, float], state: ServerState) -> ServerState:
    mine = {OWN + name: torch.tensor(value, dtype=torch.float64) for name, value in kept.items()}
    return replace(state, own={**state.own, **mine})
