from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading

import pytest
import torch

from fedsift.errors import RunError
from fedsift.experiment import checkpoint
from fedsift.experiment.checkpoint import Checkpoint
from fedsift.experiment.config import Config
from fedsift.experiment.loop import rounds
from fedsift.experiment.setup import from_config
from fedsift.federation import LocalFederation, ShardedFederation, serve
from fedsift.federation.sharded import shares

RANKS = 3


class Queues:
    """The link between the ranks of a test: threads of which one runs at a time.

    Forward mode is one for a whole process, so ranks that are threads must not meet in it.
    """

    def __init__(self, rank: int, boxes: dict[tuple[int, int], queue.Queue], turn) -> None:
        self.rank, self.size, self.boxes, self.turn = rank, RANKS, boxes, turn
        self.sent = 0

    def send(self, to, parts):
        self.sent += 1
        self.boxes[self.rank, to].put(dict(parts))

    def receive(self, source):
        self.turn.release()
        try:
            return self.boxes[source, self.rank].get(timeout=60)
        finally:
            self.turn.acquire()


class Run:
    """A run over three ranks."""

    def __init__(self, config: Config) -> None:
        boxes = {(a, b): queue.Queue() for a in range(RANKS) for b in range(RANKS)}
        turn = threading.Lock()
        turn.acquire()
        self.link, self.threads, self.workers = Queues(0, boxes, turn), [], []
        for rank in range(1, RANKS):
            federation = from_config(config).federation
            self.workers.append(federation)
            thread = threading.Thread(
                target=self._serve, args=(federation, Queues(rank, boxes, turn)), daemon=True
            )
            thread.start()
            self.threads.append(thread)
        self.setup = from_config(
            config, federate=lambda *a, **k: ShardedFederation(*a, link=self.link, **k)
        )
        self.federation = self.setup.federation

    @staticmethod
    def _serve(federation, link):
        with link.turn:
            try:
                serve(federation, link)
            except ZeroDivisionError:
                return  # of a test; rank 0 was told

    def close(self):
        self.federation.close()
        self.link.turn.release()
        for thread in self.threads:
            thread.join(timeout=60)
            assert not thread.is_alive()


def config(method: str = "single-loop", **more) -> Config:
    small = {"rounds": 3, "clients": 5, "samples_per_client": 20, "validation_size": 20}
    return Config.of(method=method, test_size=50, seed=20, **{**small, **more}).resolve()


def last(setup):
    state, records = setup.initial_state(), []
    for done in rounds(setup, state, 0):
        state = done.state
        records.append({k: v for k, v in done.record.items() if k != "seconds"})
    return state, records


@pytest.mark.parametrize(
    ("method", "more"),
    [
        ("single-loop", {"pool": False}),
        ("single-loop", {"pool": False, "cohort": 3}),
        ("iter-sketch", {"pool": False, "update_rate": 4.0}),
        ("fedavg", {"pool": False}),
    ],
)
def test_several_ranks_give_the_numbers_of_one_process_bit_for_bit(method, more):
    chosen = config(method, **more)
    run = Run(chosen)
    state, records = last(run.setup)
    weights = [run.setup.weights(m) for m in range(5)] if run.setup.learns_weights else []
    run.close()

    alone = from_config(chosen)
    expected, lines = last(alone)
    assert torch.equal(state.y, expected.y)
    assert records == lines
    for m, found in enumerate(weights):
        assert torch.equal(found, alone.weights(m))


def test_pooling_within_a_rank_changes_rounding_only():
    run = Run(config())
    state, _ = last(run.setup)
    run.close()
    expected, _ = last(from_config(config()))
    # Scores by differences of two float32 passes carry their rounding, 10⁵ times as large.
    torch.testing.assert_close(state.y, expected.y, rtol=1e-2, atol=1e-3)


def test_states_stay_with_their_rank():
    run = Run(config())
    last(run.setup)
    kept = [set(run.federation.states), *(set(worker.states) for worker in run.workers)]
    run.close()
    assert sorted(m for part in kept for m in part) == list(range(5))
    assert all(kept)


def test_a_checkpoint_has_all_clients_and_goes_on_with_any_number_of_ranks(tmp_path):
    chosen = config(pool=False)
    run = Run(chosen)
    steps = rounds(run.setup, run.setup.initial_state(), 0)
    first = next(steps)
    marked = run.federation.snapshot()
    next(steps)  # a mark is of the time when it was made
    checkpoint.save(tmp_path, chosen, Checkpoint(1, first.state, marked))
    run.close()

    alone = from_config(chosen)
    whole, _ = last(alone)
    point = checkpoint.load_latest(tmp_path, chosen)
    assert sorted(point.snapshot.clients) == list(range(5))
    for again in (from_config(chosen), (other := Run(chosen)).setup):
        again.federation.restore(point.snapshot)
        state = point.state
        for done in rounds(again, state, 1):
            state = done.state
        assert torch.equal(state.y, whole.y)
    other.close()


def test_between_checkpoints_no_state_travels():
    run = Run(config())
    run.federation.snapshot()
    before = run.link.sent
    run.federation.snapshot()
    assert run.link.sent - before == RANKS - 1  # a mark each
    run.close()


def test_an_error_of_a_rank_ends_the_run_with_its_sentence():
    run = Run(config())

    def broken(request, clients):
        raise ZeroDivisionError("no samples")

    run.workers[1].answers = broken
    with pytest.raises(RunError, match="process 2 of 3 failed: ZeroDivisionError: no samples"):
        last(run.setup)
    run.close()


def test_shares_are_even():
    assert shares({0: 5, 1: 5, 2: 5, 3: 5}, 2) == {0: 0, 1: 1, 2: 0, 3: 1}
    assert shares({0: 1, 1: 100, 2: 1, 3: 98}, 2) == {1: 0, 3: 1, 0: 1, 2: 1}


def test_one_rank_is_the_plain_federation():
    federation = from_config(config()).federation
    assert type(federation) is LocalFederation


PEER = """
import os, sys
from fedsift.federation.link import Link
rank = int(sys.argv[1])
link = Link.join(rank, 2, start=60, timeout=60)
if rank == 0:
    link.send(1, {"a": b"", "b": bytes(range(256)) * 1000})
    print(link.receive(1))
    try:
        link.receive(1)
    except Exception as error:
        print(type(error).__name__, error)
else:
    parts = link.receive(0)
    link.send(0, {"same": str(parts == {"a": b"", "b": bytes(range(256)) * 1000}).encode()})
    os._exit(1)  # as if it had been killed
"""


def test_a_process_that_dies_is_noticed_at_once():
    """Over the real link: bytes arrive as they were sent, and a broken connection is a sentence."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        free_port = found.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port), "OMP_NUM_THREADS": "1"}
    where |= {"GLOO_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen(
            [sys.executable, "-c", PEER, str(rank)],
            env={**where, "PATH": ""},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(2)
    ]
    out, _ = [process.communicate(timeout=200)[0] for process in both]
    assert "{'same': b'True'}" in out
    assert "RunError process 1 of 2 ended or is silent" in out
    assert "--resume" in out
