"""What a run says at its end: only what its figures say, and once."""

from math import comb

import pytest

from fedsift.experiment.notices import notices, parted
from fedsift.experiment.run import execute
from tiny import tiny_config

USUAL = {"rounds": 3, "seed": 1}


@pytest.mark.parametrize("samples", [30, 100, 400])
@pytest.mark.parametrize("accuracy", [0.5, 0.8, 0.95])
def test_equal_accuracies_hardly_ever_part_by_chance(samples, accuracy):
    """By the binomial distribution of both, independent of each other."""
    p = [
        comb(samples, k) * accuracy**k * (1 - accuracy) ** (samples - k) for k in range(samples + 1)
    ]
    false = sum(
        p[f] * p[j]
        for f in range(samples + 1)
        for j in range(f)
        if parted(f / samples, j / samples, samples)
    )
    assert false < 0.05


@pytest.mark.parametrize(
    ("fitted", "judged", "samples", "said"),
    [
        (0.98, 0.80, 500, True),
        (0.90, 0.86, 10**6, False),
        (0.9, 0.8, 20, False),
        (0.7, 0.9, 99, False),
    ],
)
def test_accuracies_part_where_the_difference_is_large_and_sure(fitted, judged, samples, said):
    record = {"validation_accuracy": fitted, "judged_accuracy": judged}
    found = notices(record, samples)
    assert bool(found) == said
    assert not said or ("98%" in found[0] and "80%" in found[0])


def test_nothing_is_said_of_figures_that_a_method_does_not_have():
    assert notices({"validation_accuracy": 1.0}, 100) == []
    assert notices({"judged_accuracy": 0.2, "training_helped": 1.0}, 100) == []


@pytest.mark.parametrize(
    ("method", "fitted", "said"),
    [("single-loop", 0.78, 1), ("single-loop", 0.95, 0), ("posterior", 0.78, 0)],
)
def test_a_hard_task_has_another_method(method, fitted, said):
    found = notices({"validation_accuracy": fitted}, 500, method)
    assert sum("--method posterior" in notice for notice in found) == said


def test_a_run_says_at_its_end_that_training_did_not_help(tmp_path):
    """Resumed or not: the sentences and the figures are in the summary."""
    whole = execute(tiny_config("out-of-fold", USUAL), tmp_path / "whole")
    helped = whole.summary["training_helped"]
    said = [sum("clean set alone" in notice for notice in whole.summary["notices"])]
    assert said == [int(helped == 0.0)]
    assert whole.summary["judged_accuracy"] == whole.rounds[-1]["judged_accuracy"]
    short = tiny_config("out-of-fold", {**USUAL, "rounds": 2})
    execute(short, tmp_path / "parts")
    again = execute(tiny_config("out-of-fold", USUAL), tmp_path / "parts", resume=True)
    assert again.summary["notices"] == whole.summary["notices"]
    assert again.summary["judged_loss"] == whole.summary["judged_loss"]
