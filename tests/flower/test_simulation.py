"""The same run through Flower's simulation engine."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

pytestmark = pytest.mark.deep


def test_ten_simulated_clients_give_what_one_process_gives(
    config, write_sites, in_process, tmp_path
):
    pytest.importorskip("ray", reason="pip install 'flwr[simulation]'")
    config = config.replace(clients=10, rounds=3, method="single-loop")
    write_sites(config, tmp_path / "sites")
    (tmp_path / "c.toml").write_text(config.to_toml())
    program = [sys.executable, "-m", "fedsift.flower.simulated"]
    paths = [str(tmp_path / name) for name in ("c.toml", "sites", "there")]
    done = subprocess.run(
        [*program, *paths], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    here = in_process(config, tmp_path / "here")
    there = json.loads((tmp_path / "there" / "summary.json").read_text())
    same = ("test_accuracy", "validation_loss", "bytes_up", "bytes_down", "exchanges")
    assert {k: there[k] for k in same} == {k: here[k] for k in same}
    mine, theirs = (load_file(tmp_path / f / "model.safetensors") for f in ("here", "there"))
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for m in range(10):
        name = f"clients/{m}/weights.parquet"
        kept = pd.read_parquet(tmp_path / "sites" / f"site-{m}" / "there" / name)
        assert np.array_equal(kept["weight"], pd.read_parquet(tmp_path / "here" / name)["weight"])
