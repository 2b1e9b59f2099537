"""What the clean set can tell, before anything is trained on it.

Everything rests on the server's clean samples; ``check_clean_set`` says what they lack:

| check           | says so where                                                                  |
|-----------------|--------------------------------------------------------------------------------|
| missing classes | there is no sample of a class: its labels cannot be judged                     |
| rare classes    | there are fewer than ``RARE`` = 5: with half of them the head start trains, by |
|                 | the other half it stops, and of fewer than 5 one of these is a single sample   |
| too few         | fewer than 5 per class on average                                              |
| wrong labels    | more than ``SUSPICIOUS`` = 4 % look wrong to models that have not seen them    |

The last check is `cross_fit`'s; with fewer than 10 samples per class its limit is 0.4 over that
number, since a model of so few is surprised by right labels too. Constants were chosen on seeds 20
to 39; docs/guide/audit.md has the rates of false and of missed alarms on other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsift.data.cross_fit import FOLDS, Ints, cross_fit, wrong_probabilities
from fedsift.problem.inputs import Inputs, take
from fedsift.randomness import generator

ENOUGH = 1  # samples of a class; without any its labels cannot be judged
RARE = 5
SUSPICIOUS, PER_CLASS = 0.04, 10  # share that looks wrong from which on it is said, and for whom
MOST, MOST_NUMBERS = 1000, 20_000_000  # samples, and numbers, that are cross-fitted: seconds
SHOWN = 10


@dataclass(frozen=True)
class CleanSet:
    """What is known of the clean set.

    ``missing``   classes whose labels cannot be judged, by name
    ``rare``      classes with few samples, by name
    ``suspects``  positions of samples whose label looks wrong, the most suspicious first
    ``notes``     one sentence each, for a person, before training
    """

    samples: int
    missing: tuple[str, ...] = ()
    rare: tuple[str, ...] = ()
    suspects: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}


def check_clean_set(
    inputs: Inputs,
    labels: Tensor,
    class_names: Sequence[str],
    site_counts: Sequence[int] | None = None,
    seed: int = 0,
) -> CleanSet:
    """Check the clean set; ``site_counts`` are the sites' labels of each class, where known."""
    given = labels.numpy().astype(np.int64)
    counts = np.bincount(given, minlength=len(class_names))
    missing = tuple(n for n, c in zip(class_names, counts, strict=True) if c < ENOUGH)
    rare = tuple(n for n, c in zip(class_names, counts, strict=True) if ENOUGH <= c < RARE)
    suspects = _suspects(inputs, given, len(class_names), seed)
    notes = (
        *_lacking(counts, class_names, site_counts),
        *_few(counts, class_names, site_counts),
        *_wrong(suspects, len(given)),
    )
    return CleanSet(len(given), missing, rare, suspects, notes)


def _lacking(counts: Ints, names: Sequence[str], at_sites: Sequence[int] | None) -> tuple[str, ...]:
    """Return a sentence per class that cannot be judged, or one for all if they are many."""
    lacking = [
        c for c in np.flatnonzero(counts < ENOUGH).tolist() if at_sites is None or at_sites[c]
    ]
    if len(lacking) > SHOWN:
        return (
            f"the clean set has no sample of {len(lacking)} of the {len(names)} classes "
            f"({_some([repr(names[c]) for c in lacking])}); their labels cannot be judged: "
            "add clean samples of them",
        )
    notes = []
    for c in lacking:
        sites = "" if at_sites is None else f", which {at_sites[c]} labels at the sites have"
        notes.append(
            f"the clean set has no sample of class '{names[c]}'{sites}; labels of it cannot be "
            "judged: add clean samples of it"
        )
    return tuple(notes)


def _few(counts: Ints, names: Sequence[str], at_sites: Sequence[int] | None) -> tuple[str, ...]:
    """Return a sentence if there are too few samples, or too few of some classes."""
    total, classes = int(counts.sum()), len(names)
    if total < RARE * classes:
        return (
            f"the clean set has {total} samples for {classes} classes; what is found with fewer "
            f"than {RARE} per class is unsure: add clean samples",
        )
    rare = np.flatnonzero((counts >= ENOUGH) & (counts < RARE)).tolist()
    rare = [c for c in rare if at_sites is None or at_sites[c]]
    if not rare:
        return ()
    shown = _some([f"'{names[c]}' ({counts[c]})" for c in rare])
    return (
        f"the clean set has fewer than {RARE} samples of {shown}; what is found among their labels "
        "is unsure: add clean samples of them",
    )


def _wrong(suspects: Sequence[int], total: int) -> tuple[str, ...]:
    """Return a sentence if labels of the clean set look wrong."""
    if not suspects:
        return ()
    verb, where = ("looks", "position") if len(suspects) == 1 else ("look", "positions")
    return (
        f"{len(suspects)} of the {total} clean samples {verb} wrong: {where} "
        f"{_some([str(position) for position in suspects])}; check them before training",
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:SHOWN], *(["..."] if len(names) > SHOWN else [])])


def _suspects(inputs: Inputs, labels: Ints, classes: int, seed: int) -> tuple[int, ...]:
    """Return the positions of labels that look wrong; none if they are as few as in a clean set."""
    positions = np.arange(len(labels))
    most = min(MOST, MOST_NUMBERS // max(1, math.prod(inputs.shape[1:])))
    if len(labels) > most:
        drawn = torch.randperm(len(labels), generator=generator(seed, "clean set check"))
        positions = np.sort(drawn[:most].numpy())
    given = labels[positions]
    if len(np.unique(given)) < 2 or len(given) < FOLDS or not inputs.dtype.is_floating_point:
        return ()  # numbers of words are not numbers that a regression could use
    chosen = take(inputs, torch.from_numpy(positions)).double().flatten(1).numpy()
    wrong, rate = wrong_probabilities(cross_fit(chosen, given, classes, seed), given)
    if rate < SUSPICIOUS * max(1.0, PER_CLASS * len(np.unique(given)) / len(given)):
        return ()
    order = np.argsort(-wrong, kind="stable")
    return tuple(int(positions[i]) for i in order if wrong[i] > 0.5)
