"""One liar of ten, of every kind, with the defaults: it ends no run, costs little, and is named.

The figures of 30 rounds and three seeds are in docs/guide/robustness.md.
"""

from dataclasses import replace

import pytest
from benchmarks.robustness import LIES, Lying

from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config

CONFIG = Config.of(
    dataset="digits",
    method="fedavg",
    model="linear",
    clients=10,
    samples_per_client=60,
    rounds=12,
    eval_every=12,
    seed=20,
    inner_lr=0.1,
    rho=0.1,
    device="cpu",
).resolve()


def summary(lie="none", liars=0, **keys):
    setup = from_config(CONFIG.replace(**keys) if keys else CONFIG)
    return train(replace(setup, federation=Lying(setup.federation, liars, lie))).summary


@pytest.fixture(scope="module")
def honest():
    return summary()["test_accuracy"]


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_named_and_costs_little(lie, honest):
    found = summary(lie, 1)
    assert "0" in {**found.get("suspects", {}), **found.get("dropped", {})}
    assert found["rounds"] == 12
    assert found["test_accuracy"] > honest - 0.03


def test_without_clipping_one_liar_is_enough(honest):
    """The control: what the check guards from."""
    assert summary("x-10", 1, clip=0.0)["test_accuracy"] < honest - 0.2


@pytest.mark.parametrize("lie", ["flipped", "x100", "stale", "nan"])
def test_a_liar_is_named_where_updates_travel_by_their_largest_numbers(lie):
    """The default method with its default rates: what is judged is Top-k of an update."""
    found = summary(lie, 1, method="posterior", model="mlp", samples_per_client=100)
    assert "0" in {**found.get("suspects", {}), **found.get("dropped", {})}
    assert found["rounds"] == 12
