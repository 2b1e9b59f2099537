"""The contract of every row of the table of methods: its keys, and what they build."""

from dataclasses import replace

import pytest

from fedsift.algorithms import (
    CleanOnly,
    Disagreement,
    EarlyLearningRegularisation,
    EndToEndCorrection,
    FedAvg,
    Focus,
    GeneralisedCrossEntropy,
    GoldLossCorrection,
    HeadStart,
    LabelCorrection,
    LocalSteps,
    OutOfFold,
    Preprocess,
    SelfTraining,
)
from fedsift.algorithms.elr import EarlyLearning
from fedsift.algorithms.fedelc import LabelLearning
from fedsift.algorithms.gce import Order
from fedsift.algorithms.method import Weighting
from fedsift.algorithms.registry import METHODS
from fedsift.compress import COMPRESSORS, CountSketch, TopK
from fedsift.errors import InputError
from fedsift.hypergradient import Iterative, NonIterative, Theorem
from fedsift.hypergradient.registry import ESTIMATORS
from fedsift.keys import BuildContext, Settings, keys_of

LENGTH = 1000
TINY = {"local_steps": 2, "batch_size": 8}
NUMBERS = {"inner_lr": 0.1, "solver_lr": 0.1, "damping": 0.5}  # the run finds the defaults
BILEVEL = ("single-loop", "first-order", "clean-step", "simfbo", "fedbioacc", *ESTIMATORS)
RIVALS = ("glc", "em", "gce", "elr", "fedelc", "fedcorr")

every_method = pytest.mark.parametrize("name", METHODS)


def settings_of(name, **keys):
    numbers = {key: number for key, number in NUMBERS.items() if METHODS[name].reads(key)}
    return Settings.of(METHODS[name].groups, {**TINY, **numbers, **keys})


def build(name, cohort=0, **keys):
    return METHODS[name].build(settings_of(name, **keys), BuildContext(LENGTH, 0, cohort))


def bare(name, cohort=0, **keys):
    """Build a method without its head start."""
    algorithm = build(name, cohort, **keys)
    return algorithm.algorithm if isinstance(algorithm, HeadStart) else algorithm


def others(key):
    """Return values that a key may have, other than its default."""
    tried = {
        "str": key.allowed() or (),
        "bool": (not key.default,),
        "int": (7, 1, 60, 8),
        "float": (0.5, 1.0, 3.0, 200.0),
        "Auto": (0.5, 3.0, 200.0),
    }[key.kind]
    low, high = key.low, key.high
    fitting = [v for v in tried if key.kind in ("str", "bool") or low <= v <= (high or v)]
    return [value for value in fitting if value != key.default]


def made(name, **keys):
    """Return all that a method makes of its keys."""
    algorithm, weighting = build(name, **keys), METHODS[name].weighting(settings_of(name, **keys))
    return algorithm, weighting


KEYS = [(name, key) for name, row in METHODS.items() for key in keys_of(*row.groups).values()]


@pytest.mark.parametrize(("name", "key"), KEYS, ids=lambda part: getattr(part, "name", part))
def test_every_key_has_an_effect(name, key):
    """By itself, or together with one choice: `mu` needs the schedule that has it."""
    chosen = [k for k in keys_of(*METHODS[name].groups).values() if k.kind == "str" and k != key]
    cases = [{}, *({k.name: value} for k in chosen for value in others(k))]
    assert any(
        made(name, **case, **{key.name: value}) != made(name, **case)
        for case in cases
        for value in others(key)
    )


def test_a_key_has_one_meaning_whoever_reads_it():
    groups = dict.fromkeys(group for row in METHODS.values() for group in row.groups)
    keys = [key for group in groups for key in keys_of(group).values()]
    meanings = {replace(key, default=None) for key in keys}  # baselines have no head start
    assert len({key.name for key in meanings}) == len(meanings)
    defaults = {(key.name, key.default) for key in keys}
    twice = [name for name, _ in defaults if name != "head_start"]
    assert len(twice) == len(set(twice))


@every_method
def test_a_group_is_named_once(name):
    assert len(set(METHODS[name].groups)) == len(METHODS[name].groups)


@every_method
def test_it_builds_from_its_defaults(name):
    context = BuildContext(LENGTH)
    assert hasattr(METHODS[name].algorithm(Settings.of(METHODS[name].groups), context), "round")


def test_every_estimator_is_a_method():
    assert {name: METHODS[name].text for name in ESTIMATORS} == {
        name: row.text for name, row in ESTIMATORS.items()
    }


@every_method
def test_only_the_bilevel_methods_change_the_problem(name):
    weighting = METHODS[name].weighting(Settings.of(METHODS[name].groups))
    assert weighting == (Weighting(1.0, 1.0) if name in BILEVEL else Weighting(1.0, 0.0))


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_single_loop_has_the_compressor_that_is_named(compressor):
    feedback = bare("single-loop", compressor=compressor).feedback
    assert feedback.compressor.spec()["name"] == compressor


