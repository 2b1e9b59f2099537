"""What breaks in the middle of a run, and what the run does then."""

import os
import signal
from contextlib import ExitStack

import pytest

from deployed_run import TIMEOUT, Run, descendant
from fedsift.flower.local_deployment import LocalDeployment

pytestmark = [pytest.mark.deep, pytest.mark.timeout(2 * TIMEOUT)]


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


@pytest.mark.fault(
    "a site's process, `fedsift join` or the SuperLink killed (-9) in a run over Flower",
    "no round lost, the bits of one process",
)
def test_a_killed_site_process_comes_back_and_the_run_is_the_same(start, in_process, tmp_path):
    config, run = start()
    run.wait_for_round(2)
    os.kill(int((run.folder / "site-1" / "site.lock").read_text()), signal.SIGKILL)
    code, output = run.finish()
    assert code == 0, output
    assert run.events() == []
    in_process(config, tmp_path / "here")
    run.is_that_of(tmp_path / "here")


@pytest.mark.fault(
    "a site's process, `fedsift join` or the SuperLink killed (-9) in a run over Flower",
    "no round lost, the bits of one process",
)
def test_a_killed_join_is_started_again_and_the_run_is_the_same(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    run.federation.processes["site-1"].kill()  # its site ends with it
    run.federation.processes["site-1"].wait()
    run.federation.join(1)
    code, output = run.finish()
    assert code == 0, output
    assert [r["round"] for r in run.records()] == list(range(1, 7))
    assert run.events() == []  # it replaced its own session and got the message again
    in_process(config, tmp_path / "here")
    run.is_that_of(tmp_path / "here")


@pytest.mark.fault(
    "the run's own process killed (-9) over Flower, then `submit --resume`",
    "no round lost, the bits of one process",
)
def test_after_a_killed_run_the_run_is_resumed_and_the_same(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    os.kill(descendant(run.federation.processes["server"].pid, "flwr-serverapp"), signal.SIGKILL)
    run.kill()
    run.submit("--resume")
    code, output = run.finish()
    assert code == 0, output
    in_process(config, tmp_path / "here")
    run.is_that_of(tmp_path / "here")


@pytest.mark.fault(
    "a site's process, `fedsift join` or the SuperLink killed (-9) in a run over Flower",
    "no round lost, the bits of one process",
)
def test_a_killed_superlink_is_started_again_and_the_run_goes_on(start, in_process, tmp_path):
    config, run = start(rounds=6)
    run.wait_for_round(2)
    os.kill(descendant(run.federation.processes["server"].pid, "flower-superlink"), signal.SIGKILL)
    code, output = run.finish()
    assert code == 0, output
    assert len(run.records()) == 6
    assert run.events() == []
    in_process(config, tmp_path / "here")
    run.is_that_of(tmp_path / "here")


@pytest.mark.fault(
    "a site that stops for longer than the timeout",
    "the round goes on without it, and names it",
)
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
