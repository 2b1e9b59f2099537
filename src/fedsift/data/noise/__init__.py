"""The table of label noise: a new kind is one file here and one row of ``NOISES``.

symmetric   a drawn sample gets any other class, with equal probability
pair        a drawn sample of class c gets class c + 1 (mod classes)
instance    the samples that a weak model finds hardest get a class that it takes them for
human       the labels that people gave, from a column of the data, whatever the rate is
mixed       every client draws its own kind: symmetric, pair or instance
none        no label is changed

Of n labels exactly round(ρn) are changed, ρ being the rate, so the effective rate
mean(noisy ≠ true) is known; `human` and `none` apart. ``data/build.py`` is the only caller, once
per client. What a noise needs besides labels (inputs, another column of the data, samples outside
of the task) is in its last argument, ``About``; most kinds ignore it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fedsift.data.noise.about import About, Outside
from fedsift.data.noise.human import human
from fedsift.data.noise.instance import instance
from fedsift.data.noise.mixed import mixed
from fedsift.data.noise.none import none
from fedsift.data.noise.pair import pair
from fedsift.data.noise.rate import SPLITS, Rate, effective_rate, rates, split_rate
from fedsift.data.noise.symmetric import symmetric

__all__ = [
    "NOISES",
    "SPLITS",
    "About",
    "Noise",
    "Outside",
    "Rate",
    "effective_rate",
    "rates",
    "split_rate",
]


class Noise(Protocol):
    """Makes labels wrong."""

    def __call__(
        self, labels: Tensor, rate: float, classes: int, generator: torch.Generator, about: About, /
    ) -> Tensor:
        """Return new labels, of which a share ``rate`` is wrong; the given ones are not changed."""
        ...


NOISES: dict[str, Noise] = {
    "symmetric": symmetric,
    "pair": pair,
    "instance": instance,
    "human": human,
    "mixed": mixed,
    "none": none,
}
