"""FedAvg against a hand-written loop."""

import pytest
import torch
from torch import nn

from fedsift.algorithms import FedAvg, LocalSteps, Server, ServerState
from fedsift.client import Client
from fedsift.errors import RunError
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.sgd import local_sgd
from fedsift.randomness import generator


def _clients(sizes=(5, 8, 3)):
    source = generator(1, "fedavg")
    return [
        (torch.randn(n, 4, generator=source), torch.randint(3, (n,), generator=source))
        for n in sizes
    ]


def _model():
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator(2, "model")))
    return net


def test_two_rounds_equal_a_plain_torch_loop():
    net, data = _model(), _clients()
    problem = Reweighting(FlatModel(net), l2=0.01)
    federation = LocalFederation.of(problem, [LabelledBatch.of(*pair) for pair in data])
    algorithm = FedAvg(LocalSteps(steps=3, lr=0.2, batch_size=0))
    state = ServerState(problem.model.initial())
    for k in range(2):
        _, state = algorithm.round(federation, Server(problem, None), state, k)

    loss = nn.CrossEntropyLoss()
    for _ in range(2):
        total, mean = sum(len(t) for _, t in data), None
        start = {k: v.clone() for k, v in net.state_dict().items()}
        for inputs, labels in data:
            net.load_state_dict(start)
            optimiser = torch.optim.SGD(net.parameters(), 0.2, weight_decay=0.01)
            for _ in range(3):
                optimiser.zero_grad()
                loss(net(inputs), labels).backward()
                optimiser.step()
            share = len(labels) / total
            part = {k: share * v for k, v in net.state_dict().items()}
            mean = part if mean is None else {k: mean[k] + part[k] for k in part}
        net.load_state_dict(mean)
    expected = torch.cat([p.detach().flatten() for p in net.parameters()])
    torch.testing.assert_close(state.y, expected, rtol=1e-5, atol=1e-6)


def test_batches_pass_over_the_data_before_they_repeat():
    seen = []

    class Recorder:
        def __len__(self):
            return 10

        def take(self, positions):
            seen.append(positions)
            return self

    class Zero:
        def inner_loss(self, x, y, batch):
            return (y * 0).sum()

    local = LocalSteps(steps=5, lr=1.0, batch_size=4)
    local_sgd(Zero(), torch.zeros(0), torch.ones(2), Recorder(), local, generator(0, "batches"))
    assert [len(p) for p in seen] == [4] * 5
    for first, second in ((0, 1), (2, 3)):
        assert len(set(torch.cat([seen[first], seen[second]]).tolist())) == 8


def test_a_model_that_blows_up_stops_the_run_with_a_sentence():
    problem = Reweighting(FlatModel(_model()))
    federation = LocalFederation.of(problem, [LabelledBatch.of(*pair) for pair in _clients()])
    algorithm = FedAvg(LocalSteps(steps=50, lr=1e12, batch_size=0))
    with pytest.raises(RunError, match=r"lower inner_lr \(now 1e\+12\)"):
        algorithm.round(federation, Server(problem, None), ServerState(problem.model.initial()), 0)


def test_only_the_cohort_trains():
    problem = Reweighting(FlatModel(_model()))
    sites = [
        Client(m, problem, LabelledBatch.of(*pair)) for m, pair in enumerate(_clients((5,) * 8))
    ]
    federation = LocalFederation(sites)
    server = Server(problem, None, cohort=3, seed=7)
    state = ServerState(problem.model.initial())
    cohorts = set()
    for k in range(5):
        federation.states.clear()
        FedAvg().round(federation, server, state, k)
        assert len(federation.states) == 3
        cohorts.add(tuple(federation.states))
    assert len(cohorts) > 1
