"""x and y as a user has them: a tensor, a module, or dicts and lists of tensors.

    flat(tree) -> (vector, layout)        layout.tree(vector) -> the tree, as views into the vector

A module is the dict of its trainable parameters, for ``torch.func.functional_call``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedsift.errors import ConfigError, InputError
from fedsift.memory import aligned
from fedsift.problem.protocol import y_is_private

Tree = Any  # Tensor | nn.Module | Mapping[str, Tree] | Sequence[Tree]


@dataclass(frozen=True, eq=False)
class Layout:
    """The shape of a tree: where its tensors are in the vector."""

    sample: Tree

    @property
    def is_flat(self) -> bool:
        """True where the tree is the vector."""
        return isinstance(self.sample, torch.Size) and len(self.sample) == 1

    def tree(self, vector: Tensor) -> Tree:
        """Return the tree whose numbers these are."""
        return self._filled(self.sample, iter(torch.split(vector, list(_lengths(self.sample)))))

    def _filled(self, sample: Tree, parts: Iterator[Tensor]) -> Tree:
        if isinstance(sample, torch.Size):
            return next(parts).view(sample)
        if isinstance(sample, dict):
            return {name: self._filled(part, parts) for name, part in sample.items()}
        return [self._filled(part, parts) for part in sample]


def flat(tree: Tree, name: str = "it") -> tuple[Tensor, Layout]:
    """Return all numbers of a tree as one vector, and its layout; ``name`` is for errors."""
    leaves = list(_leaves(tree, name))
    if not leaves:
        raise InputError(f"{name} has no numbers; give at least one tensor")
    if len({leaf.dtype for leaf in leaves}) > 1 or not leaves[0].is_floating_point():
        kinds = ", ".join(sorted({str(leaf.dtype) for leaf in leaves}))
        raise InputError(f"{name} has tensors of {kinds}; give one floating-point type")
    vector = torch.cat([leaf.detach().reshape(-1) for leaf in leaves])
    return aligned(vector), Layout(_shape(tree))


def _leaves(tree: Tree, name: str) -> Iterator[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, nn.Module | Mapping):
        for part in _named(tree).values():
            yield from _leaves(part, name)
    elif isinstance(tree, Sequence) and not isinstance(tree, str):
        for part in tree:
            yield from _leaves(part, name)
    else:
        raise InputError(
            f"{name} holds a {type(tree).__name__}; give a tensor, a module, or dicts and lists of "
            "tensors"
        )


def _shape(tree: Tree) -> Tree:
    if isinstance(tree, Tensor):
        return tree.shape
    if isinstance(tree, nn.Module | Mapping):
        return {name: _shape(part) for name, part in _named(tree).items()}
    return [_shape(part) for part in tree]


def _lengths(sample: Tree) -> Iterator[int]:
    if isinstance(sample, torch.Size):
        yield sample.numel()
        return
    for part in sample.values() if isinstance(sample, dict) else sample:
        yield from _lengths(part)


def _named(tree: nn.Module | Mapping[str, Tree]) -> Mapping[str, Tree]:
    if isinstance(tree, nn.Module):
        return {n: p for n, p in tree.named_parameters() if p.requires_grad}
    return tree


@dataclass(frozen=True, eq=False)
class Start:
    """A problem of vectors, where x and y start, and how to go back to what the user gave."""

    problem: Any
    x: Tensor | None
    y: Tensor
    x_layout: Layout | None
    y_layout: Layout

    @classmethod
    def of(cls, problem: Any, x: Tree | None, y: Tree, caller: str) -> Start:
        """Flatten x and y; ``caller`` is for the error where x does not fit the problem."""
        if (x is None) != problem.x_is_private:
            raise ConfigError(
                f"{caller} needs a start x if x is shared, and no x if it is private; add or "
                "remove x"
            )
        y0, y_layout = flat(y, "y")
        x0, x_layout = (None, None) if x is None else flat(x, "x")
        if not (y_layout.is_flat and (x_layout is None or x_layout.is_flat)):
            problem = OfTrees(problem, x_layout, y_layout)
        return cls(problem, x0, y0, x_layout, y_layout)

    def trees(self, x: Tensor | None, y: Tensor) -> tuple[Tree | None, Tree]:
        """Return x and y as they were given."""
        found = None if x is None or self.x_layout is None else self.x_layout.tree(x)
        return found, self.y_layout.tree(y)


@dataclass(frozen=True, eq=False)
class OfTrees:
    """A problem whose losses take trees, as one whose losses take vectors."""

    problem: Any
    x_layout: Layout | None
    y_layout: Layout

    @property
    def x_is_private(self) -> bool:
        """As the problem says."""
        return bool(self.problem.x_is_private)

    @property
    def y_is_private(self) -> bool:
        """As the problem says."""
        return y_is_private(self.problem)

    def initial_x(self, batch: Any) -> Tensor:
        """Return the problem's start as a vector."""
        return flat(self.problem.initial_x(batch), "x")[0]

    def project(self, x: Tensor) -> Tensor:
        """Project the tree."""
        return flat(self.problem.project(self._x(x)), "x")[0]

    def inner_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return g_m."""
        loss: Tensor = self.problem.inner_loss(self._x(x), self.y_layout.tree(y), batch)
        return loss

    def outer_loss(self, x: Tensor, y: Tensor, batch: Any) -> Tensor:
        """Return F."""
        loss: Tensor = self.problem.outer_loss(self._x(x), self.y_layout.tree(y), batch)
        return loss

    def _x(self, x: Tensor) -> Tree:
        return x if self.x_layout is None else self.x_layout.tree(x)
