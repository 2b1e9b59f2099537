"""The Python interface: ``simulate`` a federation, ``fit`` a method, ``solve`` any problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from fedsift.algorithms import CommFedBiO, LocalSteps, OuterStep, RoundInfo, Server, ServerState
from fedsift.data import ClientData, FederatedData
from fedsift.errors import ConfigError, DataError
from fedsift.experiment.common_keys import OWN, OWN_MODEL, DataKeys, FileKeys, RunKeys
from fedsift.experiment.config import Config, all_keys, from_mapping
from fedsift.experiment.progress import shown_progress
from fedsift.experiment.result import Result
from fedsift.experiment.run import execute, train
from fedsift.experiment.saving import keep_all, result_of
from fedsift.experiment.setup import Setup, from_data
from fedsift.hypergradient import Estimator
from fedsift.keys import keys_of
from fedsift.memory import aligned
from fedsift.messages import Federation
from fedsift.problem import FlatModel, Problem, bind
from fedsift.problem.run_modes import RunModes

# ``simulate`` has the data and the model, and ``fit`` names those of the run that it takes.
NOT_SETTINGS = {*keys_of(RunKeys, DataKeys, FileKeys), "model"}


@dataclass(frozen=True, eq=False)
class Simulation:
    """A model and the data of every client, in this process."""

    model: nn.Module
    data: FederatedData
    modes: RunModes | None = None


def simulate(
    model: nn.Module,
    clients: Sequence[tuple[Any, Any]],
    validation: tuple[Any, Any],
    test: tuple[Any, Any] | None = None,
    true_labels: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    ids: Sequence[Sequence[Any]] | None = None,
) -> Simulation:
    """Make a federation of clients in this process.

    ``clients`` and ``validation`` are pairs (inputs, labels) of tensors or arrays; the validation
    labels must be clean.
    ``true_labels``, one array per client, is for experiments on simulated noise. ``class_names``
    and ``ids`` (file names, one list per client) appear in the label issues.
    """
    if not len(clients):
        raise DataError("there is no client; give at least one pair (inputs, labels)")
    flat = FlatModel(model)  # a copy in evaluation mode: the user's module stays as it is
    dtype = flat.initial().dtype
    held = _pair(validation, dtype, "the validation set")
    pairs = [_pair(pair, dtype, f"client {m}") for m, pair in enumerate(clients)]
    truths: list[Tensor | None] = [None] * len(pairs)
    if true_labels is not None:
        truths = [_labels(t, f"true_labels[{m}]") for m, t in enumerate(true_labels)]
    if len(truths) != len(pairs):
        raise DataError(
            f"true_labels has {len(truths)} arrays for {len(pairs)} clients; give one per client"
        )
    called: list[tuple[str, ...] | None] = [None] * len(pairs)
    if ids is not None:
        if [len(part) for part in ids] != [y.numel() for _, y in pairs]:
            raise DataError("ids must have one list per client, with one id per sample")
        called = [tuple(map(str, part)) for part in ids]
    members = [
        ClientData(x, y, t, torch.arange(y.numel()), c)
        for (x, y), t, c in zip(pairs, truths, called, strict=True)
    ]
    flat = bind(flat, held[0], "the validation inputs")
    classes = _classes(flat, held[0])
    names = tuple(map(str, range(classes) if class_names is None else class_names))
    if len(set(names)) != classes:
        raise DataError(
            f"class_names has {len(set(names))} names for {classes} classes; give one per class"
        )
    tested = None if test is None else _pair(test, dtype, "the test set")
    data = FederatedData("own data", members, held, tested, names)
    return Simulation(model, data, flat.modes)


def fit(
    federation: Simulation,
    method: str = "single-loop",
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
    """Train with a method; ``settings`` are keys of the configuration, such as ``rate=50``.

    ``out`` is a run folder to write to, with checkpoints; ``resume`` goes on with the run that it
    holds. ``progress`` shows a bar; None: where standard error is a terminal. ``observe`` is
    called with the record of every round.
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
        "model": OWN_MODEL,
        "digest": federation.data.digest(),
    }
    config = from_mapping({**run, **own, **settings}, "fit")

    def build(config: Config) -> Setup:
        return from_data(config, federation.data, federation.model, federation.modes)

    with shown_progress(method, rounds, progress) as shown:

        def tell(record: dict[str, Any]) -> None:
            shown(record)
            if observe is not None:
                observe(record)

        if out is None:
            return result_of(train(build(config), tell))
        finished = execute(config, Path(out), resume=resume, observe=tell, build=build)
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


def _pair(pair: tuple[Any, Any], dtype: torch.dtype, where: str) -> tuple[Tensor, Tensor]:
    try:
        inputs, labels = pair
    except (TypeError, ValueError):
        raise DataError(f"{where} must be a pair (inputs, labels)") from None
    inputs = _tensor(inputs, f"{where} has inputs")
    return inputs.to(dtype) if inputs.is_floating_point() else inputs, _labels(labels, where)


def _labels(labels: Any, where: str) -> Tensor:
    tensor = _tensor(labels, f"{where} has labels")
    integer = not tensor.is_floating_point() and tensor.dtype != torch.bool
    return tensor.long() if integer else tensor


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, Tensor):
        return aligned(values.detach().cpu())
    try:
        return aligned(torch.from_numpy(np.array(values)))
    except (TypeError, ValueError):
        raise DataError(
            f"{what} that are not an array of numbers; give a tensor or an array"
        ) from None


@torch.no_grad()
def _classes(model: FlatModel, inputs: Tensor) -> int:
    """Return the number of logits that the model gives for one input."""
    return int(model(model.initial(), inputs[:1]).shape[1])
