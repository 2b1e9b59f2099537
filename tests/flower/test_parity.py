"""A SuperLink with TLS and registered keys and 3 SuperNodes give what one process gives."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from fedsift.flower.local_deployment import LocalDeployment

pytestmark = pytest.mark.timeout(600)  # the first test starts a deployment and does two runs
METHODS = ("single-loop", "iter-sketch")
SAME = ("test_accuracy", "validation_loss", "bytes_up", "bytes_down", "exchanges", "rounds")


@pytest.fixture(scope="module")
def deployed(tmp_path_factory, config, write_sites):
    """Run every method on one deployment; return the folder, which has run and site folders."""
    folder = tmp_path_factory.mktemp("fed")
    with LocalDeployment(folder, write_sites(config, folder / "data")) as federation:
        for method in METHODS:
            path = folder / f"{method}.toml"
            path.write_text(config.replace(method=method).to_toml())
            done = federation.submit(str(path), folder / "runs" / method)
            assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize("method", METHODS)
def test_model_weights_and_figures_are_those_of_one_process(
    deployed, config, in_process, tmp_path, method
):
    there = deployed / "runs" / method
    here = in_process(config.replace(method=method), tmp_path / "here")
    summary = json.loads((there / "summary.json").read_text())
    assert {k: summary[k] for k in SAME} == {k: here[k] for k in SAME}
    assert summary["events"] == 0
    mine, theirs = (load_file(f / "model.safetensors") for f in (tmp_path / "here", there))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    run = (there / "run.txt").read_text()
    for m in range(config.clients):
        name = f"clients/{m}/weights.parquet"
        kept = pd.read_parquet(deployed / f"site-{m}" / run / name)
        assert np.array_equal(kept["weight"], pd.read_parquet(tmp_path / "here" / name)["weight"])
        audits = (
            f / f"clients/{m}/audit.json" for f in (tmp_path / "here", deployed / f"site-{m}" / run)
        )
        mine, theirs = (json.loads(path.read_text())["summary"] for path in audits)
        assert theirs["flagged"] == mine["flagged"]
        assert theirs["wrong"] == pytest.approx(mine["wrong"])


def test_no_weight_and_no_label_is_at_the_server(deployed):
    names = {p.name for p in (deployed / "server" / "runs").rglob("*") if p.is_file()}
    assert {n for n in names if n.endswith(".safetensors") and not n.startswith("round-")} == {
        "model.safetensors"
    }
    assert not [n for n in names if n.endswith(".parquet")]
    for checkpoint in (deployed / "server" / "runs").rglob("round-*.safetensors"):
        assert not [key for key in load_file(checkpoint) if key.startswith("client/")]
