"""A server that does not follow the algorithm, at a site that allows all, and at one that does not.

The model is linear, so the gradient of one sample is (p − e_label) ⊗ (input, 1): whoever has it
divides and has the input. Every attack is run at a site that allows everything, where it succeeds,
and at one with the default policy, where it must not.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from fedsift.client.policy import OPEN, Policy
from fedsift.compress import Identity, wire
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema
from fedsift.federation.encoding import (
    ENVELOPE,
    REQUEST_ID,
    RequestId,
    decode_reply,
    encode_request,
)
from fedsift.federation.remote import HELLO
from fedsift.messages import Request
from fedsift.problem.sgd import LocalSteps, minibatches
from fedsift.randomness import generator
from fedsift.site.host import Host
from fedsift.site.run import SiteData

N, WIDTH, CLASSES, SEED = 100, 12, 3, 7
LENGTH = CLASSES * (WIDTH + 1)
NAMES = ("a", "b", "c")
NEAR = 1e-3  # relative distance at which an input counts as rebuilt


def samples_of(inputs, labels):
    return Samples("the test", Arrays(inputs), tuple(NAMES[n] for n in labels.tolist()))


class CuriousServer:
    """Asks one site whatever it likes; ``inputs`` are what it wants to know."""

    def __init__(self, folder, policy, method):
        source = generator(0, "attacked")
        self.inputs = torch.randn(N, WIDTH, generator=source)
        labels = torch.randint(CLASSES, (N,), generator=source)
        clean = torch.randn(CLASSES, WIDTH, generator=source), torch.arange(CLASSES)
        self.schema = Schema.fit(samples_of(*clean))
        self.host = Host(SiteData(0, samples_of(self.inputs, labels), folder, policy=policy))
        self.count = 0
        settings = {"seed": SEED, "initial_weight": 1.0, "parameters": LENGTH, "model": "linear"}
        settings |= {"schema": self.schema.to_json(), "method": method, "next_round": 0}
        about = RequestId("run", 0, 0, HELLO).encode()
        self.opened = decode_reply(
            self.host.handle({ENVELOPE: wire.encode(settings), REQUEST_ID: about})
        )

    def ask(self, action, round_, scalars=None, **arrays):
        self.count += 1
        request = Request(action, round_, arrays, scalars or {})
        about = RequestId("run", round_, self.count, action).encode()
        return decode_reply(self.host.handle({**encode_request(request), REQUEST_ID: about}))

    def train(self, round_, steps, batch, action="train", y=None):
        scalars = {"steps": steps, "lr": 1.0, "batch_size": batch}
        return self.ask(action, round_, scalars, y=torch.zeros(LENGTH) if y is None else y)

    def rebuilt(self, gradients):
        """Count the samples that one of these gradients of single samples gives away."""
        found = set()
        for gradient in gradients:
            slopes = gradient[: CLASSES * WIDTH].reshape(CLASSES, WIDTH)
            biases = gradient[CLASSES * WIDTH :]
            row = int(biases.abs().argmax())
            if not float(biases[row].abs()) > 1e-6:
                continue
            guess = slopes[row] / biases[row]
            distances = (self.inputs - guess).norm(dim=1) / self.inputs.norm(dim=1)
            best = int(distances.argmin())
            if float(distances[best]) < NEAR:
                found.add(best)
        return found


def updates(replies):
    return [-r.arrays["update"] for r in replies if r.error is None]


@pytest.mark.parametrize(("policy", "least", "most"), [(OPEN, 50, N), (Policy(), 0, 0)])
def test_one_step_on_a_batch_of_one(tmp_path, policy, least, most):
    server = CuriousServer(tmp_path / "site", policy, "fedavg")
    replies = [server.train(k, 1, 1) for k in range(120)]
    assert least <= len(server.rebuilt(updates(replies))) <= most
    assert policy is OPEN or all("rest on 1 samples" in str(r.error) for r in replies)


@pytest.mark.parametrize(("policy", "least", "most"), [(OPEN, N, N), (Policy(), 0, 0)])
def test_many_batches_of_known_samples(tmp_path, policy, least, most):
    """Means over known sets at one model are linear equations for the gradients of all samples."""
    batch, rounds = 8, 160
    server = CuriousServer(tmp_path / "site", policy, "fedavg")
    replies = [server.train(k, 1, batch) for k in range(rounds)]
    assert all(r.error is None for r in replies)  # a batch of 8 is allowed
    members = torch.zeros(rounds, N, dtype=torch.float64)
    for k in range(rounds):
        source = generator(SEED, k, 0, "batches")  # what the server knows of the site's draw
        drawn = minibatches(N, LocalSteps(1, 1.0, batch), source, torch.device("cpu"))[0]
        members[k, drawn] = 1 / batch
    means = torch.stack(updates(replies)).double()
    single = torch.linalg.lstsq(members, means, driver="gelsd").solution
    assert least <= len(server.rebuilt(single.float())) <= most


@pytest.mark.parametrize(("policy", "most"), [(OPEN, N), (Policy(), 0)])
def test_all_samples_but_one_are_removed(tmp_path, policy, most):
    server = CuriousServer(tmp_path / "site", policy, "preprocess")
    kept = server.ask("keep", 0, {"threshold": -1.0}, y=torch.zeros(LENGTH))
    trained = server.train(0, 1, 64, "train-kept")
    found = server.rebuilt(updates([trained]))
    assert len(found) == (1 if most else 0)
    assert (kept.error is None) is bool(most)
    assert most or "fewer than the 8 samples" in kept.error


def test_weights_that_leave_one_sample_do_not_let_it_be_trained_on(tmp_path):
    server = CuriousServer(tmp_path / "site", Policy(), "single-loop")
    run = server.host._open("run")
    x = torch.zeros(N)
    x[3] = 1.0
    request = Request("step", 0, {"y": torch.zeros(LENGTH)}, {"batch_size": 64})
    asked = server.host.ledger.asked("run")
    with pytest.raises(ValueError, match="would rest on"):
        run.guard.admit(run.client, replace(run.state, x=x), request, asked)


@pytest.mark.parametrize(("policy", "answered"), [(OPEN, True), (Policy(), False)])
def test_a_histogram_that_has_a_bin_per_sample(tmp_path, policy, answered):
    server = CuriousServer(tmp_path / "site", policy, "preprocess")
    y = torch.randn(LENGTH, generator=generator(1, "model"))
    reply = server.ask("count", 0, y=y, edges=torch.linspace(0, 10, 100_000))
    assert (reply.error is None) is answered
    if answered:
        assert int((reply.arrays["counts"] == 1).sum()) > N // 2
    else:
        assert "allows 128 bins" in reply.error
        few = server.ask("count", 0, y=y, edges=torch.linspace(0, 10, 100))
        counts = few.arrays["counts"]
        assert int(counts.sum()) == N
        assert int(counts[counts > 0].min()) >= Policy().least_counted


def product(batch):
    return {
        "curvature": "gauss-newton",
        "damping": 0.0,
        "curvature_batch": batch,
        "compressor": json.dumps(Identity(LENGTH).spec()),
        "feedback": "listing",
        "step": 1.0,
        "epoch": 0,
        "fresh": True,
        "residual_seed": 1,
        "residual_damping": 0.0,
    }


@pytest.mark.parametrize(("policy", "answered"), [(OPEN, 10), (Policy(), 0)])
def test_products_of_one_sample(tmp_path, policy, answered):
    server = CuriousServer(tmp_path / "site", replace(policy, most_products=10), "iter-topk")
    arrays = {"y": torch.zeros(LENGTH), "v": torch.ones(LENGTH)}
    replies = [server.ask("product", 0, product(1), **arrays) for _ in range(15)]
    assert sum(r.error is None for r in replies) == answered
    more = [server.ask("product", 1, product(0), **arrays) for _ in range(15)]
    assert sum(r.error is None for r in more) == 10  # of all samples, as many as are allowed


@pytest.mark.parametrize("action", ["train", "count", "class-losses", "outer", "agree"])
def test_what_the_announced_method_does_not_ask_is_refused(tmp_path, action):
    server = CuriousServer(tmp_path / "site", Policy(), "posterior")
    error = server.ask(action, 0, {"steps": 1, "lr": 0.1, "batch_size": 64}).error
    assert f"'posterior' does not ask '{action}'" in error


def test_an_unknown_method_and_one_that_is_not_allowed_open_nothing(tmp_path):
    server = CuriousServer(tmp_path / "a", Policy(), "everything")
    assert "does not allow the method 'everything'" in server.opened.error
    server = CuriousServer(tmp_path / "b", Policy(methods=("fedavg",)), "posterior")
    assert "it allows fedavg" in server.opened.error
    assert not (tmp_path / "b" / "run" / "run.json").exists()


@pytest.mark.parametrize(
    ("scalars", "sentence"),
    [
        ({"steps": 20_000, "lr": 0.1, "batch_size": 64}, "allows steps up to 1000"),
        ({"steps": 5, "lr": 1e9, "batch_size": 64}, "allows lr up to 10"),
        ({"steps": 5, "lr": -1.0, "batch_size": 64}, "allows lr up to 10"),
    ],
)
def test_local_steps_are_bounded(tmp_path, scalars, sentence):
    server = CuriousServer(tmp_path / "site", Policy(), "fedavg")
    assert sentence in server.ask("train", 0, scalars, y=torch.zeros(LENGTH)).error


@pytest.mark.parametrize(
    "spec",
    [
        {"name": "count-sketch", "length": LENGTH, "rows": 5, "columns": 10**8, "seed": 1},
        {"name": "identity", "length": 10**9},
    ],
)
def test_what_is_built_is_bounded(tmp_path, spec):
    server = CuriousServer(tmp_path / "site", Policy(), "iter-sketch")
    scalars = {**product(0), "compressor": json.dumps(spec)}
    reply = server.ask("product", 0, scalars, y=torch.zeros(LENGTH), v=torch.ones(LENGTH))
    assert reply.error is not None
    assert "policy allows" in reply.error


def test_going_back_buys_no_more_rounds(tmp_path):
    server = CuriousServer(tmp_path / "site", Policy(most_rounds=3), "fedavg")
    for _ in range(3):
        assert server.train(0, 1, 64).error is None
    assert "allows 3 rounds" in server.train(0, 1, 64).error
    assert "allows 3 rounds" in server.train(1, 1, 64).error
