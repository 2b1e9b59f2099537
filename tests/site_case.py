"""A small site, the requests of a real single-loop run, and the replies to them in process."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace

import torch

from fedsift.algorithms import Server, ServerState
from fedsift.algorithms.registry import METHODS
from fedsift.client import Client, ClientState
from fedsift.client.policy import OPEN
from fedsift.compress import wire
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema
from fedsift.experiment.config import Config
from fedsift.experiment.loop import compressed_round
from fedsift.federation import LocalFederation, Rates
from fedsift.federation.encoding import ENVELOPE, REQUEST_ID, RequestId, encode_request
from fedsift.federation.remote import CLOSE, HELLO
from fedsift.keys import BuildContext
from fedsift.messages import Reply, Request
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.networks import build_model
from fedsift.randomness import generator
from fedsift.site.run import SiteData

CONFIG = Config.of(method="single-loop", compressor="topk", rate=5.0, batch_size=4, seed=5)
BOOTSTRAP = CONFIG.value("bootstrap")
ROUNDS = 6
NAMES = ("a", "b", "c")


def samples_of(inputs: torch.Tensor, labels: torch.Tensor) -> Samples:
    return Samples("the test", Arrays(inputs), tuple(NAMES[n] for n in labels.tolist()))


SCHEMA = Schema.fit(samples_of(torch.randn(3, 4), torch.arange(3)))


class Recorder(LocalFederation):
    """Keeps requests and replies."""

    def ask(self, request, clients):
        replies = super().ask(request, clients)
        self.kept = [*getattr(self, "kept", []), (request, replies[0], self.states[0])]
        return replies


@dataclass
class Case:
    """What the site has; round k's request, and the reply and state of the client in process."""

    site_data: SiteData
    rounds: list[tuple[Request, Reply, ClientState]]
    attempts: itertools.count = field(default_factory=itertools.count)

    def hello(self, next_round=0, **changes):
        settings = {"seed": 5, "l2": CONFIG.l2, "initial_weight": 1.0, "parameters": 15}
        settings["bootstrap"] = BOOTSTRAP
        settings |= {
            "method": CONFIG.method,
            "model": "linear",
            "attempt": str(next(self.attempts)),
        }
        settings["schema"] = SCHEMA.to_json()
        request_id = RequestId("run", next_round, 0, HELLO)
        envelope = wire.encode({**settings, **changes, "next_round": next_round})
        return {ENVELOPE: envelope, REQUEST_ID: request_id.encode()}

    def step(self, k, **changes):
        """Return the request of round k, for a site that has the v of the round before."""
        request_id = replace(RequestId("run", k, 0, "step"), **changes)
        return {**encode_request(self.rounds[k][0], {"v": k}), REQUEST_ID: request_id.encode()}

    def close(self, share_summary=True):
        """Return the end of the run, with the model of its last round."""
        closing = {"calibration": "{}", "share_summary": share_summary}
        y = self.rounds[-1][0].array("y")
        request_id = RequestId("run", ROUNDS, 0, CLOSE)
        return {
            ENVELOPE: wire.encode(closing),
            "y": wire.encode(y),
            REQUEST_ID: request_id.encode(),
        }


def made(folder):
    """Return the case of a site in this folder."""
    inputs = torch.randn(12, 4, generator=generator(0, "inputs"))
    labels = torch.randint(3, (12,), generator=generator(0, "labels"))
    model = FlatModel(build_model("linear", (4,), 3, 0))
    problem = Reweighting(model, l2=CONFIG.l2, bootstrap=BOOTSTRAP)
    batch = LabelledBatch.of(inputs, labels)
    federation = Recorder([Client(0, problem, batch, 5)], pool=False)
    algorithm = METHODS[CONFIG.method].algorithm(CONFIG.settings, BuildContext(15, CONFIG.seed))
    state = ServerState(problem.model.initial())
    for k in range(ROUNDS):
        server = Server(problem, batch, seed=5)
        _, state = compressed_round(algorithm, federation, Rates(), server, state, k)
    data = SiteData(0, samples_of(inputs, labels), folder / "site", policy=OPEN)
    return Case(data, federation.kept)
