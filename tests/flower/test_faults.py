"""What breaks in the middle of a run, and what the run does then."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from fedsift.flower.local_deployment import LocalDeployment
from fedsift.site.journal import Journal

TIMEOUT = 600  # seconds for a run, or for a round of it
pytestmark = [pytest.mark.deep, pytest.mark.timeout(2 * TIMEOUT)]


class Run:
    """A run on a local deployment that is watched while it goes on."""

    def __init__(self, federation, config, *more):
        self.federation, self.folder = federation, federation.folder
        path = self.folder / "run.toml"
        path.write_text(config.to_toml())
        self._command = ["submit", str(path), "--server", federation.address]
        self._command += ["--ca", str(federation.keys / "ca.crt")]
        self._command += ["--out", str(self.folder / "out")]
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
        return (self.folder / "out" / "run.txt").read_text()

    def records(self):
        if not (self.folder / "out" / "run.txt").exists():
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


@pytest.fixture
def start(tmp_path, config, write_sites):
    """Start a federation and a run on it; everything is terminated after the test."""
    with ExitStack() as stack:

        def begin(*more, **changes):
            settings = config.replace(method="single-loop", **changes)
            data = write_sites(settings, tmp_path / "data")
            federation = stack.enter_context(LocalDeployment(tmp_path, data))
            run = Run(federation, settings, *more)
            stack.callback(run.kill)
            return settings, run

        yield begin


def _children(pid):
    out = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )  # its code is 1 where there is none
    return {line.split(None, 1)[1]: int(line.split(None, 1)[0]) for line in out.stdout.splitlines()}


def _descendant(pid, program):
    """Return the process of a program below another; the last of several of one name."""
    found = None
    for args, child in _children(pid).items():
        deeper = _descendant(child, program)
        found = deeper or (child if program in args else found)
    return found


def _same_as_in_process(run, config, in_process, tmp_path):
    in_process(config, tmp_path / "here")
    mine = load_file(tmp_path / "here" / "model.safetensors")
    theirs = load_file(run.folder / "out" / "model.safetensors")
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)
    for m in range(config.clients):
        name = f"clients/{m}/weights.parquet"
        kept = pd.read_parquet(run.folder / f"site-{m}" / run.name / name)
        assert np.array_equal(kept["weight"], pd.read_parquet(tmp_path / "here" / name)["weight"])


def test_a_killed_site_process_comes_back_and_the_run_is_the_same(start, in_process, tmp_path):
    config, run = start()
    run.wait_for_round(2)
    os.kill(int((run.folder / "site-1" / "site.lock").read_text()), signal.SIGKILL)
    code, output = run.finish()
    assert code == 0, output
    assert run.events() == []
    _same_as_in_process(run, config, in_process, tmp_path)


def test_a_killed_join_is_started_again_and_the_run_is_the_same(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    run.federation.processes["site-1"].kill()  # its site ends with it
    run.federation.processes["site-1"].wait()
    run.federation.join(1)
    code, output = run.finish()
    assert code == 0, output
    assert [r["round"] for r in run.records()] == list(range(1, 7))
    if not run.events():  # it replaced its own session in time and got the message again
        _same_as_in_process(run, config, in_process, tmp_path)
    assert all("client 1 did not reply" in event for event in run.events())


def test_after_a_killed_run_the_run_is_resumed_and_the_same(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    os.kill(_descendant(run.federation.processes["server"].pid, "flwr-serverapp"), signal.SIGKILL)
    run.kill()
    run.submit("--resume")
    code, output = run.finish()
    assert code == 0, output
    _same_as_in_process(run, config, in_process, tmp_path)


def test_a_killed_superlink_is_started_again_and_the_run_goes_on(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    os.kill(_descendant(run.federation.processes["server"].pid, "flower-superlink"), signal.SIGKILL)
    code, output = run.finish()
    assert code == 0, output
    assert len(run.records()) == 6
    assert run.events() == []
    _same_as_in_process(run, config, in_process, tmp_path)


def test_a_client_slower_than_the_timeout_is_left_out(start):
    _, run = start("--timeout", "60", rounds=3)
    run.wait_for_round(1)
    site = int((run.folder / "site-2" / "site.lock").read_text())
    os.kill(site, signal.SIGSTOP)
    run.wait_for_round(2)
    os.kill(site, signal.SIGCONT)
    code, output = run.finish()
    assert code == 0, output
    assert any("client 2 did not reply to 'step'" in event for event in run.records()[1]["events"])
