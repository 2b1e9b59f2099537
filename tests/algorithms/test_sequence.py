"""What a method asks, in which order."""

import pytest

from fedsift.algorithms.registry import METHODS
from fedsift.algorithms.sequence import Next, Sequence
from fedsift.client import ACTIONS

ITERATIVE = Sequence("train product* measure product outer")


@pytest.mark.parametrize("method", METHODS)
def test_every_method_asks_what_there_is(method):
    assert METHODS[method].sequence.actions <= set(ACTIONS)


@pytest.mark.parametrize(
    ("at", "action", "found"),
    [
        (-1, "train", Next(0, True, False)),
        (0, "product", Next(1, False, False)),
        (1, "product", Next(1, False, False)),
        (2, "product", Next(3, False, False)),
        (0, "outer", Next(4, False, False)),  # it has missed the products
        (4, "train", Next(0, True, False)),  # the round is done again
        (3, "product", Next(1, True, False)),
        (-1, "keep", None),
    ],
)
def test_the_next_place(at, action, found):
    assert ITERATIVE.next(at, action) == found


def test_what_comes_once_in_a_run_is_marked():
    found = METHODS["preprocess"].sequence.next(-1, "count")
    assert found is not None
    assert found.once
