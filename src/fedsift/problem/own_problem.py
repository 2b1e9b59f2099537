"""A bilevel problem that its owner names by ``module:function``: what a site, or the server, has.

The function gets one text, as it was given on the command line (a path, a name), and returns an
``OwnProblem``. It is imported where its owner named it and nowhere else: no message names code.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from fedsift.errors import InputError
from fedsift.problem.protocol import Problem, y_is_private
from fedsift.problem.trees import Start, Tree
from fedsift.references import call


@dataclass(frozen=True, eq=False)
class OwnProblem:
    """What a site, or the server, has of a problem.

    Attributes:
        problem: The two losses; the same at the server and at every site.
        y: Where y starts; at a site only its shape counts.
        x: Where a shared x starts; None where it is private to the sites.
        batch: At a site, what ``inner_loss`` gets.
        validation: What ``outer_loss`` gets: at the server, or at every site where F is theirs.

    Examples:
        >>> import torch, fedsift as fs
        >>> problem = fs.LossPair(
        ...     lambda x, y, batch: ((y - x) ** 2).sum(), lambda x, y, batch: (y**2).sum(), None
        ... )
        >>> def site(where):
        ...     batch = fs.TensorBatch((torch.zeros(9, 1),))  # a real one reads ``where``
        ...     return fs.OwnProblem(problem, y=torch.zeros(2), x=torch.ones(2), batch=batch)
        >>> len(site("north.csv").batch)
        9
    """

    problem: Problem
    y: Tree
    x: Tree | None = None
    batch: Any = None
    validation: Any = None

    def start(self) -> Start:
        """Return the problem of vectors, and where x and y start."""
        return Start.of(self.problem, self.x, self.y, "an own problem")


def load_problem(reference: str, text: str) -> OwnProblem:
    """Call ``module:function`` with the text that its owner gave."""
    found = call(reference, text)
    if not isinstance(found, OwnProblem):
        raise InputError(
            f"{reference} returned a {type(found).__name__}; return a fedsift.OwnProblem"
        )
    return found


def description(start: Start, *, outer_at_sites: bool) -> str:
    """Return what must be the same at the server and at every site, as JSON."""
    shapes = [None if a is None else a.sample for a in (start.x_layout, start.y_layout)]
    return json.dumps(
        {
            "y": len(start.y),
            "x": 0 if start.x is None else len(start.x),
            "x_is_private": bool(start.problem.x_is_private),
            "y_is_private": y_is_private(start.problem),
            "numbers": str(start.y.dtype).removeprefix("torch."),
            "shapes": hashlib.sha256(repr(shapes).encode()).hexdigest()[:16],
            "outer_at_sites": outer_at_sites,
        }
    )
