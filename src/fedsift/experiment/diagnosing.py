"""The adviser of ``hypergradient/diagnosis.py`` for a run, and for any problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fedsift.algorithms import Server, ServerState
from fedsift.algorithms.outer_gradients import outer_gradients_at
from fedsift.algorithms.state import AtClients
from fedsift.experiment.setup import Setup
from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, Point
from fedsift.hypergradient.diagnosis import Diagnosis
from fedsift.hypergradient.diagnosis import diagnose as measure
from fedsift.messages import Cohort
from fedsift.problem import Problem
from fedsift.problem.trees import Start, Tree

USUAL = CurvatureSettings("gauss-newton", damping=0.5, batch_size=128)  # of sample weights


def diagnosis_of(setup: Setup, state: ServerState, last: dict[str, Any]) -> Diagnosis:
    """Return that of a run's last model, with the matrix of its method or the usual one."""
    value = setup.config.value
    damping = last.get("damping", value("damping"))
    curvature = CurvatureSettings(
        value("curvature") or USUAL.kind,
        damping if isinstance(damping, float) else USUAL.damping,
        USUAL.batch_size if value("curvature_batch") is None else value("curvature_batch"),
    )
    federation, server = setup.federation, setup.server
    cohort = Cohort(federation, tuple(federation.sizes), server.min_clients)
    k = setup.config.rounds
    outer = outer_gradients_at(cohort, server, state.x, state.y, k)
    point = Point(state.y, outer.gy, k, state.x)
    return measure(cohort, point, curvature, reached=last.get("residual"), seed=server.seed)


def diagnose(
    problem: Problem,
    clients: Sequence[Any],
    *,
    y: Tree,
    x: Tree | None = None,
    validation: Any = None,
    validations: Sequence[Any] | None = None,
    damping: float = 0.0,
    goal: float = 0.1,
    seed: int = 0,
) -> Diagnosis:
    """Say which estimator of the hypergradient fits a problem at a point, and why.

    Every candidate is run until it solves the linear system to a residual of ``goal``, so this
    costs many exchanges: once, before a long ``solve``.

    Args:
        problem: Two losses, as for ``solve``.
        clients: One batch per client.
        y: The inner variable.
        x: The outer variable; None where it is private.
        validation: What ``outer_loss`` gets as its batch, at the server.
        validations: Instead, one such batch per client.
        damping: Added to the diagonal of the Hessian.
        goal: The residual to be reached; v = 0 has 1.
        seed: Of sketches and random probes.

    Returns:
        Curvatures, stable rank, what was tried with its bytes, and the advice as sentences.

    Raises:
        ConfigError: A start x is missing where x is shared, or given where it is private.

    Example:
        >>> import torch, fedsift as fs
        >>> scales = torch.tensor([1.0, 2.0, 4.0])
        >>> def inner(x, y, batch):
        ...     return 0.5 * (scales * y * y).sum() - (x * y).sum()
        >>> def outer(x, y, batch):
        ...     return 0.5 * (y - 1).square().sum()
        >>> start = torch.zeros(3)
        >>> batch = fs.TensorBatch((torch.zeros(5),))
        >>> found = fs.diagnose(fs.LossPair(inner, outer, start), [batch], x=start, y=start)
        >>> round(found.largest, 3), round(found.smallest, 3), found.tried[0].method
        (4.0, 1.0, 'cg')
    """
    start = Start.of(problem, x, y, "diagnose")
    federation = LocalFederation.of(start.problem, clients, seed, validations=validations)
    cohort = Cohort(federation, tuple(federation.sizes))
    server = Server(start.problem, validation if validations is None else AtClients(), seed=seed)
    outer = outer_gradients_at(cohort, server, start.x, start.y, 0)
    point, matrix = Point(start.y, outer.gy, 0, start.x), CurvatureSettings(damping=damping)
    return measure(cohort, point, matrix, goal, seed=seed)
