"""A process killed (-9) at a random moment of a run over Flower: the run ends with the same bits.

A trial draws what is killed and when: at a time between the start of `submit` and the end of an
undisturbed run. Then a person does what docs/guide/deploy.md says: nothing, start it again, or
`submit --resume`, and the latter too where `submit` ends and says so. How long the run stood still
is recorded (`--record`), not asserted.
"""

import os
import random
import signal
import time
from itertools import cycle, islice

import pytest

from deployed_run import TIMEOUT, Run, descendant
from fedsift.flower.deploy import listens
from fedsift.flower.local_deployment import LocalDeployment
from fedsift.flower.programs import Address

TRIALS = 20
SEED = 22
RESTART = 2.0  # seconds until systemd starts a command of ours again (examples/deployment)
PROGRAMS = {"run": "flwr-serverapp", "superlink": "flower-superlink", "superexec": "superexec"}
VICTIMS = ("site", "join", "run", "superlink", "submit", "server", "superexec")
pytestmark = [pytest.mark.deep, pytest.mark.timeout(4 * TIMEOUT)]


def drawn():
    """Return what every trial kills, and at which share of an undisturbed run."""
    draw = random.Random(SEED)
    victims = list(islice(cycle(VICTIMS), TRIALS))
    draw.shuffle(victims)
    return [(victim, round(draw.random(), 3)) for victim in victims]


@pytest.fixture(scope="module")
def settings(config):
    return config.replace(method="single-loop", rounds=6)


@pytest.fixture(scope="module")
def here(settings, in_process, tmp_path_factory):
    """The same run in this process."""
    folder = tmp_path_factory.mktemp("here") / "run"
    in_process(settings, folder)
    return folder


@pytest.fixture(scope="module")
def federation(settings, write_sites, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kills")
    with LocalDeployment(folder, write_sites(settings, folder / "data")) as deployment:
        yield deployment


@pytest.fixture(scope="module")
def undisturbed(settings, federation, here):
    """Seconds of a run without a kill, which must have the same bits too."""
    start, run = time.monotonic(), Run(federation, settings, out="undisturbed")
    code, output = run.finish()
    assert code == 0, output
    run.is_that_of(here)
    return time.monotonic() - start


def process_of(victim, run):
    """Return the number of the process to be killed; None while there is none."""
    deployment = run.federation
    if victim == "site":
        text = (run.folder / "site-1" / "site.lock").read_text()
        return int(text) if text else None
    if victim in PROGRAMS:
        return descendant(deployment.processes["server"].pid, PROGRAMS[victim])
    return {"join": deployment.processes["site-1"], "submit": run.process}.get(
        victim, deployment.processes["server"]
    ).pid


def kill(victim, run):
    """Kill it as soon as it is there; return False if the run has ended before."""
    while (pid := process_of(victim, run)) is None:
        if run.process.poll() is not None:
            return False
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return True


def do_what_the_guide_says(victim, run):
    deployment = run.federation
    if victim == "join":
        deployment.processes["site-1"].wait()
        time.sleep(RESTART)
        deployment.join(1)
    if victim == "server":
        deployment.processes["server"].wait()
        time.sleep(RESTART)
        deployment.start_server()
    if victim in {"run", "submit", "server"}:
        run.kill()  # Ctrl-C, in the other two cases
        # Killed before it had asked for anything, or before the server had its first round.
        run.submit(*(["--resume"] if (run.out / "run.txt").exists() else []))


def follow(run, rounds):
    """Follow the run to its end; return its exit code, output, and when it went on."""
    while True:
        while run.process.poll() is None and len(run.records()) <= rounds:
            time.sleep(0.1)
        went_on = time.monotonic()
        code, output = run.finish()
        if code != 1 or "--resume continues it" not in output:
            return code, output, went_on
        run.submit("--resume")


@pytest.mark.fault(
    "a process of a run over Flower killed (-9) at a random moment",
    "the run ends with the bits of one process, no round and no reply lost",
)
@pytest.mark.parametrize(("victim", "moment"), drawn())
def test_a_run_ends_the_same(
    federation, settings, undisturbed, here, record_property, request, victim, moment
):
    name = f"out-{request.node.callspec.indices['victim']}"
    start, run = time.monotonic(), Run(federation, settings, out=name)
    try:
        time.sleep(max(0.0, moment * undisturbed - (time.monotonic() - start)))
        rounds = len(run.records())
        there = kill(victim, run)
        killed = time.monotonic()
        record_property("killed", victim if there else "nothing: the run had ended")
        record_property("after_round", rounds)
        if there:
            do_what_the_guide_says(victim, run)
        code, output, went_on = follow(run, rounds)
        record_property("stood_still_s", round(went_on - killed, 1))
    finally:
        run.kill()
    assert code == 0, output
    assert run.events() == []
    run.is_that_of(here)
    address = Address("127.0.0.1", federation.port, federation.keys / "ca.crt")
    assert listens(address)  # the next trial finds a server
