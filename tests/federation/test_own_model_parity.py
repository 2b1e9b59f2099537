"""A user's own model at sites and in one process: the same choices, the same bits."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from fedsift.client.policy import OPEN
from fedsift.data import ClientData, FederatedData
from fedsift.data.samples import Arrays, Samples
from fedsift.experiment.loop import rounds
from fedsift.experiment.server_run import OwnServer, execute_remotely
from fedsift.experiment.setup import from_data
from fedsift.federation import LocalFederation, RemoteFederation
from fedsift.federation.remote import RawReply, Timeouts
from fedsift.randomness import generator
from fedsift.site.host import Host
from fedsift.site.result import Origin
from fedsift.site.run import SiteData
from tiny import tiny_config
from zoo import CLASSES, ZOO


class Sites:
    """Transport to hosts in this process."""

    def __init__(self, hosts):
        self.hosts, self.sent = hosts, {}

    def nodes(self):
        return dict.fromkeys(range(len(self.hosts)), "")

    def push(self, messages, ttl):
        ids = [str(len(self.sent) + i) for i in range(len(messages))]
        self.sent |= dict(zip(ids, messages, strict=True))
        return ids

    def pull(self, ids):
        return [RawReply(i, self.hosts[self.sent[i][0]].handle(self.sent[i][1])) for i in ids]


def samples(inputs, labels):
    return Samples("a test", Arrays(inputs), tuple(str(n) for n in labels.tolist()))


@pytest.mark.parametrize("method", ["single-loop", "non-iter"])
@pytest.mark.parametrize("name", ["lenet with view", "vit", "lstm", "embedding bag"])
def test_remote_is_local(tmp_path, monkeypatch, name, method):
    kind, random = ZOO[name], generator(3, "parity")
    pairs = [(kind.inputs(n, random), torch.arange(n) % CLASSES) for n in (7, 9, 6)]
    usual = {"clients": 2, "rounds": 2, "head_start": 2, "seed": 1}
    config = tiny_config(method, usual).resolve()
    members = [ClientData(x, y, None, torch.arange(len(y))) for x, y in pairs[:2]]
    data = FederatedData("own data", members, pairs[2], pairs[2], ("0", "1", "2"))
    setup = from_data(config, data, kind.model())
    alone = LocalFederation(setup.federation.clients.values(), pool=False)
    here = list(rounds(replace(setup, federation=alone), setup.initial_state(), 0))

    monkeypatch.setitem(sys.modules, "own_model", SimpleNamespace(make=kind.model))
    sites = [samples(*pair) for pair in pairs]
    origin = Origin(model="own_model:make")
    hosts = [Host(SiteData(m, sites[m], tmp_path / str(m), origin, policy=OPEN)) for m in range(2)]
    federation = RemoteFederation(Sites(hosts), "run", Timeouts(reply=0.1, connect=0.1, poll=0.05))
    own = OwnServer(sites[2], None, {"model": "own_model:make"})
    there = execute_remotely(config, tmp_path / "out", federation, own=own)
    assert torch.equal(there.state.y, here[-1].state.y)
    assert hosts[0]._runs["run"].model.modes == kind.modes
