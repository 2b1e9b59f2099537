"""Encoders for tests: a module of one's own, and one that counts what it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


def doubled() -> nn.Module:
    """Return a module from [k, ...] to twice its numbers, from a weight."""

    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(2.0))

        def forward(self, inputs: Tensor) -> Tensor:
            assert not self.training
            return self.factor * inputs

    return Doubled()


def no_module() -> int:
    return 3


def broken() -> nn.Module:
    raise RuntimeError("no weights here")


def scores() -> nn.Module:
    """Return a module whose output is not numbers."""

    class Pair(nn.Module):
        def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
            return inputs, inputs

    return Pair()


def infinite() -> nn.Module:
    class Infinite(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs / 0

    return Infinite()


@dataclass(frozen=True)
class Counting:
    """Squares of the inputs; keeps the size of every batch and may fail at one of them."""

    spec: str = "tests:counting"
    fingerprint: str = "ab" * 32
    reads: str = "inputs"
    fails_at: int | None = None
    sizes: list[int] = field(default_factory=list)

    def encode(self, batch: Tensor) -> Tensor:
        if len(self.sizes) == self.fails_at:
            raise KeyboardInterrupt
        self.sizes.append(len(batch))
        return batch.flatten(1).square()