@every_method
def test_local_steps_are_those_of_the_keys(name):
    given = {"inner_lr": 0.3} if METHODS[name].reads("inner_lr") else {}
    local = bare(name, local_steps=7, batch_size=5, **given).local
    assert (local.steps, local.batch_size) == (7, 5)
    assert local.lr == given.get("inner_lr", LocalSteps().lr)


def test_methods_without_a_weight_per_sample():
    without = [name for name, method in METHODS.items() if not method.learns_weights]
    assert without == ["fedavg", "oracle", "focus"]


@pytest.mark.parametrize(
    ("name", "keys", "expected"),
    [
        ("fedavg", {}, FedAvg(LocalSteps(2, 0.1, 8))),
        ("focus", {"focus_alpha": 2.5}, Focus(LocalSteps(2, 0.1, 8), 2.5)),
        (
            "preprocess",
            {"preprocess_steps": 30, "preprocess_threshold": 0.7},
            Preprocess(LocalSteps(2, 0.1, 8), LocalSteps(30, 0.1, 8), 0.7),
        ),
        ("disagreement", {}, Disagreement(LocalSteps(2, 0.1, 8))),
        ("clean-only", {"clean_steps": 30}, CleanOnly(LocalSteps(2, 0.1, 8), 30)),
        ("glc", {"glc_rounds": 9}, GoldLossCorrection(LocalSteps(2, 0.1, 8), 9)),
        ("em", {}, SelfTraining(LocalSteps(2, 0.1, 8))),
        ("gce", {"gce_q": 0.4}, GeneralisedCrossEntropy(LocalSteps(2, 0.1, 8), Order(0.4))),
        (
            "elr",
            {"elr_momentum": 0.9, "elr_strength": 7.0},
            EarlyLearningRegularisation(LocalSteps(2, 0.1, 8), EarlyLearning(0.9, 7.0)),
        ),
        (
            "out-of-fold",
            {"share_noise": False},
            OutOfFold(LocalSteps(2, 0.1, 8), share=False, scored=128),
        ),
        (
            "out-of-fold",
            {"learn_l2": True},
            OutOfFold(LocalSteps(2, 0.1, 8), learns=True, scored=128),
        ),
        (
            "fedelc",
            {"elc_rounds": 3, "elc_step": 1.0, "elc_compatibility": 0.4, "elc_entropy": 0.3},
            EndToEndCorrection(LocalSteps(2, 0.1, 8), 3, LabelLearning(1.0, 0.4, 0.3)),
        ),
        (
            "fedcorr",
            {"corr_rounds": 3, "corr_finetune": 4},
            LabelCorrection(LocalSteps(2, 0.1, 8), 3, 4),
        ),
    ],
)
def test_baselines_have_the_settings_of_the_keys(name, keys, expected):
    assert bare(name, **keys) == expected


@pytest.mark.parametrize("name", [*BILEVEL, *RIVALS])
def test_methods_have_the_same_head_start_unless_it_is_off(name):
    plain = build(name, head_start=0)
    assert build(name, head_start=70) == HeadStart(plain, LocalSteps(70, 0.1, 8))


def test_only_the_oracle_needs_the_truth():
    assert [name for name, method in METHODS.items() if method.needs_truth] == ["oracle"]


@pytest.mark.parametrize("rate", [1, 4, 20, 100])
def test_compressor_sends_d_over_rate_numbers(rate):
    topk = bare("iter-topk", rate=rate).estimator
    sketch = bare("iter-sketch", rate=rate).estimator
    assert isinstance(topk, Iterative)
    assert topk.feedback.compressor == TopK(LENGTH, LENGTH // rate, 16)
    assert sketch.feedback.compressor == CountSketch(LENGTH, 5, LENGTH // (5 * rate), 0)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ({}, TopK),
        ({"cohort": 1}, CountSketch),
        ({"cohort": 1, "compressor": "topk"}, TopK),
        ({"compressor": "count-sketch"}, CountSketch),
    ],
)
def test_single_loop_keeps_errors_at_clients_only_if_all_take_part(keys, kind):
    algorithm = bare("single-loop", **keys)
    assert isinstance(algorithm.feedback.compressor, kind)


@pytest.mark.parametrize(
    ("name", "keys", "form"),
    [
        ("iter-topk", {}, "listing"),
        ("iter-topk", {"iterations": 5}, "ef21"),
        ("iter-topk", {"iterations": 5, "cohort": 3}, "listing"),
        ("iter-topk", {"feedback": "gradient"}, "gradient"),
        ("iter-sketch", {}, "ef21"),
        ("iter-sketch", {"feedback": "listing"}, "listing"),
        ("single-loop", {}, "listing"),
        ("single-loop", {"cohort": 3}, "ef21"),
    ],
)
def test_which_feedback_is_chosen(name, keys, form):
    algorithm = bare(name, **keys)
    chosen = getattr(algorithm, "estimator", algorithm).feedback
    assert chosen.form == form


