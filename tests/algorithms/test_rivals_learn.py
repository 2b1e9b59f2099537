"""Methods for noisy labels beat FedAvg on digits with 40 % of the labels wrong, in seconds."""

import pytest

from fedsift.experiment.config import Config
from fedsift.experiment.run import execute

RIVALS = ("glc", "em", "gce", "elr", "fedelc", "fedcorr")
DIGITS = {"model": "linear", "inner_lr": 0.3, "rounds": 40, "eval_every": 40, "seed": 21}


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    config = Config.of(method="fedavg", **DIGITS)
    return execute(config, tmp_path_factory.mktemp("fedavg") / "run").summary["test_accuracy"]


@pytest.mark.parametrize("method", RIVALS)
def test_it_beats_fedavg_and_finds_wrong_labels(tmp_path, fedavg, method):
    summary = execute(Config.of(method=method, **DIGITS), tmp_path / "run").summary
    assert summary["test_accuracy"] > fedavg + 0.005
    assert summary["weights_f1"] > 0.9  # flagging every label has 0.57
