"""The table of methods: each builds, and sends what its rate allows."""

import pytest

from fedsift.algorithms import Disagreement, FedAvg, Focus, HeadStart, LocalSteps, Preprocess
from fedsift.compress import CountSketch, TopK
from fedsift.errors import InputError
from fedsift.experiment.methods import METHODS
from fedsift.hypergradient import Iterative, NonIterative, Theorem

LENGTH = 1000


def bare(config):
    """Build the method of a configuration without its head start."""
    algorithm = METHODS[config.method].build(config, LENGTH)
    return algorithm.algorithm if isinstance(algorithm, HeadStart) else algorithm


@pytest.mark.parametrize("name", METHODS)
def test_local_steps_are_those_of_the_configuration(tiny, name):
    config = tiny(name, local_steps=7, inner_lr=0.3, batch_size=5)
    local = bare(config).local
    assert (local.steps, local.lr, local.batch_size) == (7, 0.3, 5)


def test_methods_without_a_weight_per_sample():
    without = [name for name, method in METHODS.items() if not method.learns_weights]
    assert without == ["fedavg", "oracle", "focus"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("fedavg", FedAvg(LocalSteps(2, 0.1, 8))),
        ("focus", Focus(LocalSteps(2, 0.1, 8), 2.5)),
        ("preprocess", Preprocess(LocalSteps(2, 0.1, 8), LocalSteps(30, 0.1, 8), 0.7)),
        ("disagreement", Disagreement(LocalSteps(2, 0.1, 8))),
    ],
)
def test_baselines_have_the_settings_of_the_configuration(tiny, name, expected):
    keys = {"focus_alpha": 2.5, "preprocess_steps": 30, "preprocess_threshold": 0.7}
    assert bare(tiny(name, **keys)) == expected


@pytest.mark.parametrize("name", METHODS)
def test_the_bilevel_methods_have_a_head_start_unless_told_otherwise(tiny, name):
    ahead = METHODS[name].build(tiny(name, head_start=70), LENGTH)
    plain = METHODS[name].build(tiny(name, head_start=0), LENGTH)
    if name in ("single-loop", "iter-topk", "iter-sketch", "non-iter"):
        assert ahead == HeadStart(plain, LocalSteps(70, 0.1, 8))
    else:
        assert ahead == plain


def test_only_the_oracle_needs_the_truth():
    assert [name for name, method in METHODS.items() if method.needs_truth] == ["oracle"]


@pytest.mark.parametrize("rate", [1, 4, 20, 100])
def test_compressor_sends_d_over_rate_numbers(tiny, rate):
    topk = bare(tiny("iter-topk", rate=rate)).estimator
    sketch = bare(tiny("iter-sketch", rate=rate)).estimator
    assert isinstance(topk, Iterative)
    assert topk.feedback.compressor == TopK(LENGTH, LENGTH // rate)
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
def test_single_loop_keeps_errors_at_clients_only_if_all_take_part(tiny, keys, kind):
    algorithm = bare(tiny("single-loop", **keys))
    assert isinstance(algorithm.feedback.compressor, kind)


@pytest.mark.parametrize("rate", [2, 10, 50])
def test_sketched_system_has_about_d_over_rate_numbers(tiny, rate):
    estimator = bare(tiny("non-iter", rate=rate)).estimator
    assert isinstance(estimator, NonIterative)
    assert estimator.r2 == 2 * estimator.r1
    assert estimator.r1 * estimator.r2 <= LENGTH / rate < 2 * (estimator.r1 + 1) ** 2


@pytest.mark.parametrize(
    ("keys", "rows"), [({"r1": 6}, (6, 12)), ({"r1": 6, "r2": 9}, (6, 9)), ({"r2": 99}, (10, 99))]
)
def test_sketched_system_has_the_rows_that_are_given(tiny, keys, rows):
    estimator = bare(tiny("non-iter", **keys)).estimator
    assert (estimator.r1, estimator.r2) == rows


def test_schedule_of_the_theorem(tiny):
    config = tiny("iter-topk", schedule="theorem", mu=0.5, shift=9.0)
    assert bare(config).estimator.schedule == Theorem(0.5, 9.0)


@pytest.mark.parametrize(
    ("method", "keys", "message"),
    [
        ("iter-sketch", {"heavy": 1001}, "heavy is 1001.*1000"),
        ("non-iter", {"r1": 1001}, "r1 is 1001 but the model has 1000 parameters"),
        ("non-iter", {"r1": 6, "r2": 5}, "r2 >= r1"),
    ],
)
def test_more_than_the_model_has_is_refused(tiny, method, keys, message):
    with pytest.raises(InputError, match=message):
        METHODS[method].build(tiny(method, **keys), LENGTH)
