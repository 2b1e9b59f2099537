"""A checkpoint gives back every number, and only to the configuration that wrote it."""

from dataclasses import replace

import pytest
import torch

from fedsift.algorithms import ServerState
from fedsift.errors import InputError
from fedsift.experiment.checkpoint import Checkpoint, fingerprint, load_latest, save
from fedsift.experiment.config import Config, method_keys
from fedsift.federation.private import PrivacyKeys
from fedsift.hypergradient import SolverState
from fedsift.keys import keys_of
from fedsift.messages import Snapshot, Traffic
from fedsift.randomness import generator


def normal(name: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator(0, name))


def full(next_round: int = 4) -> Checkpoint:
    tensors = {"v": normal("v", 7), "memory": normal("memory", 2, 3)}
    solver = SolverState(**tensors, fresh=False, step_scale=0.25, resets=2)
    own = {"matrix": normal("matrix", 2, 2), "start": normal("start", 7)}
    sent = {"y": normal("sent", 7), "y.version": torch.tensor(5)}
    state = ServerState(normal("y", 7), normal("x", 3), solver, own, sent)
    clients = {m: {"x": normal(f"x{m}", 5), "error": normal(f"e{m}", 7)} for m in (0, 11)}
    snapshot = Snapshot(clients, {11: {"v": 5}}, Traffic(10**12, 2, 3))
    return Checkpoint(next_round, state, snapshot, 1.5)


def bare(next_round: int = 1) -> Checkpoint:
    state = ServerState(normal("y", 7).double())
    return Checkpoint(next_round, state, Snapshot({3: {"x": torch.ones(2)}}))


def plain(point: Checkpoint) -> dict:
    """All of a checkpoint as lists and numbers."""

    def show(value):
        return (str(value.dtype), value.tolist()) if isinstance(value, torch.Tensor) else value

    return {
        "scalars": (point.next_round, point.seconds, point.snapshot.traffic),
        "versions": point.snapshot.versions,
        "solver": {name: show(value) for name, value in vars(point.state.solver).items()},
        "server": [show(t) for t in (point.state.y, point.state.x)],
        "own": {name: show(t) for name, t in point.state.own.items()},
        "sent": {name: show(t) for name, t in point.state.sent.items()},
        "clients": {
            m: {name: show(t) for name, t in arrays.items()}
            for m, arrays in point.snapshot.clients.items()
        },
    }


@pytest.mark.parametrize("point", [full(), bare()], ids=["full", "bare"])
def test_everything_comes_back(tmp_path, tiny, point):
    save(tmp_path, tiny(), point)
    assert plain(load_latest(tmp_path, tiny())) == plain(point)


def test_a_client_may_share_one_tensor(tmp_path, tiny):
    x = torch.ones(4)
    point = replace(bare(), snapshot=Snapshot({0: {"x": x, "average": x, "error": x[:2]}}))
    save(tmp_path, tiny(), point)
    assert plain(load_latest(tmp_path, tiny())) == plain(point)


def test_the_newest_of_two_is_read_and_older_ones_go(tmp_path, tiny):
    for k in (2, 4, 10, 100):
        save(tmp_path, tiny(), bare(k))
    assert len(list(tmp_path.iterdir())) == 2
    assert load_latest(tmp_path, tiny()).next_round == 100


def test_there_may_be_none(tmp_path, tiny):
    assert load_latest(tmp_path / "nothing", tiny()) is None


def test_file_that_a_crash_left_is_ignored(tmp_path, tiny):
    whole = save(tmp_path, tiny(), bare(2)).read_bytes()
    (tmp_path / ".round-000004.safetensors.x7k").write_bytes(whole[: len(whole) // 2])
    assert load_latest(tmp_path, tiny()).next_round == 2


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", None])
def test_other_file_is_refused(tmp_path, tiny, content):
    path = save(tmp_path, tiny(), full())
    path.write_bytes(path.read_bytes()[:-8] if content is None else content)
    with pytest.raises(InputError, match=r"round-000004\.safetensors is not a fedsift checkpoint"):
        load_latest(tmp_path, tiny())


def test_other_configuration_is_refused(tmp_path, tiny):
    save(tmp_path, tiny(rate=5), full())
    with pytest.raises(InputError, match="made with another configuration"):
        load_latest(tmp_path, tiny(rate=6))


@pytest.mark.parametrize(
    ("name", "value"), [("dp_clip", 2.0), ("dp_noise", 2.0), ("dp_delta", 1e-6)]
)
def test_fingerprint_has_the_keys_of_privacy(name, value):
    config = Config.of(method="fedavg", dp_clip=1.0, dp_noise=1.0)  # none of them goes alone
    assert fingerprint(config.replace(**{name: value})) != fingerprint(config)
    by_epsilon = Config.of(method="fedavg", dp_clip=1.0, dp_epsilon=3.0)
    assert fingerprint(by_epsilon) != fingerprint(by_epsilon.replace(dp_epsilon=4.0))


@pytest.mark.parametrize(
    "name", [name for name in method_keys("iter-sketch") if name not in keys_of(PrivacyKeys)]
)
def test_fingerprint_ignores_only_how_long_and_where(name):
    config = Config.of(method="iter-sketch")
    value = config.value(name)
    known = method_keys("iter-sketch")[name].allowed() or ("cpu" if name == "device" else "a:b",)
    tried = (*known, not value, 1, 2, 1.0, 0.5, 2.0, ("a=b",))
    kinds = (float,) if method_keys("iter-sketch")[name].kind == "Auto" else (type(value),)
    low = method_keys("iter-sketch")[name].low
    tried = [v for v in tried if type(v) in kinds and (low is None or v >= low)]
    other = next(v for v in tried if v != value)
    changed = fingerprint(config.replace(**{name: other})) != fingerprint(config)
    free = {"rounds", "device", "eval_every", "checkpoint_every", "diagnose"}
    assert changed == (name not in free)
