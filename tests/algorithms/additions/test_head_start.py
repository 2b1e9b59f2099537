"""The head start: gradient descent by hand, the best loss it saw, and not a byte more."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from fedsift.algorithms import FedAvg, HeadStart, LocalSteps, Server, ServerState
from fedsift.algorithms.additions.constants import HEAD_START_EVERY as EVERY
from fedsift.algorithms.additions.constants import HEAD_START_PATIENCE as PATIENCE
from fedsift.algorithms.clean_set import split_validation
from fedsift.errors import ConfigError, RunError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.randomness import generator

L2 = 0.01


def case(clean=40, noise=0.0):
    """Return a linear model, clients, and a server; ``noise`` is that of all labels."""
    source = generator(3, "head start")
    inputs = torch.randn(clean + 60, 6, generator=source)
    labels = inputs[:, :3].argmax(dim=1)
    wrong = torch.rand(len(labels), generator=source) < noise
    labels = torch.where(wrong, (labels + 1) % 3, labels)
    net = nn.Linear(6, 3)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=source))
    problem = Reweighting(FlatModel(net), l2=L2)
    parts = [
        LabelledBatch.of(inputs[clean + a : clean + a + 30], labels[clean + a :][:30])
        for a in (0, 30)
    ]
    server = Server(problem, LabelledBatch.of(inputs[:clean], labels[:clean]), seed=5)
    return net, problem, server, LocalFederation.of(problem, parts)


def descend(net, part, rest, lr, steps):
    """Return the parameters and the loss on the rest after every ``EVERY`` steps, by torch."""
    net = copy.deepcopy(net)
    optimiser = torch.optim.SGD(net.parameters(), lr=lr, weight_decay=L2)
    seen = []
    for t in range(steps + 1):
        if t % EVERY == 0 or t == steps:
            flat = torch.cat([p.detach().flatten() for p in net.parameters()])
            loss = cross_entropy(net(rest.inputs), rest.labels).item()
            seen.append((t, loss, flat))
        optimiser.zero_grad()
        cross_entropy(net(part.inputs), part.labels).backward()
        optimiser.step()
    return seen


@pytest.mark.parametrize(("noise", "steps"), [(0.0, 45), (0.5, 2000)])
def test_it_is_the_best_point_of_gradient_descent_on_the_other_half(noise, steps):
    net, problem, server, _ = case(noise=noise)
    part, rest = split_validation(server, 0.5, "head start")
    seen = descend(net, part, rest, 0.5, steps)
    best = 0  # where it stops: the first best that is not beaten in PATIENCE looks
    for i, (_, loss, _) in enumerate(seen):
        if i > best + PATIENCE:
            break
        best = i if loss < seen[best][1] else best
    y, metrics = HeadStart(FedAvg(), LocalSteps(steps, 0.5, 0)).take(
        server, problem.model.initial()
    )
    t, loss, expected = seen[best]
    assert metrics["head_start_steps"] == t
    assert metrics["head_start_loss"] == pytest.approx(loss, rel=1e-4)
    torch.testing.assert_close(y, expected, rtol=1e-4, atol=1e-5)
    if noise:
        assert 0 < t < steps - EVERY * PATIENCE  # it stopped before it memorised the half


def test_halves_are_disjoint_and_all():
    _, _, server, _ = case(clean=41)
    halves = [h.positions for h in split_validation(server, 0.5, "head start")]
    assert torch.cat(halves).sort().values.tolist() == list(range(41))
    assert len(halves[0]) == 20


def test_rounds_are_those_of_the_algorithm_from_a_better_start():
    _, problem, server, federation = case()
    local = LocalSteps(3, 0.1, 4)
    ahead, plain = HeadStart(FedAvg(local), LocalSteps(45, 0.5, 8)), FedAvg(local)
    state = ServerState(problem.model.initial())
    y, _ = ahead.take(server, state.y)
    assert not torch.equal(y, state.y)
    info, first = ahead.round(federation, server, state, 0)
    spent = federation.traffic
    expected, after = plain.round(federation, server, ServerState(y), 0)
    assert federation.traffic - spent == spent
    assert torch.equal(first.y, after.y)
    assert set(info.metrics) - set(expected.metrics) == {"head_start_steps", "head_start_loss"}
    again, second = ahead.round(federation, server, first, 1)
    expected, after = plain.round(federation, server, first, 1)
    assert torch.equal(second.y, after.y)
    assert again == expected


def test_a_start_that_cannot_be_bettered_is_kept():
    _, problem, server, _ = case()
    y = problem.model.initial()
    kept, metrics = HeadStart(FedAvg(), LocalSteps(200, 1e-12, 0)).take(server, y)
    assert metrics["head_start_steps"] in (0, EVERY)
    torch.testing.assert_close(kept, y)


def test_one_clean_sample_is_too_few():
    _, problem, server, _ = case(clean=1)
    with pytest.raises(ConfigError, match="has 1 samples, too few to train a head start model"):
        HeadStart(FedAvg(), LocalSteps()).take(server, problem.model.initial())


def test_a_step_that_is_too_long_is_said():
    _, problem, server, _ = case()
    with pytest.raises(
        RunError, match=r"the head start is not finite; lower inner_lr \(now 1e\+30"
    ):
        HeadStart(FedAvg(), LocalSteps(50, 1e30, 0)).take(server, problem.model.initial())
