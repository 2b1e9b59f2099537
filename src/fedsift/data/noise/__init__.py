"""The table of label noise: a new kind is one file here and one row of ``NOISES``.

symmetric   a drawn sample gets any other class, with equal probability
pair        a drawn sample of class c gets class c + 1 (mod classes)
none        no label is changed

A noise of rate ρ changes exactly round(ρn) of n labels, so the effective rate mean(noisy ≠ true)
is known. ``data/build.py`` is the only caller, once per client, and has the dataset's ``Source``,
the client's rows of it and its number at hand. A noise that needs more than the labels (inputs,
another column of the data, which client it is) gets it as one more argument of ``Noise``, filled
in there; the functions that do not need it ignore it.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from fedsift.data.noise.none import none
from fedsift.data.noise.pair import pair
from fedsift.data.noise.rate import SPLITS, Rate, effective_rate, rates, split_rate
from fedsift.data.noise.symmetric import symmetric

__all__ = ["NOISES", "SPLITS", "Noise", "Rate", "effective_rate", "rates", "split_rate"]


class Noise(Protocol):
    """Makes labels wrong."""

    def __call__(
        self, labels: Tensor, rate: float, classes: int, generator: torch.Generator, /
    ) -> Tensor:
        """Return new labels, of which a share ``rate`` is wrong; the given ones are not changed."""
        ...


NOISES: dict[str, Noise] = {"symmetric": symmetric, "pair": pair, "none": none}
