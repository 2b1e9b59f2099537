"""The keys that every bilevel method reads, and what they describe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedsift.algorithms.additions.head_start import HeadStartKeys, ahead
from fedsift.algorithms.additions.self_paced import SelfPaced, SelfPacedKeys
from fedsift.algorithms.fedavg import LocalKeys, local_of
from fedsift.algorithms.method import Weighting
from fedsift.algorithms.outer_step import OuterKeys, OuterSchedule, OuterStep
from fedsift.algorithms.state import Algorithm
from fedsift.keys import Keys, Settings, key


@dataclass(frozen=True)
class WeightKeys(Keys):
    """The weights of the samples and what they do to the loss."""

    table: ClassVar[str] = "outer"
    bootstrap: float = key(
        1.0,
        "share of a down-weighted sample's loss that goes to the predicted class; 0: off",
        low=0,
        high=1,
    )
    initial_weight: float = key(1.0, "weight of every sample before round 1", low=0, high=1)


BILEVEL: tuple[type[Keys], ...] = (LocalKeys, HeadStartKeys, OuterKeys, SelfPacedKeys, WeightKeys)


def outer_of(settings: Settings) -> OuterSchedule:
    """Return the outer step that the keys describe: the paper's, or ours around it."""
    own, paced = settings[OuterKeys], settings[SelfPacedKeys]
    outer = OuterStep(own.outer_lr, own.outer_rule, own.weight_mean)
    if not paced.outer_decay:
        return outer
    return SelfPaced(outer, paced.outer_decay, paced.self_paced)


def weighting_of(settings: Settings) -> Weighting:
    """Return the weighting that the keys describe."""
    own = settings[WeightKeys]
    return Weighting(own.initial_weight, own.bootstrap)


def with_head_start(settings: Settings, algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with the head start that the keys describe, if any."""
    return ahead(algorithm, local_of(settings), settings[HeadStartKeys].head_start)
