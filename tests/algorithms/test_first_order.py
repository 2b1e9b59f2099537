"""First order and clean step: the exact hypergradient in the limit, one exchange, the guard."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from conftest import quadratic_case
from fedsift.algorithms import (
    CleanStep,
    CleanSteps,
    FirstOrder,
    LocalSteps,
    OuterStep,
    Server,
    ServerState,
)
from fedsift.algorithms.clean_steps import outer_loss
from fedsift.client import Client
from fedsift.client.contrast import contrast_pass
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting, cross_product, outer_gradients
from fedsift.problem.derivatives import hessian_product
from fedsift.randomness import generator

BOTH = pytest.mark.parametrize("kind", [FirstOrder, CleanStep])


def softmax_case(bootstrap=0.0, n=40, width=5):
    """Return softmax regression in float64: problem, sites, clean samples, weights."""
    source = generator(0, "first order")
    layer = nn.Linear(width, 3).double()
    nn.init.normal_(layer.weight, generator=source)
    nn.init.zeros_(layer.bias)
    problem = Reweighting(FlatModel(layer), l2=0.1, bootstrap=bootstrap)

    def draw(count):
        inputs = torch.randn(count, width, generator=source).double()
        return LabelledBatch.of(inputs, torch.randint(3, (count,), generator=source))

    return problem, [draw(n), draw(2 * n)], draw(30), torch.rand(3 * n, generator=source).double()


def solved(problem, sites, clean, weights, penalty, rounds):
    """Return y and z after many rounds in which the weights stay where they are."""
    federation = LocalFederation.of(problem, sites)
    for m, x in enumerate(weights.split([len(site) for site in sites])):
        federation.states[m] = replace(federation.state(m), x=x)
    algorithm = FirstOrder(
        CleanSteps(1, penalty, share=1.0), LocalSteps(1, 0.5, 0), OuterStep(0.0, "gradient")
    )
    server, state = Server(problem, clean), ServerState(problem.model.initial())
    for k in range(rounds):
        _, state = algorithm.round(federation, server, state, k)
    return state.own["base"], state.y


@pytest.mark.parametrize(("penalty", "least"), [(10.0, 0.97), (100.0, 0.999)])
def test_its_hypergradient_is_the_exact_one_as_the_penalty_grows(penalty, least):
    problem, sites, clean, weights = softmax_case()
    y, z = solved(problem, sites, clean, weights, penalty, 400)
    x, pooled = problem.pool(
        [(w, s, len(s) / len(weights)) for w, s in zip(weights.split([40, 80]), sites, strict=True)]
    )
    H = torch.stack([hessian_product(problem, x, y, pooled, e) for e in torch.eye(len(y)).double()])
    v = torch.linalg.solve(H, outer_gradients(problem, x, y, clean)[1])
    exact = -cross_product(problem, x, y, pooled, v)
    found = -contrast_pass(problem, x, z, y, pooled, penalty).value
    assert torch.cosine_similarity(exact, found, dim=0) > least
    if penalty == 100.0:  # and of its size
        torch.testing.assert_close(found.norm(), exact.norm(), rtol=0.05, atol=0)


def test_it_finds_the_outer_solution_of_a_quadratic():
    case = quadratic_case(clients=3, length=10, outer_length=3)
    algorithm = FirstOrder(
        CleanSteps(1, 200.0, share=1.0), LocalSteps(1, 0.1, 0), OuterStep(0.1, "gradient")
    )
    state = ServerState(torch.zeros_like(case.problem.target), case.problem.initial_x(None))
    for k in range(3000):
        _, state = algorithm.round(case.federation, Server(case.problem, None), state, k)
    expected = case.problem.outer_solution(case.mean)
    assert (state.x - expected).norm() < 0.03 * expected.norm()
    assert case.federation.traffic.exchanges == 3000


def test_a_clean_step_scores_as_no_hessian_does():
    """w' − w is −(γ T / λ) ∇F to first order, so the difference is ∇²_xy g v with v = γ T ∇F."""
    problem, sites, clean, weights = softmax_case(bootstrap=0.4)
    batch, x, w = sites[0], weights[:40], problem.model.initial()
    local, steps = LocalSteps(4, 0.01, 0), CleanSteps(2, 1e3, share=1.0)
    after = steps.take(Server(problem, clean), x, w, clean, local, 0)
    found = contrast_pass(problem, x, after, w, batch, steps.penalty).value
    expected = cross_product(problem, x, w, batch, 0.04 * outer_gradients(problem, x, w, clean)[1])
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-7)


