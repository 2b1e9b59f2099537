"""What ``solve`` does once it knows its problem, where it starts, and a federation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from torch import Tensor

from fedsift.algorithms import Algorithm, Server, ServerState
from fedsift.algorithms.personal import Personal
from fedsift.algorithms.state import AtClients
from fedsift.errors import ConfigError, InputError
from fedsift.experiment.run import Observer
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.solve_config import (
    SolveConfig,
    SolveKeys,
    digest,
    general_method,
    largest_eigenvalue,
)
from fedsift.experiment.solve_loop import Task, run
from fedsift.federation import Rates
from fedsift.files import read_toml
from fedsift.keys import BuildContext
from fedsift.messages import Federation
from fedsift.problem import Problem
from fedsift.problem.protocol import y_is_private
from fedsift.problem.trees import Start, Tree

MAY_DIFFER = ("tolerance", "patience")  # between a run and its resumption, besides the rounds


@dataclass(frozen=True, eq=False)
class Solution:
    """What ``solve`` returns.

    Attributes:
        x: The outer variable; None where it is private to the clients.
        y: The inner variable; None where every client has its own.
        v: The solution of (∇²_yy G) v = ∇_y F that the method had last; None where it has none.
        history: A row per round: `outer_loss` (F), `hypergradient_norm` (`hypergradient_rms` for a
            private x), `residual` of v, bytes, exchanges, seconds, events.
        stopped: Why it ended, in words.
    """

    x: Tree | None
    y: Tree | None
    v: Tensor | None
    history: pd.DataFrame
    stopped: str


@dataclass(frozen=True)
class Asked:
    """What the user asked for: a method, its settings, and what every solve is asked for."""

    method: str | Algorithm
    settings: Mapping[str, Any] = field(default_factory=dict)
    keys: SolveKeys = field(default_factory=SolveKeys)

    @property
    def name(self) -> str:
        """What to call the method."""
        return self.method if isinstance(self.method, str) else type(self.method).__name__

    def config(self, start: Start, sizes: Mapping[int, int]) -> SolveConfig:
        """Return the configuration of a run from here with clients of these sizes."""
        common = {n: v for n, v in vars(self.keys).items() if n not in MAY_DIFFER}
        common |= {"start": digest(start.y, start.x), "samples": list(sizes.values())}
        return SolveConfig.of(self.method, self.settings, common)


def check(asked: Asked, problem: Problem, held: Any) -> None:
    """Refuse what the problem and the method leave no room for; ``held`` is the server's F."""
    personal, at_clients = y_is_private(problem), isinstance(held, AtClients)
    asked.keys.check(asked.method, x_is_private=problem.x_is_private, y_is_private=personal)
    if personal and problem.x_is_private:
        raise ConfigError(
            "x and y are both private to the clients, so there is nothing to solve together; make "
            "one of them shared"
        )
    if personal and not at_clients:
        raise ConfigError(
            "every client has a y of its own, so F is the clients' too; give validations, one "
            "batch per client"
        )
    if not isinstance(asked.method, str):
        if personal is not isinstance(asked.method, Personal):
            raise ConfigError(
                "Personal is for a y of every client's own, and nothing else is; give method a name"
            )
        return
    if at_clients and not general_method(asked.method).outer_at_clients:
        raise ConfigError(
            f"{asked.method} takes steps on F at the server and cannot use validations of the "
            "clients; use single-loop, or give the server a validation set"
        )


def solve_with(
    asked: Asked,
    start: Start,
    federation: Federation,
    held: Any,
    folder: RunFolder | None,
    *,
    resume: bool,
    tell: Observer,
) -> Solution:
    """Solve, in a folder where there is one; ``held`` is what the server has of F."""
    keys, personal = asked.keys, y_is_private(start.problem)
    server = Server(start.problem, held, keys.cohort, keys.min_clients, keys.seed)
    state = ServerState(start.y, start.x)
    config = asked.config(start, federation.sizes)
    if folder is not None and resume:
        folder.check_run()
        config = found_before(config, folder)
    elif not personal:  # else every client finds its own
        config = _with_steps(config, federation, server, state)
    algorithm = asked.method
    if isinstance(algorithm, str):
        context = BuildContext(len(start.y), keys.seed, keys.cohort)
        algorithm = config.build(context, personal=personal)
    algorithm = keys.around(algorithm)
    rates = Rates(keys.update_rate, keys.model_rate)
    limits = keys.rounds, keys.tolerance, keys.patience
    task = Task(config, algorithm, federation, server, rates, *limits)
    state, records, stopped = run(task, state, folder, resume, tell)
    x, y = start.trees(state.x, state.y)
    return Solution(x, None if personal else y, state.solver.v, pd.DataFrame(records), stopped)


def _with_steps(
    config: SolveConfig, federation: Federation, server: Server, state: ServerState
) -> SolveConfig:
    """Return the configuration with numbers for "auto", given or found."""
    if "inner_lr" not in config.found:
        return config.with_steps(config.settings.values()["inner_lr"]) if config.found else config
    return config.with_steps(1.0 / largest_eigenvalue(federation, server, state))


def found_before(config: SolveConfig, folder: RunFolder) -> SolveConfig:
    """Return the configuration with the steps that the run was started with."""
    before = read_toml(folder.config)
    if config.found and before.get("inner_lr") != "auto":
        config = config.with_steps(float(before["inner_lr"]))
    for name, value in config.values().items():
        was = before.get(name)
        if was != value and name != "rounds":
            raise InputError(
                f"{folder.path} was solved with {name} = {was!r}, not {value!r}, and cannot be "
                "resumed with it; choose another folder"
            )
    return config
