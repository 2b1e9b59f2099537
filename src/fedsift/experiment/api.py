"""The Python interface: ``fit`` a method to what ``simulate`` made, ``solve`` any problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import Tensor, nn

from fedsift.algorithms import CommFedBiO, LocalSteps, OuterStep, RoundInfo, Server, ServerState
from fedsift.algorithms.registry import METHODS
from fedsift.audit import SiteAudit, SiteSummary
from fedsift.errors import ConfigError, DataError
from fedsift.experiment.auditing import audit_client, calibrate
from fedsift.experiment.common_keys import DataKeys, RunKeys
from fedsift.experiment.config import all_keys, from_mapping
from fedsift.experiment.loop import rounds as run_rounds
from fedsift.experiment.setup import Setup, from_data
from fedsift.experiment.simulation import Simulation
from fedsift.hypergradient import Estimator
from fedsift.keys import keys_of
from fedsift.memory import aligned
from fedsift.messages import Federation
from fedsift.problem import Problem

# ``simulate`` has the data and the model, and ``fit`` names those of the run that it takes.
NOT_SETTINGS = {*keys_of(RunKeys, DataKeys), "model"}


@dataclass(frozen=True, eq=False)
class Result:
    """What ``fit`` returns: the trained model, a row per round, the weights."""

    model: nn.Module
    history: pd.DataFrame
    setup: Setup
    state: ServerState
    federation: Simulation

    def weights(self, client: int) -> Tensor:
        """Return the learned weights of a client's samples."""
        self._check(client)
        return self.setup.weights(client)

    def label_issues(self, client: int) -> pd.DataFrame:
        """Return a client's samples, the most suspicious label first."""
        self._check(client)
        table = self._audit(client).table
        if self.federation.named:
            return table
        return table.astype({"label": "int64", "suggested_label": "int64"})

    def site_summary(self, client: int) -> SiteSummary:
        """Return how many of a client's labels are wrong, by class, and which are confused."""
        self._check(client)
        return self._audit(client).summary

    def _audit(self, client: int) -> SiteAudit:
        calibration = calibrate(self.setup, self.state.y)
        ids = None if self.federation.ids is None else self.federation.ids[client]
        return audit_client(self.setup, self.state.y, client, calibration, ids)

    def _check(self, client: int) -> None:
        count = len(self.setup.data.clients)
        if not 0 <= client < count:
            raise DataError(f"there is no client {client}; clients are 0 to {count - 1}")
        if not self.setup.learns_weights:
            able = ", ".join(name for name, method in METHODS.items() if method.learns_weights)
            raise DataError(f"{self.setup.config.method} learns no weights; fit with one of {able}")


def fit(
    federation: Simulation,
    method: str = "single-loop",
    rounds: int = 60,
    seed: int = 0,
    device: str = "auto",
    observe: Callable[[dict[str, Any]], None] | None = None,
    **settings: Any,
) -> Result:
    """Train with a method; ``settings`` are keys of the configuration, such as ``rate=50``.

    ``observe`` is called with the record of every round, for a progress bar or a log.
    """
    run = {"method": method, "rounds": rounds, "seed": seed, "device": device}
    known = from_mapping(run, "fit").values()
    for name in settings:
        if name not in all_keys() or name in NOT_SETTINGS:
            takes = ", ".join(key for key in known if key not in NOT_SETTINGS)
            raise ConfigError(f"fit has no setting '{name}'; {method} takes {takes}")
    config = from_mapping({**run, **settings}, "fit")
    setup = from_data(config, federation.data, federation.model, federation.modes)
    state, records = setup.initial_state(), []
    for done in run_rounds(setup, state, 0):
        state = done.state
        records.append(done.record)
        if observe is not None:
            observe(done.record)
    model = setup.model.to_module(state.y).cpu()
    return Result(model, pd.DataFrame(records), setup, state, federation)


@dataclass(frozen=True, eq=False)
class Solution:
    """What ``solve`` returns; ``x`` is None where it is private to the clients."""

    x: Tensor | None
    y: Tensor
    v: Tensor | None
    history: pd.DataFrame


def solve(
    problem: Problem,
    federation: Federation,
    *,
    estimator: Estimator,
    validation: Any,
    y: Tensor,
    x: Tensor | None = None,
    rounds: int = 100,
    local: LocalSteps = LocalSteps(),
    outer: OuterStep = OuterStep(rule="gradient"),
    cohort: int = 0,
    min_clients: int = 1,
    seed: int = 0,
    observe: Callable[[RoundInfo, ServerState], None] | None = None,
) -> Solution:
    """Run Algorithm 1 on any bilevel problem.

    ``federation`` holds the clients' batches (``LocalFederation.of(problem, batches)``);
    ``validation`` is what ``outer_loss`` gets as its batch; ``y`` and ``x`` are where to start, x
    only where it is shared.
    """
    if (x is None) != problem.x_is_private:
        raise ConfigError(
            "solve needs a start x if x is shared, and no x if it is private; add or remove x"
        )
    server = Server(problem, validation, cohort, min_clients, seed)
    algorithm = CommFedBiO(estimator, local, outer)
    state = ServerState(aligned(y), None if x is None else aligned(x))
    records = []
    for k in range(rounds):
        info, state = algorithm.round(federation, server, state, k)
        records.append({"round": k + 1, **info.metrics, "events": list(info.events)})
        if observe is not None:
            observe(info, state)
    return Solution(state.x, state.y, state.solver.v, pd.DataFrame(records))
