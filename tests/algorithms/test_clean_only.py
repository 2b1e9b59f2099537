"""Clean only: its model by hand, its number of steps by brute force, nothing from the clients."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import CleanOnly, LocalSteps, Server, ServerState
from fedsift.algorithms.clean_only import FOLDS
from fedsift.errors import ConfigError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.randomness import generator

LOCAL = LocalSteps(steps=3, lr=0.5, batch_size=0)


def case(clean=40):
    """Return clients with many wrong labels, and a server with noisy inputs of its own."""
    source = generator(5, "clean only")

    def draw(n, wrong):
        inputs = torch.randn(n, 8, generator=source)
        labels = (inputs[:, :3] + 0.5 * torch.randn(n, 3, generator=source)).argmax(dim=1)
        labels[:wrong] = (labels[:wrong] + 1) % 3
        return LabelledBatch.of(inputs, labels)

    problem = Reweighting(FlatModel(nn.Linear(8, 3)), l2=0.0)
    federation = LocalFederation.of(problem, [draw(20, 8), draw(30, 12)])
    server = Server(problem, draw(clean, 0), cohort=1, seed=1)
    return federation, server, ServerState(torch.zeros(27))


def descend(problem, y, batch, steps):
    """Take plain gradient steps, without the code under test."""
    for _ in range(steps):
        y = y.clone().requires_grad_(True)
        loss = cross_entropy(problem.model(y, batch.inputs), batch.labels)
        y = y.detach() - LOCAL.lr * torch.autograd.grad(loss, y)[0]
    return y


def held_out_loss(server, steps):
    """Return the loss of the folds by models that were trained on the other folds."""
    n, total = len(server.validation), 0.0
    order = torch.randperm(n, generator=generator(server.seed, "clean folds"))
    for fold in order.tensor_split(FOLDS):
        rest = torch.tensor([i for i in range(n) if i not in set(fold.tolist())])
        y = descend(server.problem, torch.zeros(27), server.validation.take(rest), steps)
        held = server.validation.take(fold)
        total += float(
            cross_entropy(server.problem.model(y, held.inputs), held.labels, reduction="sum")
        )
    return total / n


def test_the_number_of_steps_is_the_best_on_samples_not_trained_on():
    _, server, state = case()
    steps, loss = CleanOnly(LOCAL, 90).choose(server, state.y)
    losses = [held_out_loss(server, s) for s in range(3, 91, LOCAL.steps)]
    assert 0 < losses.index(min(losses)) < len(losses) - 1  # it neither ends at once nor never
    assert steps == LOCAL.steps * (losses.index(min(losses)) + 1)
    assert loss == pytest.approx(min(losses), rel=1e-5)


def test_model_and_weights_are_those_of_the_clean_set():
    federation, server, state = case()
    algorithm = CleanOnly(LOCAL)
    info, after = algorithm.round(federation, server, state, 0)
    y = descend(server.problem, state.y, server.validation, info.metrics["clean_steps"])
    torch.testing.assert_close(after.y, y)
    for m, client in federation.clients.items():  # all of them, though a cohort is one client
        p = server.problem.model(y, client.batch.inputs).softmax(dim=1)
        at = torch.arange(len(p)), client.batch.labels
        own = p[at].clone()
        p[at] = 0
        torch.testing.assert_close(federation.state(m).average, own / (own + p.amax(dim=1)))


def test_later_rounds_change_and_exchange_nothing():
    federation, server, state = case()
    _, first = CleanOnly(LOCAL).round(federation, server, state, 0)
    traffic = federation.traffic
    _, second = CleanOnly(LOCAL).round(federation, server, first, 1)
    assert torch.equal(first.y, second.y)
    assert federation.traffic == traffic
    assert traffic.exchanges == 1
    assert traffic.bytes_up < 100  # two envelopes


def test_one_clean_sample_is_too_few():
    federation, server, state = case(clean=1)
    with pytest.raises(ConfigError, match="has 1 samples, too few to train"):
        CleanOnly(LOCAL).round(federation, server, state, 0)
