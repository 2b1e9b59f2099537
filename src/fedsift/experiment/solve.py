"""``solve``: any federated bilevel problem.

    min_x F(x, y_x)   subject to   y_x = argmin_y Σ_m (N_m / N) g_m(x, y)

| F                       | give          | who has the samples of F |
|-------------------------|---------------|--------------------------|
| F(x, y)                 | `validation`  | the server               |
| Σ_m (N_m / N) f_m(x, y) | `validations` | every client its own     |

With a y of every client's own the second holds with y_m in place of y (``algorithms/personal.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsift.algorithms import Algorithm
from fedsift.algorithms.state import AtClients
from fedsift.errors import ConfigError
from fedsift.experiment.progress import shown_progress
from fedsift.experiment.run import Observer
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.solve_config import SolveKeys
from fedsift.experiment.solving import Asked, Solution, check, solve_with
from fedsift.federation import LocalFederation
from fedsift.messages import Federation
from fedsift.problem import Problem
from fedsift.problem.trees import Start, Tree

__all__ = ["Solution", "solve"]


def solve(
    problem: Problem,
    clients: Federation | Sequence[Any],
    *,
    y: Tree,
    x: Tree | None = None,
    validation: Any = None,
    validations: Sequence[Any] | None = None,
    method: str | Algorithm = "single-loop",
    rounds: int = 100,
    cohort: int = 0,
    min_clients: int = 1,
    seed: int = 0,
    tolerance: float = 0.0,
    patience: int = 5,
    update_rate: float = 1.0,
    model_rate: float = 1.0,
    correct_drift: bool = False,
    inner_optimizer: str = "sgd",
    inner_optimizer_step: float = 0.0,
    outer_optimizer: str = "sgd",
    outer_optimizer_step: float = 0.0,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    observe: Observer = lambda _: None,
    **settings: Any,
) -> Solution:
    """Solve a federated bilevel problem.

    Args:
        problem: Two losses, such as ``fs.LossPair(inner_loss, outer_loss)``, or a problem of
            ``fedsift.problem``.
        clients: One batch per client, or a federation.
        y: Where the inner variable starts: a tensor, a module, or dicts and lists of tensors. The
            losses get what is given here, with a module as the dict of its parameters.
        x: Where the outer variable starts; None where it is private to the clients.
        validation: What ``outer_loss`` gets as its batch, at the server; ``fs.AtClients()`` where
            the clients of a federation have their own.
        validations: Instead, one such batch per client: F is then the mean of the clients' own.
        method: A name (``single-loop``, ``first-order``, ``iter-topk``, ...), or an algorithm, such
            as ``fs.CommFedBiO(fs.Exact(), fs.LocalSteps(), fs.OuterStep())``.
        rounds: How many at most.
        cohort: Clients that are drawn per round; 0: all.
        min_clients: Stop with an error if fewer reply.
        seed: Of everything that is drawn.
        tolerance: Stop when the hypergradient is no larger than this ...
        patience: ... in this many rounds in a row.
        update_rate: Compresses what clients send back, updates of y and their parts of a shared
            x; 1: not at all.
        model_rate: Compresses y, v and x down; 1: not at all.
        correct_drift: Whether local steps are corrected by control variates (SCAFFOLD): several of
            them at unlike clients then end at the solution, for one more vector down per round.
        inner_optimizer: What the server makes of the clients' mean update of y: ``sgd`` takes it,
            ``momentum``, ``adam``.
        inner_optimizer_step: Its step, a factor for sgd and momentum; 0: 1, of adam 0.01.
        outer_optimizer: What the server makes of the step of a shared x.
        outer_optimizer_step: Its step; adam takes this step, whatever ``outer_lr`` is.
        out: A folder for rounds, checkpoints and the solution.
        resume: Go on with the run in that folder.
        progress: Show a bar; None: where standard error is a terminal.
        observe: Called with the record of every round.
        settings: Keys of the method, such as ``inner_lr=0.1``; ``fedsift run --keys METHOD``
            prints them. Without ``inner_lr`` it is 1/L, by 10 exchanges before the first round.

    Returns:
        The solution, its history, and why it stopped.

    Raises:
        ConfigError: A start x is missing where x is shared, or given where it is private; a method
            or a setting is unknown.
        InputError: The folder holds another run, or none to resume.

    Examples:
        A penalty x whose best value is known. The clients' targets are 2, so y_x = 2 / (1 + e^x);
        the server's targets are 1, so F is least at e^x = 1, where x = 0.

        >>> import torch, fedsift as fs
        >>> def error(y, batch):
        ...     return 0.5 * (y - batch.tensors[0]).square().mean()
        >>> def inner(x, y, batch):
        ...     return error(y, batch) + 0.5 * (x.exp() * y.square()).sum()
        >>> clients = [fs.TensorBatch((torch.full((5, 1), 2.0),)) for _ in range(3)]
        >>> start = torch.tensor([1.0])
        >>> solution = fs.solve(
        ...     fs.LossPair(inner, lambda x, y, batch: error(y, batch), start),
        ...     clients,
        ...     validation=fs.TensorBatch((torch.full((5, 1), 1.0),)),
        ...     y=torch.zeros(1),
        ...     x=start,
        ...     outer_lr=0.5,
        ... )
        >>> torch.allclose(solution.x, torch.zeros(1), atol=0.01)
        True
    """
    if resume and out is None:
        raise ConfigError("resume needs the folder of the run; give it as out")
    keys = SolveKeys(
        rounds,
        seed,
        cohort,
        min_clients,
        tolerance,
        patience,
        update_rate,
        model_rate,
        correct_drift,
        inner_optimizer,
        inner_optimizer_step,
        outer_optimizer,
        outer_optimizer_step,
    )
    if validation is not None and validations is not None:
        raise ConfigError("solve got validation and validations; give one of them")
    start = Start.of(problem, x, y, "solve")
    federation = _federation(start.problem, clients, seed, validations)
    held = validation if validations is None else AtClients()
    folder = None if out is None else RunFolder(Path(out))
    asked = Asked(method, settings, keys)
    check(asked, start.problem, held)
    with shown_progress(asked.name, rounds, progress) as (shown, _):

        def tell(record: dict[str, Any]) -> None:
            shown(record)
            observe(record)

        return solve_with(asked, start, federation, held, folder, resume=resume, tell=tell)


def _federation(
    problem: Problem,
    clients: Federation | Sequence[Any],
    seed: int,
    validations: Sequence[Any] | None,
) -> Federation:
    if isinstance(clients, Sequence):
        return LocalFederation.of(problem, clients, seed, validations=validations)
    if validations is not None:
        raise ConfigError(
            "solve got a federation and validations; give the clients' batches instead of the "
            "federation, or the validations to its clients"
        )
    return clients
