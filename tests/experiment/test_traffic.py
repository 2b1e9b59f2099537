"""Where models and updates travel compressed unless the run says otherwise."""

import pytest

from fedsift.algorithms.auto import FEW, HEAD, NETWORK
from fedsift.algorithms.registry import METHODS
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.experiment.traffic import RATE, rates_of
from fedsift.federation import Rates

ALL = Rates(1.0, 1.0)


def test_exactly_the_methods_that_auto_chooses_compress():
    found = {name for name in METHODS if rates_of(Config.of(method=name)) != ALL}
    assert found == {HEAD.name, NETWORK.name, FEW.name}
    assert rates_of(Config.of(method=NETWORK.name)) == Rates(RATE, RATE)


@pytest.mark.parametrize(
    "keys",
    [
        {"cohort": 2},
        {"secure_sum": True},
        {"aggregation": "median"},
        {"dp_clip": 1.0, "dp_noise": 1.0},
    ],
)
def test_all_travels_where_a_sum_of_sparse_vectors_would_not_do(keys):
    assert rates_of(Config.of(method=NETWORK.name, **keys)) == ALL


def test_a_number_is_used_as_it_is():
    assert rates_of(Config.of(method="fedavg", update_rate=5, cohort=2)) == Rates(5.0, 1.0)
    assert rates_of(Config.of(method=NETWORK.name, model_rate=1)) == Rates(RATE, 1.0)


def test_a_run_at_the_defaults_sends_a_tenth_of_what_it_sends_without():
    keys = {"clients": 2, "samples_per_client": 20, "rounds": 3, "eval_every": 3, "inner_lr": 0.1}
    runs = [
        train(from_config(Config.of(method=NETWORK.name, **keys, **more).resolve()))
        for more in ({}, {"update_rate": 1, "model_rate": 1})
    ]
    sent, dense = (run.summary["bytes_up"] for run in runs)
    assert sent < 0.1 * dense
    # Round 0 has the whole model down, in 16 bits; what changes after that is sparse.
    sent, dense = (sum(r["bytes_down"] for r in run.rounds[1:]) for run in runs)
    assert sent < 0.1 * dense
