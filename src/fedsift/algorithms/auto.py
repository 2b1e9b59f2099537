"""Auto, the default: the method that suits the model, chosen when the model is known.

    HEAD      only a last linear layer on fixed features is trained
    NETWORK   any other model
    FEW       any other model, and fewer than five clean samples per class

A run with it is a run of the method that it chose: the run folder, its checkpoints and the sites
know that method only. Its keys are those that all of them read; whoever sets another key has to
say which is meant.

The choice rests on what the model is and on how many clean samples there are, not on how well it
does: that is known when a run is over. A method that trains several models, as out-of-fold does,
compares their judged losses by itself. The first two have no Hessian products: docs/first-order.md
shows what these give. NETWORK measures the share of wrong labels by a model of the clean set alone:
with one or two samples per class there is no such model, and it learns nothing
(docs/guide/clean-samples.md).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedsift.algorithms import out_of_fold, posterior, single_loop
from fedsift.algorithms.method import Choice, Method, Weighting
from fedsift.algorithms.state import Algorithm
from fedsift.errors import ConfigError
from fedsift.keys import BuildContext, Keys, Settings
from fedsift.problem import Problem
from fedsift.problem.linear_head import LinearHead
from fedsift.problem.sgd import LocalSteps


@dataclass(frozen=True)
class Candidate:
    """A row of the table of methods, by its name there."""

    name: str
    row: Method


HEAD = Candidate("out-of-fold", out_of_fold.METHOD)
NETWORK = Candidate("posterior", posterior.METHOD)
FEW = Candidate("single-loop", single_loop.METHOD)
ENOUGH = 5  # clean samples per class


def choose(problem: Problem, inputs: Tensor, classes: int) -> Choice:
    """Return the method for a model; ``inputs`` are the clean ones, on which a head is tried."""
    try:
        LinearHead.of(problem).features(inputs)
    except ConfigError:
        if len(inputs) < ENOUGH * classes:
            why = f"the clean set has {len(inputs)} samples of {classes} classes, fewer than"
            return Choice(FEW.name, f"{why} {ENOUGH} per class")
        return Choice(NETWORK.name, "not only a last linear layer on fixed features is trained")
    return Choice(HEAD.name, "only a last linear layer on fixed features is trained")


def shared_groups(*rows: Method) -> tuple[type[Keys], ...]:
    """Return the groups of keys that all rows read, be it as a part of a larger group."""
    bases = [part for group in rows[0].groups for part in group.__mro__]
    parts = [part for part in bases if issubclass(part, Keys) and part is not Keys]
    shared = [p for p in parts if all(any(issubclass(g, p) for g in r.groups) for r in rows)]
    largest = [p for p in shared if not any(q is not p and issubclass(q, p) for q in shared)]
    return tuple(dict.fromkeys(largest))


def build(settings: Settings, context: BuildContext) -> Algorithm:
    """Build what trains any model, with any step: a row of the table has to build without one."""
    own = _of_network(settings)
    return NETWORK.row.build(own.replace(dict.fromkeys(own.automatic(), LocalSteps().lr)), context)


def weighting(settings: Settings) -> Weighting:
    """Return the weighting of what ``build`` builds."""
    return NETWORK.row.weighting(_of_network(settings))


def _of_network(settings: Settings) -> Settings:
    return Settings.of(NETWORK.row.groups, settings.values())


METHOD = Method(
    f"the default: {HEAD.name} for a linear layer on fixed features, else {NETWORK.name}, or "
    f"{FEW.name} where the clean set is very small",
    shared_groups(HEAD.row, NETWORK.row, FEW.row),
    build,
    learns_weights=True,
    weighting=weighting,
    choose=choose,
)
