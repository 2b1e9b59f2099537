"""A problem of one's own over Flower, with TLS: the solution of one process, to the bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import fedsift as fs
from fedsift import sealed
from fedsift.client.policy import FILE, OPEN
from fedsift.federation import LocalFederation
from fedsift.flower.local_deployment import LocalDeployment
from fedsift.problem.own_problem import load_problem

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]
EXAMPLES = Path(__file__).parents[2] / "examples"
KEYS = {"rounds": 4, "inner_lr": 0.2, "outer_lr": 0.5}


def test_flower_and_one_process_agree_to_the_bit(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(EXAMPLES)  # where the commands are started
    torch.set_num_threads(1)
    config = tmp_path / "solve.toml"
    config.write_text("clients = 2\n" + "".join(f"{n} = {v}\n" for n, v in KEYS.items()))
    for m in (0, 1):  # batches are drawn as in one process
        (tmp_path / "fed" / f"site-{m}").mkdir(parents=True)
        (tmp_path / "fed" / f"site-{m}" / FILE).write_text(OPEN.to_toml())
    own = {
        "server": ("--problem", "own_problem:server"),
        "site": ("--problem", "own_problem:site"),
    }
    with LocalDeployment(tmp_path / "fed", {"a": "1", "b": "2"}, options=own) as federation:
        done = federation.submit(str(config), tmp_path / "run", "--solve")
        assert done.returncode == 0, done.stdout + done.stderr
        wrong = federation.submit(str(config), tmp_path / "other")
        assert wrong.returncode == 2
    found, _ = sealed.load(tmp_path / "run" / "model.safetensors", "a solution")
    server, sites = load_problem("own_problem:server", ""), []
    for m in (0, 1):
        sites.append(load_problem("own_problem:site", str(m + 1)).batch)
    made = LocalFederation.of(server.problem, sites)
    made.pool = False
    given = {"y": server.y, "x": server.x, "validation": server.validation, "progress": False}
    here = fs.solve(server.problem, made, **given, **KEYS)
    assert torch.equal(found["x"], here.x)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["stopped"] == "all 4 rounds were done"
