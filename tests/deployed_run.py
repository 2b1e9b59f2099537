"""A run on a local deployment that is watched while it goes on, and its processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load_file

from fedsift.site.journal import Journal

TIMEOUT = 600  # seconds for a run, or for a round of it


class Run:
    """A run on a local deployment; ``out`` is the name of its folder."""

    def __init__(self, federation, config, *more, out="out"):
        self.federation, self.folder, self.config = federation, federation.folder, config
        self.out = self.folder / out
        path = self.folder / f"{out}.toml"
        path.write_text(config.to_toml())
        self._command = ["submit", str(path), "--server", federation.address]
        self._command += ["--ca", str(federation.keys / "ca.crt"), "--out", str(self.out)]
        self.submit(*more)

    def submit(self, *more):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fedsift", *self._command, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @property
    def name(self):
        return (self.out / "run.txt").read_text()

    def records(self):
        if not (self.out / "run.txt").exists():
            return []
        path = self.folder / "server" / "runs" / self.name / "rounds.jsonl"
        return [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []

    def wait_for_round(self, k):
        end = time.monotonic() + TIMEOUT
        while len(self.records()) < k:
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < end
            time.sleep(0.2)

    def finish(self):
        output, _ = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, output

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def journal(self, m):
        return Journal(self.folder / f"site-{m}" / self.name / "journal")

    def events(self):
        return [event for record in self.records() for event in record["events"]]

    def is_that_of(self, here):
        """Check model and weights against a run folder of this process, bit for bit."""
        mine, theirs = (load_file(f / "model.safetensors") for f in (here, self.out))
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)
        for m in range(self.config.clients):
            name = f"clients/{m}/weights.parquet"
            kept = pd.read_parquet(self.folder / f"site-{m}" / self.name / name)
            assert np.array_equal(kept["weight"], pd.read_parquet(here / name)["weight"])


def descendant(pid, program):
    """Return the process of a program below another; the last of several of one name."""
    out = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )  # its code is 1 where there is none
    found = None
    for line in out.stdout.splitlines():
        child, args = line.split(None, 1)
        deeper = descendant(int(child), program)
        found = deeper or (int(child) if program in args else found)
    return found
