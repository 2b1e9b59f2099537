"""What a method declares: its keys, how it is built, what it does with labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from fedsift.algorithms.found_steps import with_found_steps
from fedsift.algorithms.sequence import Sequence
from fedsift.algorithms.state import Algorithm
from fedsift.keys import BuildContext, Keys, Settings, keys_of
from fedsift.problem import Problem


@dataclass(frozen=True)
class Weighting:
    """Settings of the problem of sample weights: where they start, and κ of bootstrap's loss.

    The default is the problem without bilevel optimisation: all weights are 1 and the loss is that
    of the labels.
    """

    initial_weight: float = 1.0
    bootstrap: float = 0.0


def unweighted(settings: Settings) -> Weighting:  # noqa: ARG001
    """Return the weighting of a method that does not move weights by a hypergradient."""
    return Weighting()


def accept(problem: Problem) -> None:
    """Accept any problem."""


@dataclass(frozen=True)
class Choice:
    """A method that was chosen, and why; ``by`` is the method that chose it."""

    method: str
    why: str
    by: str = "auto"

    def __str__(self) -> str:
        return f"{self.by} chose {self.method}: {self.why}"


@dataclass(frozen=True)
class Method:
    """A row of the table of methods.

    ``groups`` are the keys that it reads; ``build`` and ``weighting`` get a ``Settings`` with
    these. ``learns_weights``: every sample gets a weight. ``needs_truth``: it trains on the
    correctly labelled samples only, so the true labels must be known. ``check`` refuses a model
    that it cannot train. ``asks``: what it asks of a client in a round (``sequence.py``); a site
    refuses anything else. ``means_only``: of the replies it takes N_m-weighted means and nothing
    else, so that secure sums serve it. ``choose``: it does not train, but chooses another row by
    the problem, the clean inputs and the number of classes. ``general``: it solves any bilevel
    problem, not only that of sample weights; ``outer_at_clients``: also where F is made of the
    clients' own f_m. ``sends_differences``: unless the user says otherwise, its models and updates
    travel as compressed differences, which was measured not to cost accuracy.
    """

    text: str
    groups: tuple[type[Keys], ...]
    build: Callable[[Settings, BuildContext], Algorithm]
    learns_weights: bool = False
    needs_truth: bool = False
    weighting: Callable[[Settings], Weighting] = unweighted
    means_only: bool = False
    asks: str = "train"
    check: Callable[[Problem], object] = accept
    choose: Callable[[Problem, Tensor, int], Choice] | None = None
    general: bool = False
    outer_at_clients: bool = False
    sends_differences: bool = False

    def algorithm(self, settings: Settings, context: BuildContext) -> Algorithm:
        """Build it; keys that are "auto" get their numbers before round 0."""
        return with_found_steps(self.build, settings, context)

    @property
    def sequence(self) -> Sequence:
        """The order in which it asks."""
        return Sequence(self.asks)

    def reads(self, name: str) -> bool:
        """Return whether it reads a key of this name, besides those that all methods share."""
        return name in keys_of(*self.groups)
