"""The Python interface: ``fit`` a method to what ``simulate`` made, ``solve`` any problem."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from torch import Tensor

from fedsift.algorithms import CommFedBiO, LocalSteps, OuterStep, RoundInfo, Server, ServerState
from fedsift.errors import ConfigError
from fedsift.experiment.common_keys import (
    MODEL_RATE,
    OWN,
    OWN_MODEL,
    UPDATE_RATE,
    DataKeys,
    FileKeys,
    RunKeys,
)
from fedsift.experiment.config import Config, all_keys, from_mapping
from fedsift.experiment.loop import compressed_round
from fedsift.experiment.progress import shown_progress
from fedsift.experiment.result import Result
from fedsift.experiment.run import execute, train
from fedsift.experiment.saving import keep_all, result_of
from fedsift.experiment.setup import Setup, from_data
from fedsift.experiment.simulation import Simulation
from fedsift.federation import Rates
from fedsift.hypergradient import Estimator
from fedsift.keys import keys_of
from fedsift.memory import aligned
from fedsift.messages import Federation
from fedsift.problem import Problem

LOG = logging.getLogger("fedsift")

# ``simulate`` has the data and the model, and ``fit`` names those of the run that it takes.
NOT_SETTINGS = {*keys_of(RunKeys, DataKeys, FileKeys), "model"}


def fit(
    federation: Simulation,
    method: str = RunKeys.method,
    rounds: int = 60,
    seed: int = 0,
    device: str = "auto",
    observe: Callable[[dict[str, Any]], None] | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    **settings: Any,
) -> Result:
    """Train with a method; ``settings`` are keys of the configuration, such as ``local_steps=10``.

    The default method chooses by the model: out-of-fold where only a last linear layer is trained
    on fixed features, else single-loop. Which one is shown with the progress and the result, and
    logged. A key that only one of them reads, such as ``rate``, needs that method by name.

    ``out`` is a run folder to write to, with checkpoints; ``resume`` goes on with the run that it
    holds. ``progress`` shows a bar; None: where standard error is a terminal. ``observe`` is
    called with the record of every round. What the clean set cannot tell is logged as a warning
    of the logger ``fedsift``.
    """
    run = {"method": method, "rounds": rounds, "seed": seed, "device": device}
    known = from_mapping(run, "fit").values()
    for name in settings:
        if name not in all_keys() or name in NOT_SETTINGS:
            takes = ", ".join(key for key in known if key not in NOT_SETTINGS)
            raise ConfigError(f"fit has no setting '{name}'; {method} takes {takes}")
    if resume and out is None:
        raise ConfigError("resume needs the folder of the run; give it as out")
    own = {
        "dataset": OWN,
        "clients": len(federation.data.clients),
        "model": federation.model_name or OWN_MODEL,
        "digest": federation.data.digest(),
    }
    config = from_mapping({**run, **own, **settings}, "fit")

    with shown_progress(method, rounds, progress) as (shown, say):

        def build(config: Config) -> Setup:
            setup = from_data(config, federation.data, federation.module(seed), federation.modes)
            setup = setup.of_own_data(federation.schema, federation.notes)
            if setup.choice is not None:
                say(str(setup.choice))
                LOG.info(str(setup.choice))
            for note in setup.notes:
                LOG.warning(note)
            return setup

        def tell(record: dict[str, Any]) -> None:
            shown(record)
            if observe is not None:
                observe(record)

        if out is None:
            finished = train(build(config), tell)
        else:
            finished = execute(config, Path(out), resume=resume, observe=tell, build=build)
    for notice in finished.summary["notices"]:
        LOG.warning(notice)
    if out is not None:
        keep_all(finished, Path(out))
    return result_of(finished)


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
    update_rate: float = UPDATE_RATE,
    model_rate: float = MODEL_RATE,
    observe: Callable[[RoundInfo, ServerState], None] | None = None,
) -> Solution:
    """Run Algorithm 1 on any bilevel problem.

    ``federation`` holds the clients' batches (``LocalFederation.of(problem, batches)``);
    ``validation`` is what ``outer_loss`` gets as its batch; ``y`` and ``x`` are where to start, x
    only where it is shared. ``update_rate`` compresses updates up, ``model_rate`` y, v and x down.
    """
    if (x is None) != problem.x_is_private:
        raise ConfigError(
            "solve needs a start x if x is shared, and no x if it is private; add or remove x"
        )
    server = Server(problem, validation, cohort, min_clients, seed)
    algorithm = CommFedBiO(estimator, local, outer)
    state = ServerState(aligned(y), None if x is None else aligned(x))
    records, rates = [], Rates(update_rate, model_rate)
    for k in range(rounds):
        info, state = compressed_round(algorithm, federation, rates, server, state, k)
        records.append({"round": k + 1, **info.metrics, "events": list(info.events)})
        if observe is not None:
            observe(info, state)
    return Solution(state.x, state.y, state.solver.v, pd.DataFrame(records))
