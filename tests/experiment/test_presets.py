"""Sets of keys with a name."""

import pytest

from fedsift.algorithms.registry import METHODS
from fedsift.errors import ConfigError
from fedsift.experiment.config import Config
from fedsift.experiment.presets import PRESETS, preset_keys

LITERAL = {
    "outer_rule": "gradient",
    "outer_lr": 0.1,
    "curvature": "hessian",
    "damping": 0.0,
    "warm_start": False,
    "head_start": 0,
    "bootstrap": 0.0,
    "outer_decay": 0,
    "self_paced": 0.0,
    "weight_mean": 0.0,
    "feedback": "listing",
    "inner_lr": 0.01,
    "batch_size": 256,
    "iterations": 5,
}


def test_the_paper_to_the_letter():
    config = Config.of(method="iter-topk", **preset_keys("paper-literal", "iter-topk", "mnist"))
    assert {name: config.value(name) for name in LITERAL} == LITERAL


def test_cifar_10_has_smaller_batches():
    keys = preset_keys("paper-literal", "iter-topk", "cifar10")
    assert (keys["batch_size"], keys["curvature_batch"]) == (32, 32)
    assert preset_keys("paper-steps", "fedavg", "cifar10")["batch_size"] == 32


@pytest.mark.parametrize("method", [name for name, row in METHODS.items() if row.choose is None])
@pytest.mark.parametrize("preset", PRESETS)
def test_every_method_takes_what_it_reads_of_a_preset(preset, method):
    keys = preset_keys(preset, method, "mnist")
    assert Config.of(method=method, **keys).value("inner_lr") in {0.01, None}


def test_no_preset_is_no_keys_and_auto_is_refused():
    assert preset_keys("", "auto", "mnist") == {}
    with pytest.raises(ConfigError, match="needs a method by its name; give --method"):
        preset_keys("paper-literal", "auto", "mnist")
    with pytest.raises(ConfigError, match="did you mean 'paper-literal'"):
        preset_keys("paper-litral", "fedavg", "mnist")
