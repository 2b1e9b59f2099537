"""The Python interface: ``fit`` a method to what ``simulate`` made, ``solve`` any problem."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack, get_type_hints

import pandas as pd
from torch import Tensor

from fedsift.algorithms import CommFedBiO, LocalSteps, OuterStep, RoundInfo, Server, ServerState
from fedsift.errors import ConfigError
from fedsift.experiment.common_keys import (
    MODEL_RATE,
    NOT_SETTINGS,
    OWN,
    OWN_MODEL,
    UPDATE_RATE,
    RunKeys,
)
from fedsift.experiment.config import Config, all_keys, from_mapping
from fedsift.experiment.loop import compressed_round
from fedsift.experiment.progress import shown_progress
from fedsift.experiment.result import Result
from fedsift.experiment.run import execute, train
from fedsift.experiment.saving import keep_all, result_of
from fedsift.experiment.settings import FitSettings
from fedsift.experiment.setup import Setup, from_data
from fedsift.experiment.simulation import Simulation
from fedsift.federation import Rates
from fedsift.hypergradient import Estimator
from fedsift.memory import aligned
from fedsift.messages import Federation
from fedsift.problem import Problem

LOG = logging.getLogger("fedsift")


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
    **settings: Unpack[FitSettings],
) -> Result:
    """Train one model on all sites and audit every site's labels.

    Notes on what the clean set cannot tell are warnings of the logger ``fedsift``.

    Args:
        federation: The sites and the model, from ``fs.simulate``.
        method: How to train. ``"auto"`` chooses by the model: ``out-of-fold`` where only a last
            linear layer on fixed features is trained, else ``posterior``; the result says which.
            ``fedsift run --help`` lists all methods.
        rounds: How many times the sites and the server exchange models.
        seed: The seed of everything random.
        device: ``"cpu"``, ``"cuda"``, ...; ``"auto"`` takes a GPU where there is one.
        observe: Called with the record of every round, a dictionary.
        out: A run folder to write, with checkpoints; ``fedsift audit``, ``review`` and ``report``
            read it.
        resume: Whether to go on with the run that ``out`` holds.
        progress: Whether to show a progress bar; None: where standard error is a terminal.
        **settings: Keys of the method, such as ``local_steps=10``; ``FitSettings`` has them all.

    Returns:
        The trained model, a row per round, and the label issues of every site.

    Raises:
        ConfigError: A setting is unknown, out of range, or not read by the method.
        RunError: The run failed although its input was fine.

    Example:
        >>> import torch, fedsift as fs
        >>> X = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (X[:, 0] > 0).long()
        >>> sites = {"north": (X[:30], y[:30]), "south": (X[30:60], y[30:60])}
        >>> federation = fs.simulate(torch.nn.Linear(4, 2), sites, validation=(X[60:], y[60:]))
        >>> result = fs.fit(federation, rounds=2, seed=0, local_steps=3)
        >>> result.summary["method"], result.summary["rounds"]
        ('out-of-fold', 2)
        >>> len(result.label_issues("north"))
        30
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


def _with_keys(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature of ``fit`` with a parameter per setting, for ``help`` and notebooks."""
    *own, rest = signature.parameters.values()
    assert rest.kind is rest.VAR_KEYWORD
    keys, types = all_keys(), get_type_hints(FitSettings)
    named = [
        inspect.Parameter(name, rest.KEYWORD_ONLY, default=keys[name].default, annotation=kind)
        for name, kind in types.items()
    ]
    return signature.replace(parameters=[*own, *named])


vars(fit)["__signature__"] = _with_keys(inspect.signature(fit))


@dataclass(frozen=True, eq=False)
class Solution:
    """What ``solve`` returns.

    Attributes:
        x: The outer variable; None where it is private to the clients.
        y: The inner variable.
        v: The solution of (∇²_yy G) v = ∇_y F that the estimator had last; None before the first.
        history: A row per round.
    """

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
    """Solve any federated bilevel problem by Algorithm 1 of Comm-FedBiO.

        min_x F(x, y_x)   with   y_x = argmin_y G(x, y),   G = Σ_m N_m / N g_m

    Args:
        problem: The two losses, for example a ``LossPair``.
        federation: The clients' batches: ``LocalFederation.of(problem, batches)``.
        estimator: How the hypergradient is found: ``Exact``, ``Iterative`` or ``NonIterative``.
        validation: What ``outer_loss`` gets as its batch.
        y: Where the inner variable starts.
        x: Where the outer variable starts; None where it is private to the clients.
        rounds: The number of rounds K.
        local: The local steps on the inner loss.
        outer: The step of the outer variable.
        cohort: How many clients are drawn per round; 0: all.
        min_clients: Stop if fewer clients reply.
        seed: The seed of everything random.
        update_rate: Numbers of an update per number that is sent up; 1: all are sent.
        model_rate: Numbers of y, v and x per number that is sent down; 1: all are sent.
        observe: Called after every round with its figures and the server's state.

    Returns:
        The last x, y and v, and a row per round.

    Raises:
        ConfigError: A start x is missing where x is shared, or given where it is private.

    Example:
        A penalty x whose best value is known. The clients' targets are 2, so y_x = 2 / (1 + e^x);
        the server's targets are 1, so F is least at e^x = 1, where x = 0.

        >>> import torch, fedsift as fs
        >>> inner = lambda x, y, batch: (
        ...     0.5 * (y - batch.tensors[0].mean(0)).square().sum()
        ...     + 0.5 * (x.exp() * y.square()).sum()
        ... )
        >>> outer = lambda x, y, batch: 0.5 * (y - batch.tensors[0].mean(0)).square().sum()
        >>> data = [fs.TensorBatch((torch.full((5, 1), 2.0),)) for _ in range(3)]
        >>> problem = fs.LossPair(inner, outer, start=torch.tensor([1.0]))
        >>> solution = fs.solve(
        ...     problem,
        ...     fs.LocalFederation.of(problem, data),
        ...     estimator=fs.Exact(),
        ...     validation=fs.TensorBatch((torch.full((5, 1), 1.0),)),
        ...     y=torch.zeros(1),
        ...     x=torch.tensor([1.0]),
        ...     rounds=200,
        ...     local=fs.LocalSteps(steps=5, lr=0.2, batch_size=0),
        ...     outer=fs.OuterStep(lr=0.5, rule="gradient"),
        ... )
        >>> torch.allclose(solution.x, torch.zeros(1), atol=0.01)
        True
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
