"""A problem that sites' owners name: at sites and in process the same, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import fedsift as fs
from fedsift import sealed
from fedsift.client.policy import FILE, OPEN, Policy
from fedsift.errors import ConfigError, InputError, TooFewClients
from fedsift.experiment.solve_remote import Submitted, solve_remotely
from fedsift.federation import LocalFederation, RemoteFederation
from fedsift.federation.encoding import ERROR
from fedsift.federation.remote import RawReply, Timeouts
from fedsift.problem.own_problem import load_problem
from fedsift.randomness import generator
from fedsift.site.calling import SOCKET, SiteCaller
from fedsift.site.host import Host
from fedsift.site.result import Origin
from fedsift.site.run import SiteData

EXAMPLES = Path(__file__).parents[2] / "examples"
GIVEN = {"clients": 3, "rounds": 5, "inner_lr": 0.2, "outer_lr": 0.5, "batch_size": 4}


def samples(name: str, count: int) -> fs.TensorBatch:
    return fs.TensorBatch((torch.randn(count, 3, generator=generator(0, name)),))


def inner(x: dict[str, Tensor], y: Tensor, batch: fs.TensorBatch) -> Tensor:
    near = (y - batch.tensors[0]).square().mean()
    return near + (x["penalty"].exp() * y.square()).sum() + (y - x["centre"]).square().sum()


def outer(x: dict[str, Tensor], y: Tensor, batch: fs.TensorBatch) -> Tensor:
    return (y - batch.tensors[0]).square().mean() + 0.1 * x["centre"].square().sum()


def own(m: int | None, *, at_sites: bool, personal: bool = False) -> fs.OwnProblem:
    """Return what site m has, or the server (None)."""
    x = {"penalty": torch.zeros(()), "centre": torch.ones(3)}
    problem = fs.LossPair(inner, outer, x, y_is_private=personal)
    batch = None if m is None else samples(f"site {m}", 6 + m)
    held = samples(f"held {m}", 5) if at_sites == (m is not None) else None
    return fs.OwnProblem(problem, torch.zeros(3), x, batch, held)


class Sites:
    """Transport to sites: hosts in this process, or sockets."""

    def __init__(self, handles: list[Any]) -> None:
        self.handles, self.sent = handles, {}

    def nodes(self) -> dict[int, str]:
        return dict.fromkeys(range(len(self.handles)), "")

    def push(self, messages: list[Any], ttl: float) -> list[str]:
        ids = [str(len(self.sent) + i) for i in range(len(messages))]
        self.sent |= dict(zip(ids, messages, strict=True))
        return ids

    def pull(self, ids: list[str]) -> list[RawReply]:
        found = [(i, *self.sent[i]) for i in ids]
        return [RawReply(i, self.handles[node](parts)) for i, node, parts in found]


def hosts(folder: Path, problems: list[fs.OwnProblem], policy: Policy = OPEN) -> Sites:
    data = [
        SiteData(m, None, folder / str(m), Origin(str(m)), policy=policy, own=problem)
        for m, problem in enumerate(problems)
    ]
    return Sites([Host(d).handle for d in data])


def remote(sites: Sites, out: Path, server: fs.OwnProblem, *, resume: bool = False, **keys: Any):
    federation = RemoteFederation(sites, "run", Timeouts(reply=20, connect=1, poll=0.01))
    submitted = Submitted.of({**GIVEN, **keys})
    return solve_remotely(submitted, server, out, federation, resume=resume)


def in_process(problems: list[fs.OwnProblem], server: fs.OwnProblem, **keys: Any) -> fs.Solution:
    start = server.start()  # of vectors
    made = LocalFederation.of(
        start.problem,
        [p.batch for p in problems],
        validations=None if server.validation is not None else [p.validation for p in problems],
    )
    made.pool = False
    held = fs.AtClients() if server.validation is None else server.validation
    given = {n: v for n, v in {**GIVEN, **keys}.items() if n != "clients"}
    return fs.solve(
        start.problem, made, y=start.y, x=start.x, validation=held, progress=False, **given
    )


def flat(solution: fs.Solution) -> Tensor:
    x = solution.x
    return torch.cat([x["penalty"].reshape(1), x["centre"]]) if isinstance(x, dict) else x


@pytest.mark.parametrize(
    ("at_sites", "personal", "keys"),
    [
        (False, False, {}),
        (True, False, {"inner_optimizer": "adam", "outer_optimizer": "momentum"}),
        (True, False, {"method": "iter-topk", "correct_drift": True}),
        (False, False, {"method": "first-order"}),
        (True, True, {"method": "cg"}),
    ],
    ids=["server", "sites", "algorithm 1 with F at sites", "first-order", "personal"],
)
def test_sites_and_one_process_agree_to_the_bit(tmp_path, at_sites, personal, keys):
    problems = [own(m, at_sites=at_sites, personal=personal) for m in range(3)]
    server = own(None, at_sites=at_sites, personal=personal)
    there = remote(hosts(tmp_path / "sites", problems), tmp_path / "run", server, **keys)
    here = in_process(problems, server, **keys)
    assert torch.equal(flat(there), flat(here))
    kept, _ = sealed.load(tmp_path / "sites" / "1" / "run" / "solution.safetensors", "a solution")
    assert torch.equal(kept["x"], flat(here))
    assert ("site_own_y" in kept) is personal


def test_a_resumed_run_is_that_of_a_whole_one(tmp_path):
    problems, server = [own(m, at_sites=True) for m in range(3)], own(None, at_sites=True)
    remote(hosts(tmp_path / "sites", problems), tmp_path / "run", server, rounds=3)
    again = hosts(tmp_path / "sites", problems)  # the processes have begun anew
    there = remote(again, tmp_path / "run", server, resume=True)
    assert torch.equal(flat(there), flat(in_process(problems, server)))


def test_what_does_not_fit_is_refused_in_a_sentence(tmp_path):
    problems, server = [own(m, at_sites=False) for m in range(3)], own(None, at_sites=False)
    other = replace(server, y=torch.zeros(4))
    with pytest.raises(TooFewClients, match="problem has y = 3 and the server's 4"):
        remote(hosts(tmp_path / "a", problems), tmp_path / "1", other)
    with pytest.raises(TooFewClients, match="F to the sites and this one's problem has no"):
        remote(hosts(tmp_path / "b", problems), tmp_path / "2", own(None, at_sites=True))
    few = hosts(tmp_path / "c", problems, Policy(methods=("cg",)))
    with pytest.raises(TooFewClients, match="does not allow the method 'single-loop'"):
        remote(few, tmp_path / "3", server)
    strict = hosts(tmp_path / "d", problems, Policy())  # batches of 4 are below its 8
    with pytest.raises(TooFewClients, match="would rest on 4 samples"):
        remote(strict, tmp_path / "4", server)
    asked = Submitted.of({"clients": 3})
    with pytest.raises(ConfigError, match="inner_lr is missing"):
        solve_remotely(asked, server, tmp_path / "5", None)
    with pytest.raises(ConfigError, match="clients is missing"):
        Submitted.of({})
    with pytest.raises(ConfigError, match="no setting 'inner_ls'"):
        Submitted.of({"clients": 3, "inner_ls": 1.0})
    with pytest.raises(InputError, match=r"returned a .*; return a fedsift.OwnProblem"):
        load_problem("builtins:str", "text")


def test_a_site_that_trains_on_labels_does_not_solve(case):
    reply = Host(case.site_data).handle(case.hello(problem="{}"))
    assert b"join with --problem" in reply[ERROR]


def test_site_processes_on_sockets_agree_with_one_process(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    problems = [load_problem("own_problem:site", str(m)) for m in (1, 2)]
    server = load_problem("own_problem:server", "")
    callers, started = [], []
    try:
        for m in (0, 1):
            folder = tmp_path / str(m)
            folder.mkdir()
            (folder / FILE).write_text(OPEN.to_toml())
            command = [sys.executable, "-m", "fedsift", "site", "--folder", str(folder)]
            command += ["--client", str(m), "--data", str(m + 1), "--problem", "own_problem:site"]
            started.append(subprocess.Popen(command, cwd=EXAMPLES))
            callers.append(SiteCaller(folder))
        wait_for([tmp_path / str(m) / SOCKET for m in (0, 1)], started)
        there = remote(Sites([c.ask for c in callers]), tmp_path / "run", server, clients=2)
    finally:
        for process in started:
            process.terminate()
            process.wait(30)
    assert torch.equal(there.x, in_process(problems, server).x)


def wait_for(sockets: list[Path], processes: list[subprocess.Popen[bytes]]) -> None:
    for socket, process in zip(sockets, processes, strict=True):
        while not socket.exists():
            assert process.poll() is None
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
