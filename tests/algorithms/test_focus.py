"""FOCUS against sums by hand."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import FedAvg, Focus, LocalSteps, Server, ServerState
from fedsift.algorithms.focus import credibility
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.randomness import generator

LOCAL = LocalSteps(steps=3, lr=0.5, batch_size=0)


def draw(n, key):
    source = generator(5, key)
    inputs = torch.randn(n, 4, generator=source)
    return inputs, inputs[:, :3].argmax(dim=1)


def case(sizes=(5, 8, 11)):
    data = [draw(n, f"client {m}") for m, n in enumerate(sizes)]
    data[-1] = data[-1][0], (data[-1][1] + 1) % 3  # every label of the last client is wrong
    net = nn.Linear(4, 3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(6, "model")))
    problem = Reweighting(FlatModel(net), l2=0.01)
    federation = LocalFederation.of(problem, [LabelledBatch.of(*pair) for pair in data])
    clean = draw(20, "validation")
    server = Server(problem, LabelledBatch.of(*clean))
    return net, data, clean, federation, server, ServerState(problem.model.initial())


def flat(net):
    return torch.cat([p.detach().flatten() for p in net.parameters()]).numpy().astype(np.float64)


def by_hand(net, data, clean, alpha):
    """Return the local models as rows, the credibilities and the mean that they weigh."""
    start = {k: v.clone() for k, v in net.state_dict().items()}
    models, losses = [], []
    for inputs, labels in data:
        net.load_state_dict(start)
        own = cross_entropy(net(inputs), labels).item()
        optimiser = torch.optim.SGD(net.parameters(), LOCAL.lr, weight_decay=0.01)
        for _ in range(LOCAL.steps):
            optimiser.zero_grad()
            cross_entropy(net(inputs), labels).backward()
            optimiser.step()
        models.append(flat(net))
        losses.append(own + cross_entropy(net(clean[0]), clean[1]).item())
    grown = np.exp(alpha * np.array(losses))
    trust = 1 - grown / grown.sum()
    weights = np.array([len(labels) for _, labels in data]) * trust
    return trust, weights @ np.stack(models) / weights.sum()


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_a_round_equals_the_sums_by_hand(monkeypatch, alpha):
    monkeypatch.setattr("fedsift.problem.sample_losses.CHUNK", 3)  # parts of unequal length
    net, data, clean, federation, server, state = case()
    info, after = Focus(LOCAL, alpha).round(federation, server, state, 0)
    trust, mean = by_hand(net, data, clean, alpha)
    np.testing.assert_allclose(after.y.numpy(), mean, rtol=1e-5, atol=1e-6)
    seen = info.metrics["credibility_min"], info.metrics["credibility_max"]
    np.testing.assert_allclose(seen, (trust.min(), trust.max()), rtol=1e-5)
    assert trust.max() - trust.min() > 0.05


def test_a_client_with_wrong_labels_loses_its_say():
    losses = {}
    for algorithm in (FedAvg(LOCAL), Focus(LOCAL, alpha=5.0)):
        _, _, clean, federation, server, state = case((12, 12, 6))
        for k in range(20):
            _, state = algorithm.round(federation, server, state, k)
        losses[type(algorithm)] = cross_entropy(server.problem.model(state.y, clean[0]), clean[1])
    assert losses[Focus] < 0.7 * losses[FedAvg]


def test_credibility_of_three_clients():
    losses = torch.tensor([np.log(1.0), np.log(2.0), np.log(5.0)])
    np.testing.assert_allclose(credibility(losses, 1.0), [7 / 8, 6 / 8, 3 / 8], rtol=1e-6)
    np.testing.assert_allclose(credibility(losses, 2.0), [29 / 30, 26 / 30, 5 / 30], rtol=1e-6)


def test_credibility_of_huge_losses_is_that_of_their_differences():
    losses = torch.tensor([1e6, 1e6 + 1.0], dtype=torch.float64)
    expected = 1 - np.array([1.0, np.e]) / (1 + np.e)
    np.testing.assert_allclose(credibility(losses, 1.0), expected, rtol=1e-6)


def test_own_loss_is_unweighted():
    _, _, _, federation, server, state = case()
    twin = case()[3]
    for m, site in twin.clients.items():
        x = torch.full((len(site.batch),), 0.25)
        twin.states[m] = type(twin.state(m))(x=x, average=x)
    still = LocalSteps(steps=1, lr=1e-30, batch_size=0)  # the weights reach nothing but the update
    plain, _ = Focus(still, 1.0).round(federation, server, state, 0)
    weighted, _ = Focus(still, 1.0).round(twin, server, state, 0)
    assert weighted.metrics["credibility_min"] == plain.metrics["credibility_min"]
    assert weighted.metrics["train_loss"] < plain.metrics["train_loss"]


@pytest.mark.parametrize(("sizes", "alpha"), [((7,), 1.0), ((5, 8, 11), 0.0)])
def test_one_client_or_no_slope_is_fedavg(sizes, alpha):
    _, _, _, federation, server, state = case(sizes)
    _, expected = FedAvg(LOCAL).round(federation, server, state, 0)
    _, found = Focus(LOCAL, alpha).round(federation, server, state, 0)
    torch.testing.assert_close(found.y, expected.y)


def test_a_round_is_one_exchange_and_sends_a_number_more_than_fedavg():
    _, _, _, federation, server, state = case()
    FedAvg(LOCAL).round(federation, server, state, 0)
    before = federation.traffic
    Focus(LOCAL).round(federation, server, state, 0)
    more = federation.traffic - before - before
    assert more.exchanges == 0
    assert 0 < more.bytes_up < 3 * 50
