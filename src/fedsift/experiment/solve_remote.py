"""``solve`` with sites elsewhere: the server's owner names its problem, and so does every site's.

A submitted run says how to solve: the method, its keys, those of ``SolveKeys``, and ``clients``:
how many sites to wait for. Nothing of the problem travels but a description that sites compare with
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from fedsift.algorithms.state import AtClients
from fedsift.errors import ConfigError
from fedsift.experiment import checkpoint
from fedsift.experiment.run import Observer
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.solve_config import SolveConfig, SolveKeys
from fedsift.experiment.solving import Asked, Solution, check, found_before, solve_with
from fedsift.federation import RemoteFederation
from fedsift.files import read_toml
from fedsift.keys import Keys, key, keys_of
from fedsift.messages import Scalar
from fedsift.problem.own_problem import OwnProblem, description
from fedsift.problem.protocol import y_is_private
from fedsift.problem.trees import Start, flat

SOLVE = "solve"  # the table of a submitted configuration that asks for a solve


@dataclass(frozen=True)
class SubmitKeys(Keys):
    """What a submitted solve says besides."""

    table: ClassVar[str] = SOLVE
    clients: int = key(0, "sites to wait for", low=1)
    method: str = key("single-loop", "how to solve")


@dataclass(frozen=True)
class Submitted:
    """A submitted solve: for how many sites, and what was asked."""

    clients: int
    asked: Asked

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Submitted:
        """Read and check the keys, whichever they are."""
        if "clients" not in given:
            raise ConfigError("clients is missing; say how many sites to wait for")
        own, common = keys_of(SubmitKeys), keys_of(SolveKeys)
        first = SubmitKeys(**{n: v for n, v in given.items() if n in own})
        keys = SolveKeys(**{n: v for n, v in given.items() if n in common})
        settings = {n: v for n, v in given.items() if n not in own and n not in common}
        SolveConfig.of(first.method, settings, {})
        return cls(first.clients, Asked(first.method, settings, keys))


def solve_remotely(
    submitted: Submitted,
    own: OwnProblem,
    out: Path,
    federation: RemoteFederation,
    *,
    resume: bool = False,
    observe: Observer = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    opened: Callable[[], None] = lambda: None,
) -> Solution:
    """Solve the server's problem with remote sites into a folder.

    ``opened`` is called when no other process has the folder. A run to resume that was lost before
    it wrote anything begins.
    """
    asked, start = submitted.asked, own.start()
    held = AtClients() if own.validation is None else own.validation
    check(asked, start.problem, held)
    if not y_is_private(start.problem) and "inner_lr" not in asked.settings:
        raise ConfigError(
            "inner_lr is missing; sites are asked nothing before the first round, so give a number"
        )
    folder = RunFolder(out)
    with folder.held():  # before a site is asked anything
        opened()
    resume = resume and folder.config.exists()
    next_round = _next_round(asked, start, folder) if resume else 0
    settings: dict[str, Scalar] = {
        "seed": asked.keys.seed,
        "method": asked.name,
        "problem": description(start, outer_at_sites=own.validation is None),
    }
    federation.open(submitted.clients, next_round, settings, say)
    found = solve_with(asked, start, federation, held, folder, resume=resume, tell=observe)
    sent: dict[str, Tensor] = {
        name: flat(tree)[0] for name, tree in (("x", found.x), ("y", found.y)) if tree is not None
    }
    federation.close(asked.keys.rounds, sent, {})
    return found


def _next_round(asked: Asked, start: Start, folder: RunFolder) -> int:
    """Return the round that the newest checkpoint of a run leads to."""
    folder.check_run()
    sizes = dict(enumerate(read_toml(folder.config)["samples"]))
    config = found_before(asked.config(start, sizes), folder)
    point = checkpoint.load_latest(folder.checkpoints, config, start.y.device)
    return 0 if point is None else point.next_round
