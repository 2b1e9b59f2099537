"""Single-loop as it is by default, two rounds by hand: trust, falling step, agreement, pull."""

import numpy as np
import pytest
import torch

from fedsift.algorithms import LocalSteps, OuterStep, SelfPaced, Server, ServerState, SingleLoop
from fedsift.client import Client, ClientState
from fedsift.compress import Identity, feedback_for
from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, SolverState
from fedsift.problem import LabelledBatch, cross_product

CUTS = (slice(0, 5), slice(5, 12))
LR, DECAY, STRENGTH = 0.1, 10, 1.5
FIRST = 19


def _federation(conv, pool):
    inputs, labels = conv.batch.inputs, conv.batch.labels
    batches = [LabelledBatch.of(inputs[cut], labels[cut]) for cut in CUTS]
    clients = [Client(m, conv.problem, batch) for m, batch in enumerate(batches)]
    federation = LocalFederation(clients, pool=pool)
    federation.states = {m: ClientState(conv.x[cut], conv.x[cut]) for m, cut in enumerate(CUTS)}
    return federation


def _validation(conv):
    """Return a set on which the model at y is wrong on 1 of 40 samples."""
    inputs = conv.batch.inputs[torch.arange(40) % 12]
    labels = conv.problem.model(conv.y, inputs).argmax(dim=1)
    labels[0] = (labels[0] + 1) % 3
    return LabelledBatch.of(inputs, labels)


def _trust(conv, y, validation):
    wrong = conv.problem.model(y, validation.inputs).argmax(dim=1) != validation.labels
    return max(0.0, 1 - 10 * float(wrong.double().mean()))


def _agreement(conv, y, batch):
    """Return p(label) / (p(label) + largest other p), sample by sample."""
    logits = conv.problem.model(y, batch.inputs).numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = batch.labels.tolist()
    others = [max(row[c] for c in range(3) if c != at) for row, at in zip(p, labels, strict=True)]
    own = p[np.arange(len(labels)), labels]
    return own / (own + np.array(others))


def _by_hand(conv, client, before, y, v, k, trusted, rms):
    """Return (x, average, agreement) after round k, from the equations of ``self_paced``."""
    now = _agreement(conv, y, client.batch)
    a = now if before["a"] is None else 0.9 * before["a"] + 0.1 * now
    given_up = trusted * (LR - LR * DECAY / (k + 1))
    target = np.where(a < 0.25, 2 * a, (a + 0.5) / 1.5)
    x = torch.from_numpy(before["x"])
    cross = cross_product(conv.problem, x, y, client.batch, v).numpy()
    h = -len(client.batch) / 12 * cross
    step = h / (rms or np.sqrt((h**2).mean()))
    x = before["x"] - (LR - given_up) * step + 2 * STRENGTH * given_up * (target - before["x"])
    x = np.clip(x, 0, 1)
    return {"x": x, "average": 0.9 * before["average"] + 0.1 * x, "a": a, "h": h}


@pytest.mark.parametrize("pool", [True, False], ids=["pooled", "alone"])
def test_two_rounds_are_as_computed_by_hand(conv, pool):
    d, federation = len(conv.y), _federation(conv, pool)
    outer = SelfPaced(OuterStep(LR), DECAY, STRENGTH)
    curvature, local = CurvatureSettings("gauss-newton", damping=0.5), LocalSteps(2, 0.02, 0)
    algorithm = SingleLoop(feedback_for(Identity(d)), 1.0, 1e-3, curvature, local, outer)
    server = Server(conv.problem, _validation(conv))
    state = ServerState(conv.y, solver=SolverState(v=conv.v))
    expected = [{"x": conv.x[c].numpy(), "average": conv.x[c].numpy(), "a": None} for c in CUTS]
    rho = 0.0  # each client's own root mean square at first, then that of all per length of v
    for k in (FIRST, FIRST + 1):
        y, v, trusted = state.y, state.solver.v, _trust(conv, state.y, server.validation)
        assert 0 < trusted < 1
        size = float(v.norm())
        _, state = algorithm.round(federation, server, state, k)
        for m, client in federation.clients.items():
            expected[m] = _by_hand(conv, client, expected[m], y, v, k, trusted, rho * size)
            found = federation.state(m)
            for ours, theirs in (
                (found.x, "x"),
                (found.average, "average"),
                (found.agreement, "a"),
            ):
                np.testing.assert_allclose(ours.numpy(), expected[m][theirs], rtol=1e-7, atol=1e-9)
        rho = np.sqrt((np.concatenate([part["h"] for part in expected]) ** 2).mean()) / size
