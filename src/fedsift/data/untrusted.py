"""Clean samples that are not trusted: their labels look wrong to models that have not seen them.

Everything rests on the clean set, so a wrong label in it costs more than many at a site. What
``check_clean_set`` suspects is left out of training and judging, listed for a person, and used
again when the person says so (``trust_clean_set``). Where so much is suspect that no model agrees
with the clean set, the rest is not trusted either, and it is said that the run is worth little.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.data.clean_set import CleanSet

HOPELESS = 0.35  # share of suspects from which on the rest is not trusted either
LEAST = 2  # samples of a class that stay, whatever is suspect


@dataclass(frozen=True, eq=False)
class Trusted:
    """The positions of clean samples that are used, and a sentence on those that are not."""

    positions: Tensor
    note: str = ""


def trusted(found: CleanSet, labels: Tensor) -> Trusted:
    """Return which clean samples to use."""
    everything = torch.arange(len(labels))
    if not found.suspects:
        return Trusted(everything)
    share = len(found.suspects) / max(found.samples, 1)
    keep = torch.ones(len(labels), dtype=torch.bool)
    for position in found.suspects:
        alike = keep & (labels == labels[position])
        if int(alike.sum()) > LEAST:
            keep[position] = False
    left = int((~keep).sum())
    note = (
        f"{left} clean samples that look wrong are left out; `fedsift audit RUN --validation` "
        "lists them, trust_clean_set = true uses them"
    )
    if share >= HOPELESS:
        note = (
            f"{share:.0%} of the clean set look wrong, more than can be told from the rest: do not "
            f"rely on this run before a person has checked the clean set; {note}"
        )
    return Trusted(everything[keep], note)
