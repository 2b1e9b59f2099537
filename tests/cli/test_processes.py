from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fedsift.cli.main import main

SMALL = [
    "--dataset",
    "digits",
    "--method",
    "single-loop",
    "--set",
    "rounds=2",
    "--set",
    "clients=4",
]
SMALL += ["--set", "samples_per_client=20", "--set", "test_size=50", "--set", "seed=20"]
SMALL += ["--set", "pool=false"]
TIMES = ("seconds", "versions")


def summary(folder):
    found = json.loads((folder / "summary.json").read_text())
    return {key: value for key, value in found.items() if key not in TIMES}


def test_two_processes_write_the_run_of_one(tmp_path):
    both, one = tmp_path / "both", tmp_path / "one"
    command = [sys.executable, "-m", "fedsift", "run", *SMALL, "--out", str(both)]
    done = subprocess.run(
        [*command, "--processes", "2"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "run folder" in done.stdout

    assert main(["run", *SMALL, "--out", str(one)]) == 0
    assert summary(both) == summary(one)
    for name in ("model.safetensors", "clients/3/weights.parquet"):
        assert (both / name).read_bytes() == (one / name).read_bytes()


@pytest.mark.parametrize("count", ["0", "-1"])
def test_a_run_without_processes_is_refused(tmp_path, capsys, count):
    assert main(["run", *SMALL, "--out", str(tmp_path / "run"), f"--processes={count}"]) == 2
    assert "--processes" in capsys.readouterr().err