def test_a_step_that_the_run_finds_is_what_a_sketch_can_bear_and_a_given_one_stays():
    settings = settings_of("iter-sketch", head_start=0)  # 1,000 parameters, 5 rows of 10 columns
    given = METHODS["iter-sketch"].build(settings, BuildContext(LENGTH))
    found = METHODS["iter-sketch"].build(settings, BuildContext(LENGTH, found=("solver_lr",)))
    assert given.estimator.schedule.step == 0.1
    assert found.estimator.schedule.step == pytest.approx(0.1 * 50 / 1050)
    topk = METHODS["iter-topk"].build(
        settings_of("iter-topk", head_start=0), BuildContext(LENGTH, found=("solver_lr",))
    )
    assert topk.estimator.schedule.step == 0.1


@pytest.mark.parametrize("rate", [2, 10, 50])
def test_sketched_system_has_about_d_over_rate_numbers(rate):
    estimator = bare("non-iter", rate=rate).estimator
    assert isinstance(estimator, NonIterative)
    assert estimator.r2 == 2 * estimator.r1
    assert estimator.r1 * estimator.r2 <= LENGTH / rate < 2 * (estimator.r1 + 1) ** 2


@pytest.mark.parametrize(
    ("keys", "rows"),
    [({"r1": 6}, (6, 12)), ({"r1": 6, "r2": 9}, (6, 9)), ({"rate": 5, "r2": 99}, (10, 99))],
)
def test_sketched_system_has_the_rows_that_are_given(keys, rows):
    estimator = bare("non-iter", **keys).estimator
    assert (estimator.r1, estimator.r2) == rows


def test_schedule_of_the_theorem():
    algorithm = bare("iter-topk", schedule="theorem", mu=0.5, shift=9.0)
    assert algorithm.estimator.schedule == Theorem(0.5, 9.0)


@pytest.mark.parametrize(
    ("method", "keys", "message"),
    [
        ("iter-sketch", {"heavy": 1001}, "heavy is 1001.*1000"),
        ("non-iter", {"r1": 1001}, "r1 is 1001 but the model has 1000 parameters"),
        ("non-iter", {"r1": 6, "r2": 5}, "r2 >= r1"),
    ],
)
def test_more_than_the_model_has_is_refused(method, keys, message):
    with pytest.raises(InputError, match=message):
        build(method, **keys)


def test_what_methods_do_with_labels():
    learning = {name for name, row in METHODS.items() if row.learns_weights}
    assert learning == {
        *(*BILEVEL, *RIVALS, "out-of-fold", "posterior"),
        *("auto", "clean-only", "preprocess", "disagreement"),
    }
    assert {name for name, row in METHODS.items() if row.needs_truth} == {"oracle"}


DEFAULTS = {
    "inner": {"local_steps": 5, "inner_lr": "auto", "batch_size": 64, "head_start": 500}
    | {"clean_steps": 2000, "glc_rounds": 20, "gce_q": 0.7, "share_noise": True, "learn_l2": False}
    | {"elr_momentum": 0.7, "elr_strength": 3.0, "elc_rounds": 10, "elc_step": 2.0}
    | {"elc_compatibility": 0.5, "elc_entropy": 0.2, "corr_rounds": 10, "corr_finetune": 5},
    "outer": {
        "outer_lr": 0.1,
        "outer_rule": "scale-free",
        "weight_mean": 0.9,
        "outer_decay": 10,
        "self_paced": 1.0,
        "bootstrap": 1.0,
        "initial_weight": 1.0,
        "focus_alpha": 1.0,
        "preprocess_steps": 500,
        "preprocess_threshold": 0.0,
        "penalty": 1.0,
        "server_steps": 5,
        "train_share": 0.5,
        "scored": 128,
    },
    "solver": {
        "rate": 20.0,
        "compressor": "auto",
        "feedback": "auto",
        "fresh_cohort": False,
        "value_bits": 16,
        "sketch_rows": 5,
        "heavy": 0,
        "iterations": 1,
        "solver_lr": "auto",
        "schedule": "constant",
        "mu": 1e-3,
        "shift": 1e4,
        "warm_start": True,
        "resample": False,
        "check_residual": False,
        "curvature": "gauss-newton",
        "damping": "auto",
        "curvature_batch": 128,
        "r1": 0,
        "r2": 0,
        "system": "least-squares",
        "fresh_seeds": True,
        "storm": 0.9,
        "terms": 10,
        "rank": 10,
    },
}


def test_defaults_change_on_purpose_only():
    """The figures in the documents are made with these."""
    found: dict[str, dict[str, object]] = {}
    for _, key in KEYS:
        found.setdefault(key.table, {})[key.name] = key.default
    assert found == DEFAULTS
