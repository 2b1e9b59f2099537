"""What the demo promises, on its own configuration."""

import pytest

from fedsift.cli.demo import METHODS, ROUNDS
from fedsift.experiment.config import Config
from fedsift.experiment.run import execute


@pytest.mark.deep
def test_fedavg_overfits_and_comm_fedbio_stays_near_the_oracle(tmp_path):
    config = {"rounds": ROUNDS, "eval_every": 10}
    done = {m: execute(Config.of(method=m, **config), tmp_path / m).summary for m in METHODS}
    accuracy = {m: summary["test_accuracy"] for m, summary in done.items()}
    assert accuracy["fedavg"] < done["fedavg"]["best_test_accuracy"] - 0.05
    assert accuracy["single-loop"] >= accuracy["oracle"] - 0.02
    assert done["single-loop"]["f1"] >= 0.90


@pytest.mark.deep
@pytest.mark.parametrize("method", ["single-loop", "iter-topk"])
def test_the_other_methods_find_wrong_labels_too(tmp_path, method):
    config = Config.of(method=method, rounds=100, eval_every=100)
    summary = execute(config, tmp_path / "run").summary
    assert summary["f1"] >= 0.88
    assert summary["auc"] >= 0.95
