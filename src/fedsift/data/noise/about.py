"""What a noise may know of a client besides its true labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from fedsift.data.noise.weak_model import WeakModel, train_weak


@dataclass(frozen=True, eq=False)
class Outside:
    """Samples of the dataset that no client has and that neither validate nor test.

    ``read`` gives at most so many of them, always the same ones, with their true labels.
    """

    name: str
    classes: int
    read: Callable[[int], tuple[Tensor, Tensor]]

    @cached_property
    def weak_model(self) -> WeakModel:
        """A weak model of these samples: one for all clients, trained when it is first asked."""
        return train_weak(self.name, self.classes, self.read)


@dataclass(frozen=True, eq=False)
class About:
    """A client's inputs, other labels of its samples, and what lies outside of the task.

    ``columns`` are labels from elsewhere by the name of their column, such as people's; ``column``
    is the one to use, empty for the first. ``name`` is the dataset's.
    """

    name: str
    inputs: Tensor
    outside: Outside
    columns: Mapping[str, Tensor] = field(default_factory=dict)
    column: str = ""
