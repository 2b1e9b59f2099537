"""SimFBO and FedBiOAcc: the solution of Algorithm 1, and one round against its equations."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from conftest import quadratic_case
from fedsift.algorithms import LocalSteps, OuterStep, Server, ServerState
from fedsift.algorithms.fedbioacc import FedBiOAcc, Storm
from fedsift.algorithms.simfbo import SimFBO, projected
from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, SolverState
from fedsift.problem import (
    FlatModel,
    LabelledBatch,
    Reweighting,
    cross_product,
    inner_gradient,
    outer_gradients,
)
from fedsift.problem.curvature import CURVATURES
from fedsift.randomness import generator

PLAIN = CurvatureSettings("hessian")
OUTER = OuterStep(0.1, "gradient")


@pytest.mark.parametrize("kind", [SimFBO, FedBiOAcc])
def test_it_converges_to_the_solution_of_algorithm_1(kind):
    case = quadratic_case(clients=3, length=10, outer_length=3)
    algorithm = kind(0.05, PLAIN, local=LocalSteps(1, 0.05, 0), outer=OUTER)
    state = ServerState(torch.zeros_like(case.problem.target), case.problem.initial_x(None))
    for k in range(1500):
        info, state = algorithm.round(case.federation, Server(case.problem, None), state, k)
    x = case.problem.outer_solution(case.mean)
    v = case.problem.v_solution(case.mean, case.problem.inner_solution(case.mean, x))
    assert (state.x - x).norm() < 1e-3 * x.norm()
    assert (state.solver.v - v).norm() < 1e-3 * v.norm()
    assert info.metrics["residual"] < 1e-3
    assert case.federation.traffic.exchanges == 1500


def local_steps(conv, count, v):
    """Return y, v and the mean cross product of SimFBO's local steps, by the plain derivatives."""
    problem, x = conv.problem, torch.ones(len(conv.batch)).double()
    _, b = outer_gradients(problem, x, conv.y, conv.batch)
    y, crosses = conv.y, []
    for _ in range(count):
        H = CURVATURES["gauss-newton"].once(problem, x, y, conv.batch, 0.2)
        crosses.append(cross_product(problem, x, y, conv.batch, v))
        y, v = (
            y - 0.1 * inner_gradient(problem, x, y, conv.batch),
            v - 0.3 * (H.product(v) - b),
        )
    return y, v, b, sum(crosses) / count


def test_simfbo_does_its_local_steps(conv):
    federation = LocalFederation.of(conv.problem, [conv.batch])
    settings = CurvatureSettings("gauss-newton", damping=0.2)
    algorithm = SimFBO(0.3, settings, LocalSteps(3, 0.1, 0), OuterStep(2.0, "gradient"))
    start = ServerState(conv.y, solver=SolverState(v=conv.v))
    _, state = algorithm.round(federation, Server(conv.problem, conv.batch), start, 0)
    y, v, b, cross = local_steps(conv, 3, conv.v)
    torch.testing.assert_close(state.y, y)
    torch.testing.assert_close(state.solver.v, projected(v, b, 0.2, 0)[0])
    weights = (1 + 2.0 * cross).clamp(0, 1)
    torch.testing.assert_close(federation.state(0).x.double(), weights, rtol=1e-5, atol=1e-6)


def test_without_noise_and_memory_storm_is_simfbo_one_step_later(conv):
    """With a = 1 the momentum is the newest gradient: the next step starts with it."""
    federation = LocalFederation.of(conv.problem, [conv.batch])
    settings = CurvatureSettings("gauss-newton", damping=0.2)
    still = OuterStep(0.0, "gradient")
    algorithm = FedBiOAcc(0.3, settings, Storm(1.0), LocalSteps(3, 0.1, 0), still)
    start = ServerState(conv.y, solver=SolverState(v=0.01 * conv.v))
    _, state = algorithm.round(federation, Server(conv.problem, conv.batch), start, 0)
    y, v, _, _ = local_steps(conv, 3, 0.01 * conv.v)
    torch.testing.assert_close(state.y, y)
    torch.testing.assert_close(state.solver.v, v)
    ones = torch.ones(len(conv.batch)).double()
    expected = inner_gradient(conv.problem, ones, y, conv.batch)
    torch.testing.assert_close(state.own["y_momentum"], expected)


def test_momentum_has_less_noise_than_a_minibatch():
    """At a point that hardly moves ω tends to the full gradient; that of a minibatch does not."""
    case = noisy_case()
    errors = []
    for a in (0.1, 1.0):
        federation = LocalFederation.of(case.problem, [case.batch])
        algorithm = FedBiOAcc(
            1e-6, CurvatureSettings("gauss-newton"), Storm(a), LocalSteps(5, 1e-6, 3), OUTER
        )
        state, error = ServerState(case.y), 0.0
        for k in range(20):
            _, state = algorithm.round(federation, Server(case.problem, case.batch), state, k)
            x = federation.state(0).x.double()
            full = inner_gradient(case.problem, x, state.y, case.batch)
            error += float((state.own["y_momentum"] - full).square().sum())
        errors.append(error)
    assert errors[0] < 0.3 * errors[1]


def noisy_case():
    """Return softmax regression on noise: minibatches of 3 differ widely."""
    source = generator(0, "local bilevel")
    layer = nn.Linear(5, 3).double()
    nn.init.normal_(layer.weight, generator=source)
    nn.init.zeros_(layer.bias)
    problem = Reweighting(FlatModel(layer), l2=0.1)
    inputs = torch.randn(40, 5, generator=source).double()
    batch = LabelledBatch.of(inputs, torch.randint(3, (40,), generator=source))
    return SimpleNamespace(problem=problem, batch=batch, y=problem.model.initial())


@pytest.mark.parametrize("damping", [0.0, 0.5])
def test_v_stays_in_its_ball(damping):
    b, v = torch.ones(4), torch.full((4,), 10.0)
    found, sentences = projected(v, b, damping, 0)
    assert float(found.norm()) == pytest.approx(4.0 if damping else 20.0)
    assert sentences == ()
    zero, said = projected(replace_nan(v), b, damping, 6)
    assert bool((zero == 0).all())
    assert "round 7" in said[0]


def replace_nan(v):
    return torch.where(torch.arange(len(v)) == 0, torch.nan, v)


def test_samples_that_no_step_saw_keep_their_weight_and_agreement():
    case = noisy_case()
    for algorithm in (
        SimFBO(local=LocalSteps(2, 0.1, 4)),
        FedBiOAcc(local=LocalSteps(2, 0.1, 4)),
    ):
        federation = LocalFederation.of(case.problem, [case.batch])
        server, state = Server(case.problem, case.batch), ServerState(case.y)
        state = replace(state, solver=SolverState(v=torch.linspace(-1, 1, len(case.y)).double()))
        algorithm.round(federation, server, state, 0)
        after = federation.state(0)
        assert 1 <= int((after.x != 1).sum()) <= 8
        assert int((after.agreement != 1).sum()) == 8
