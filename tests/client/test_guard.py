"""What the guard lets through: all of every method; and by what it counts samples."""

import pytest
import torch

from fedsift.algorithms.registry import METHODS
from fedsift.client.baselines import merged
from fedsift.client.guard import effective_batch
from fedsift.client.policy import Policy
from fedsift.errors import ConfigError
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from tiny import tiny_config

ENOUGH = {"clients": 3, "samples_per_client": 40, "batch_size": 32, "rounds": 4, "seed": 2}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_runs_unchanged_under_the_default_policy(method):
    model = "linear" if method == "out-of-fold" else "mlp"
    plain = tiny_config(method, ENOUGH | {"iterations": 3}, model=model).resolve()
    free, held = (train(from_config(plain.replace(policy=p))) for p in ("", "default"))
    assert [r["events"] for r in held.rounds] == [r["events"] for r in free.rounds]
    assert not any("dropped" in r for r in free.rounds)  # all replies are as their rows say
    if method != "preprocess":  # whose histogram has its small bins merged
        assert torch.equal(free.state.y, held.state.y)


def test_a_simulated_site_refuses_what_a_site_would_refuse():
    config = tiny_config("fedavg", ENOUGH, batch_size=4, policy="default").resolve()
    with pytest.raises(Exception, match="would rest on 4 samples"):
        train(from_config(config))


def test_a_policy_that_is_no_file_is_refused():
    with pytest.raises(ConfigError, match="which is no file"):
        from_config(tiny_config("fedavg", ENOUGH, policy="nowhere.toml").resolve())


@pytest.mark.parametrize(
    ("size", "x", "expected"),
    [
        (8, torch.ones(20), 8.0),
        (0, torch.ones(20), 20.0),
        (64, torch.full((20,), 0.3), 20.0),  # equal weights count in full
        (10, torch.tensor([1.0] * 5 + [0.0] * 15), 2.5),
        (20, torch.tensor([1.0] + [0.0] * 19), 1.0),
        (20, torch.zeros(20), 0.0),
        (5, None, 5.0),
    ],
)
def test_a_batch_counts_by_the_weights_of_its_samples(size, x, expected):
    assert effective_batch(size, 20, x) == pytest.approx(expected)


def test_small_bins_are_counted_in_the_next_full_one():
    counts = torch.tensor([1, 0, 3, 2, 9, 0, 1, 1])
    assert merged(counts, 5).tolist() == [0, 0, 0, 6, 11, 0, 0, 0]
    assert merged(counts, 1) is counts
    assert merged(torch.tensor([1, 1]), 5).tolist() == [0, 2]


def test_the_default_is_strict_where_it_matters():
    policy = Policy()
    assert policy.private_batches
    assert min(policy.least_batch, policy.least_kept, policy.least_counted) > 1
