"""A small site, the questions of a real single-loop run, and the answers to them in process."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import pytest
import torch

from fedsift.algorithms import Server, ServerState
from fedsift.algorithms.registry import METHODS
from fedsift.client import Client, ClientState
from fedsift.compress import wire
from fedsift.experiment.config import Config
from fedsift.federation import LocalFederation
from fedsift.federation.encoding import ABOUT, ENVELOPE, About, encode_request
from fedsift.federation.remote import CLOSE, HELLO
from fedsift.keys import BuildContext
from fedsift.messages import Reply, Request
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.randomness import generator
from fedsift.site.host import Holdings
from fedsift.site.sources import load_model

CONFIG = Config.of(method="single-loop", compressor="topk", rate=5.0, batch_size=4, seed=5)
BOOTSTRAP = CONFIG.value("bootstrap")
ROUNDS = 6


class Recorder(LocalFederation):
    """Keeps what was asked and answered."""

    def ask(self, request, clients):
        replies = super().ask(request, clients)
        self.kept = [*getattr(self, "kept", []), (request, replies[0], self.states[0])]
        return replies


@dataclass
class Case:
    """What the site has; round k's request, and the reply and state of the client in process."""

    holdings: Holdings
    rounds: list[tuple[Request, Reply, ClientState]]
    attempts: itertools.count = field(default_factory=itertools.count)

    def hello(self, next_round=0, **changes):
        settings = {"seed": 5, "l2": CONFIG.l2, "initial_weight": 1.0, "parameters": 15}
        settings["bootstrap"] = BOOTSTRAP
        settings |= {"classes": 3, "model": "linear", "attempt": str(next(self.attempts))}
        about = About("run", next_round, 0, HELLO)
        envelope = wire.encode({**settings, **changes, "next_round": next_round})
        return {ENVELOPE: envelope, ABOUT: about.encode()}

    def step(self, k, **changes):
        """Return the question of round k, for a site that has the v of the round before."""
        about = replace(About("run", k, 0, "step"), **changes)
        return {**encode_request(self.rounds[k][0], {"v": k}), ABOUT: about.encode()}

    def close(self):
        """Return the end of the run, with the model of its last round."""
        told = {"class_names": '["a", "b", "c"]', "calibration": "{}", "share_summary": True}
        y = self.rounds[-1][0].array("y")
        about = About("run", ROUNDS, 0, CLOSE)
        return {ENVELOPE: wire.encode(told), "y": wire.encode(y), ABOUT: about.encode()}


@pytest.fixture
def case(tmp_path):
    inputs = torch.randn(12, 4, generator=generator(0, "inputs"))
    labels = torch.randint(3, (12,), generator=generator(0, "labels"))
    module = load_model("auto", (4,))
    problem = Reweighting(FlatModel(module("linear", 3)), l2=CONFIG.l2, bootstrap=BOOTSTRAP)
    batch = LabelledBatch.of(inputs, labels)
    federation = Recorder([Client(0, problem, batch, 5)], pool=False)
    algorithm = METHODS[CONFIG.method].build(CONFIG.settings, BuildContext(15, CONFIG.seed))
    state = ServerState(problem.model.initial())
    for k in range(ROUNDS):
        _, state = algorithm.round(federation, Server(problem, batch, seed=5), state, k)
    return Case(Holdings(0, module, inputs, labels, tmp_path / "site"), federation.kept)
