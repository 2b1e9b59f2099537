from __future__ import annotations

import pytest

from fedsift.report import load_run
from fedsift.report.compare import settings
from fedsift.report.verdict import verdict

FOUND = {"f1": 0.94, "precision": 0.95, "recall": 0.93, "noise_rate": 0.4}
FOUND_TEXT = "It finds mislabelled samples with F1 0.94 at precision 0.95 and recall 0.93."
LABELS = {"index": [0, 1], "label": [3, 4], "weight": [0.1, 0.9]}


def said(*folders) -> list[str]:
    return [verdict(setting) for setting in settings([load_run(folder) for folder in folders])]


def test_a_method_is_compared_with_the_oracle_and_fedavg(make_run):
    runs = (
        make_run("oracle", 0.986),
        make_run("fedavg", 0.741),
        make_run("iter-sketch", 0.982, **FOUND),
    )

    assert said(*runs) == [
        "iter-sketch ends at 98.2 % test accuracy, 0.4 points below the oracle; "
        f"fedavg ends at 74.1 %. {FOUND_TEXT}"
    ]


@pytest.mark.parametrize(
    ("oracle", "gap"),
    [(0.97, "1.2 points above"), (0.982, "level with"), (0.9824, "level with")],
)
def test_the_gap_to_the_oracle_has_a_direction(make_run, oracle, gap):
    runs = make_run("oracle", oracle), make_run("iter-sketch", 0.982, **FOUND)

    assert said(*runs) == [
        f"iter-sketch ends at 98.2 % test accuracy, {gap} the oracle. {FOUND_TEXT}"
    ]


def test_without_an_oracle_there_is_no_gap(make_run):
    runs = make_run("fedavg", 0.741), make_run("iter-sketch", 0.982, **FOUND)

    assert said(*runs) == [
        f"iter-sketch ends at 98.2 % test accuracy; fedavg ends at 74.1 %. {FOUND_TEXT}"
    ]


@pytest.mark.parametrize("method", ["fedavg", "oracle"])
def test_a_reference_alone_is_only_reported(make_run, method):
    assert said(make_run(method, 0.741)) == [f"{method} ends at 74.1 % test accuracy."]


def test_fedavg_is_compared_with_the_oracle(make_run):
    runs = make_run("fedavg", 0.741), make_run("oracle", 0.986)

    assert said(*runs) == ["fedavg ends at 74.1 % test accuracy, 24.5 points below the oracle."]


@pytest.mark.parametrize(
    ("truth", "summary", "sentence"),
    [
        ({}, {}, "The true labels are unknown, so the flagged labels are not scored."),
        ({}, {"noise_rate": 0.0}, "No label is wrong in this data, so there is nothing to find."),
        (
            {"true_label": [3, 5]},
            {},
            "iter-topk has no score for the mislabelled samples it finds.",
        ),
    ],
)
def test_detection_that_is_not_scored_says_why(make_run, truth, summary, sentence):
    run = make_run("iter-topk", 0.8, weights=[LABELS | truth], f1=None, **summary)

    assert said(run) == [f"iter-topk ends at 80.0 % test accuracy. {sentence}"]


def test_of_several_methods_the_one_that_ends_highest_leads(make_run):
    runs = (
        make_run("iter-topk", 0.99, 0.95, best_test_accuracy=0.99, f1=0.96),
        make_run("iter-sketch", 0.90, 0.982, **FOUND),
    )

    assert said(*runs) == [
        "Of the 2 methods that sift labels, iter-sketch ends highest at 98.2 % test accuracy. "
        f"{FOUND_TEXT[:-1]}; iter-topk has the highest F1, 0.96."
    ]


def test_a_tie_is_called_a_tie(make_run):
    runs = make_run("iter-topk", 0.95, f1=0.9), make_run("non-iter", 0.95, f1=0.9)

    assert said(*runs) == [
        "Of the 2 methods that sift labels, iter-topk ends highest, level with non-iter, "
        "at 95.0 % test accuracy. It finds mislabelled samples with F1 0.90."
    ]


def test_seeds_are_averaged(make_run):
    runs = [
        make_run("non-iter", 0.9 + seed / 100, seed=seed, f1=0.5 + seed / 10) for seed in range(3)
    ]

    assert said(*runs) == [
        "non-iter ends at 91.0 % test accuracy (mean of 3 runs, 90.0 to 92.0). "
        "It finds mislabelled samples with F1 0.60."
    ]


def test_an_unfinished_run_is_not_reported_as_ended(make_run):
    runs = (
        make_run("single-loop", 0.5, 0.6, rounds={"weights_f1": [0.1, 0.2]}, finished=False),
        make_run("fedavg", 0.7, 0.75, 0.8),
    )

    assert said(*runs) == [
        "single-loop stands at 60.0 % test accuracy with 2 rounds done (unfinished); "
        "fedavg ends at 80.0 % after 3 rounds. Flagged labels are scored when the run has ended."
    ]


def test_rounds_are_given_where_they_differ(make_run):
    runs = make_run("fedavg", 0.7), make_run("oracle", 0.8, 0.9)

    assert said(*runs) == [
        "fedavg ends at 70.0 % test accuracy after 1 round, "
        "20.0 points below the oracle after 2 rounds."
    ]


def test_runs_on_different_data_are_not_compared(make_run):
    runs = (
        make_run("fedavg", 0.7, rho=0.2),
        make_run("oracle", 0.9, rho=0.4),
        make_run("oracle", 0.8, dataset="mnist"),
    )

    assert said(*runs) == [
        "fedavg ends at 70.0 % test accuracy.",
        "oracle ends at 90.0 % test accuracy.",
        "oracle ends at 80.0 % test accuracy.",
    ]


def test_runs_with_another_measured_noise_are_not_compared(make_run):
    runs = make_run("fedavg", 0.7, noise_rate=0.2), make_run("oracle", 0.9, noise_rate=0.4)

    assert said(*runs) == ["fedavg ends at 70.0 % test accuracy."]


def test_variants_of_a_method_are_distinguished_and_not_averaged(make_run):
    runs = (
        make_run("iter-topk", 0.9, rate=20, name="a", f1=0.8),
        make_run("iter-topk", 0.95, rate=5, name="b", f1=0.7),
    )

    assert said(*runs) == [
        "Of the 2 variants that sift labels, iter-topk (rate 5) ends highest at 95.0 % test "
        "accuracy. It finds mislabelled samples with F1 0.70; "
        "iter-topk (rate 20) has the highest F1, 0.80."
    ]


def test_no_accuracy_at_all(make_run):
    assert said(make_run("fedavg", None)) == ["There is no test accuracy."]


def test_detection_is_reported_without_accuracy(make_run):
    assert said(make_run("non-iter", None, f1=0.5)) == [
        "There is no test accuracy. non-iter finds mislabelled samples with F1 0.50."
    ]
