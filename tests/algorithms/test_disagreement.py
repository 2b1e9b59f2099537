"""Disagreement: FedAvg's own models, the one that judges found by brute force."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import Disagreement, FedAvg, LocalSteps, Server, ServerState
from fedsift.algorithms.fedavg import draw_cohort
from fedsift.errors import InputError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, LossPair, Reweighting
from fedsift.problem.sample_losses import label_share, sample_losses
from fedsift.randomness import generator

LOCAL = LocalSteps(steps=5, lr=1.0, batch_size=0)
ROUNDS = 12


def case(cohort=0):
    """Return clients with many wrong labels and a model that soon memorises them."""
    source = generator(3, "disagreement")

    def draw(n, wrong=0):
        inputs = torch.randn(n, 8, generator=source)
        labels = inputs[:, :3].argmax(dim=1)
        labels[:wrong] = (labels[:wrong] + 1) % 3
        return LabelledBatch.of(inputs, labels)

    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(0.3 * torch.randn(p.shape, generator=source))
    problem = Reweighting(FlatModel(net))
    federation = LocalFederation.of(problem, [draw(15, 5) for _ in range(3)])
    server = Server(problem, draw(40), cohort=cohort, seed=1)
    return federation, server, ServerState(problem.model.initial())


def train(algorithm, cohort=0):
    """Return the federation and every y_k that was sent, with its validation loss and cohort."""
    federation, server, state = case(cohort)
    sent = []
    for k in range(ROUNDS):
        y = state.y
        held = server.validation
        loss = cross_entropy(server.problem.model(y, held.inputs), held.labels).item()
        info, state = algorithm.round(federation, server, state, k)
        sent.append((loss, y, info))
    return federation, sent, state


def expected_weights(federation, client, y):
    site = federation.clients[client]
    p = site.problem.model(y, site.batch.inputs).softmax(dim=1)
    rows = torch.arange(len(p))
    own = p[rows, site.batch.labels]
    p[rows, site.batch.labels] = 0
    return own / (own + p.max(dim=1).values)


def test_weights_are_those_of_the_model_of_lowest_validation_loss():
    federation, sent, _ = train(Disagreement(LOCAL))
    losses = [loss for loss, _, _ in sent]
    best = losses.index(min(losses))
    assert 0 < best < ROUNDS - 1
    for m in federation.sizes:
        expected = expected_weights(federation, m, sent[best][1])
        torch.testing.assert_close(federation.state(m).average, expected)
    minima = [k for k in range(ROUNDS) if losses[k] == min(losses[: k + 1])]
    assert [k for k, (_, _, info) in enumerate(sent) if info.metrics["judged"] == 3] == minima


def test_with_cohorts_the_best_model_among_those_that_the_client_was_sent():
    federation, server, state = case(cohort=1)
    sent = {m: [] for m in federation.sizes}
    for k in range(ROUNDS):
        loss = float(sample_losses(server.problem, state.y, server.validation).mean())
        y = state.y
        _, state = Disagreement(LOCAL).round(federation, server, state, k)
        (drawn,) = draw_cohort(federation, server, k).clients
        sent[drawn].append((loss, k, y))
    assert len({min(models)[1] for models in sent.values()}) == 3
    for m, models in sent.items():
        expected = expected_weights(federation, m, min(models)[2])
        torch.testing.assert_close(federation.state(m).average, expected)


@pytest.mark.parametrize("pool", [True, False])
def test_training_is_that_of_fedavg_bit_for_bit(monkeypatch, pool):
    monkeypatch.setitem(LocalFederation.__init__.__kwdefaults__, "pool", pool)
    _, plain, last = train(FedAvg(LOCAL))
    federation, judged, same = train(Disagreement(LOCAL))
    assert all(torch.equal(a[1], b[1]) for a, b in zip(plain, judged, strict=True))
    assert torch.equal(last.y, same.y)
    assert all(torch.equal(federation.state(m).x, torch.ones(15)) for m in federation.sizes)


def test_no_exchange_and_no_array_more_than_in_fedavg():
    plain, _, _ = train(FedAvg(LOCAL))
    judged, _, _ = train(Disagreement(LOCAL))
    more = judged.traffic - plain.traffic
    assert more.exchanges == 0
    assert 0 < more.bytes_down < 3 * ROUNDS * 60
    assert 0 < more.bytes_up < 3 * ROUNDS * 20


def test_share_is_below_one_half_exactly_where_another_class_is_more_probable(conv, monkeypatch):
    monkeypatch.setattr("fedsift.problem.sample_losses.CHUNK", 5)  # 12 samples: three unequal parts
    share = label_share(conv.problem, conv.y, conv.batch)
    said = conv.problem.outputs(conv.y, conv.batch).argmax(dim=1)
    assert torch.equal(share < 0.5, said != conv.batch.labels)
    assert 0 < int((share < 0.5).sum()) < 12


def test_a_problem_without_sample_losses_is_refused():
    problem = LossPair(lambda x, y, b: y.sum(), lambda x, y, b: y.sum(), torch.zeros(1))
    with pytest.raises(InputError, match="LossPair has no losses of single samples"):
        sample_losses(problem, torch.zeros(2), [0, 1])