@BOTH
def test_samples_that_judge_train_nothing(kind):
    """Wrong labels on the samples that judge change no model, only what is reported."""
    problem, sites, clean, _ = softmax_case()
    algorithm, found = kind(CleanSteps(share=0.5), LocalSteps(2, 0.1, 8)), []
    rest = algorithm.clean.folds(Server(problem, clean)).rest.inputs
    judges = (clean.inputs[:, None] == rest).all(dim=2).any(dim=1)
    for labels in (clean.labels, torch.where(judges, (clean.labels + 1) % 3, clean.labels)):
        federation = LocalFederation.of(problem, sites)
        server = Server(problem, LabelledBatch.of(clean.inputs, labels))
        state = ServerState(problem.model.initial())
        for k in range(4):
            info, state = algorithm.round(federation, server, state, k)
        found.append((state.y, info.metrics["judged_loss"]))
    assert torch.equal(found[0][0], found[1][0])
    assert found[0][1] != found[1][1]


@BOTH
def test_pooled_scores_are_those_of_every_site(kind):
    problem, sites, clean, _ = softmax_case(bootstrap=1.0)
    algorithm = kind(CleanSteps(scored=25), LocalSteps(2, 0.1, 8), OuterStep(0.1))
    found = []
    for pool in (True, False):
        clients = [Client(m, problem, site) for m, site in enumerate(sites)]
        federation = LocalFederation(clients, pool=pool)
        state = ServerState(problem.model.initial())
        for k in range(3):
            _, state = algorithm.round(federation, Server(problem, clean), state, k)
        found.append([federation.state(m).x for m in (0, 1)])
        agreements = [federation.state(m).agreement for m in (0, 1)]
    assert all(bool((a > 0).all()) for a in agreements)  # a sample that was not drawn keeps its own
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)
        assert 0 < int((ours != 1).sum()) <= 50


def test_a_z_that_leaves_the_clean_set_starts_again_from_y():
    problem, sites, clean, _ = softmax_case()
    algorithm = FirstOrder(CleanSteps(share=1.0), LocalSteps(1, 0.1, 0), OuterStep(0.1))
    federation, server = LocalFederation.of(problem, sites), Server(problem, clean)
    y = problem.model.initial()
    far = y - 30 * outer_gradients(problem, y, y, clean)[1].sign()
    away = y + (y - far) * 3
    state, events = ServerState(away, own={"base": y}), []
    for k in range(4):
        before = [federation.state(m).x for m in (0, 1)]
        info, state = algorithm.round(federation, server, state, k)
        events += info.events
        if k in (1, 2):
            assert all(torch.equal(a, federation.state(m).x) for m, a in enumerate(before))
    assert [("starts again from y" in e, "from 1 to 0.5" in e) for e in events] == [(True, True)]
    x = torch.zeros(0)
    assert outer_loss(server, x, state.y, clean) <= outer_loss(server, x, away, clean)


def test_clean_steps_that_raise_the_clean_loss_are_taken_back():
    problem, sites, clean, _ = softmax_case()
    algorithm = CleanStep(CleanSteps(5, 1e-4, share=1.0), LocalSteps(1, 0.1, 0), OuterStep(0.1))
    federation, state = LocalFederation.of(problem, sites), ServerState(problem.model.initial())
    info, state = algorithm.round(federation, Server(problem, clean), state, 0)
    assert ["were taken back" in event for event in info.events] == [True]
    assert "base" not in state.own
