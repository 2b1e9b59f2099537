"""Single loop: the same solution as Algorithm 1, in one exchange a round."""

from dataclasses import replace

import pytest
import torch

from conftest import quadratic_case
from fedsift.algorithms import LocalSteps, OuterStep, Server, ServerState, SingleLoop
from fedsift.compress import CountSketch, Identity, TopK, feedback_for, wire
from fedsift.federation import CompressedFederation, LocalFederation
from fedsift.hypergradient import CurvatureSettings, SolverState
from fedsift.problem import LabelledBatch, cross_product, inner_gradient, outer_gradients
from fedsift.problem.curvature import CURVATURES

PLAIN = CurvatureSettings("hessian")
LOCAL = LocalSteps(steps=20, lr=0.05, batch_size=0)


def _run(case, algorithm, rounds, server=None):
    server = server or Server(case.problem, None)
    state = ServerState(torch.zeros_like(case.problem.target), case.problem.initial_x(None))
    for k in range(rounds):
        info, state = _round(case.federation, algorithm, server, state, k)
    return info, state


def _round(federation, algorithm, server, state, k):
    """Do a round as a run does it, v being sent by differences."""
    layer = CompressedFederation(federation, sent=state.sent)
    info, state = algorithm.round(layer, server, state, k)
    return info, replace(state, sent=layer.sent())


@pytest.mark.parametrize(
    ("up", "down", "tolerance"),
    [
        (Identity(10), 1.0, 1e-4),
        (Identity(10), 10.0, 1e-4),
        (TopK(10, 5), 1.0, 0.05),
    ],
    ids=["plain", "compressed down", "compressed up"],
)
def test_it_converges_to_the_solution_of_algorithm_1(up, down, tolerance):
    case = quadratic_case(clients=1, length=10, outer_length=3)
    algorithm = SingleLoop(feedback_for(up), down, 0.02, PLAIN, LOCAL, OuterStep(0.1, "gradient"))
    _, state = _run(case, algorithm, 800)
    x = case.problem.outer_solution(case.mean)
    v = case.problem.v_solution(case.mean, case.problem.inner_solution(case.mean, x))
    assert (state.x - x).norm() < tolerance * x.norm()
    assert (state.solver.v - v).norm() < tolerance * v.norm()


def test_a_round_is_one_exchange(quadratic):
    algorithm = SingleLoop(feedback_for(TopK(40, 4)), 20.0, 0.05, PLAIN, LOCAL)
    _run(quadratic, algorithm, 7)
    assert quadratic.federation.traffic.exchanges == 7


def test_one_round_does_everything_at_the_same_point(conv):
    problem, batch = conv.problem, LabelledBatch.of(conv.batch.inputs, conv.batch.labels)
    federation = LocalFederation.of(problem, [batch])
    settings, d = CurvatureSettings("gauss-newton", damping=0.2), len(conv.y)
    local, outer = LocalSteps(1, 0.1, 0), OuterStep(2.0, "gradient")
    algorithm = SingleLoop(feedback_for(Identity(d)), 1.0, 0.3, settings, local, outer)
    ones = torch.ones(len(batch)).double()
    _, b = outer_gradients(problem, ones, conv.y, conv.batch)
    v = 0.1 * b + 1e-3 * conv.v  # better than v = 0, so that it is not given up
    start = ServerState(conv.y, solver=SolverState(v=v))
    _, state = algorithm.round(federation, Server(problem, conv.batch), start, 0)

    y = conv.y - 0.1 * inner_gradient(problem, ones, conv.y, batch)
    torch.testing.assert_close(state.y, y)
    cross = cross_product(problem, ones, conv.y, batch, v)
    weights = (ones + 2.0 * cross).clamp(0, 1)
    torch.testing.assert_close(federation.state(0).x.double(), weights, rtol=1e-5, atol=1e-6)
    H = CURVATURES["gauss-newton"].once(problem, ones, conv.y, batch, 0.2)
    torch.testing.assert_close(state.solver.v, v - 0.3 * (H.product(v) - b))


def test_a_v_with_nothing_of_the_solution_is_given_up_for_the_gradient(quadratic):
    algorithm = SingleLoop(feedback_for(Identity(40)), 1.0, 0.05, PLAIN, LOCAL)
    state = ServerState(torch.zeros(40).double(), quadratic.problem.initial_x(None))
    bad = replace(state, solver=SolverState(v=-quadratic.v, fresh=False))
    info, after = algorithm.round(quadratic.federation, Server(quadratic.problem, None), bad, 0)
    assert info.metrics["residual"] > 1.0
    torch.testing.assert_close(after.solver.v, 0.05 * quadratic.point.outer_gradient)
    assert (after.solver.epoch, after.solver.fresh) == (1, True)


def test_v_travels_by_differences(quadratic):
    """At rate 20 two of 40 numbers are sent, of a v that starts at zero none."""
    algorithm = SingleLoop(feedback_for(Identity(40)), 20.0, 0.05, PLAIN, LOCAL)
    state = ServerState(torch.zeros(40).double(), quadratic.problem.initial_x(None))
    server, last = Server(quadratic.problem, None), 0
    for k in range(3):
        _, state = _round(quadratic.federation, algorithm, server, state, k)
        sent = quadratic.federation.traffic.bytes_down - last
        last += sent
        assert sent / len(quadratic.clients) < wire.size(state.y) + wire.size(state.x) + 540
    assert int((state.sent["v"] != 0).sum()) <= 2 * 2


def test_divergence_resets_and_sends_v_whole_again(quadratic):
    algorithm = SingleLoop(feedback_for(Identity(40)), 20.0, 5.0, PLAIN, LOCAL)
    state = ServerState(torch.zeros(40).double(), quadratic.problem.initial_x(None))
    events = []
    for k in range(12):
        server = Server(quadratic.problem, None)
        info, state = _round(quadratic.federation, algorithm, server, state, k)
        events += info.events
    assert any("the solver diverged" in e for e in events)
    assert state.solver.step_scale < 1
    assert bool(torch.isfinite(state.y).all())


def test_sketch_and_curvature_batch_run_with_private_weights(conv):
    problem, d = conv.problem, len(conv.y)
    federation = LocalFederation.of(problem, [conv.batch, conv.batch])
    settings = CurvatureSettings("gauss-newton", 0.5, batch_size=5)
    algorithm = SingleLoop(
        feedback_for(CountSketch.at_rate(d, 4)),
        TopK.at_rate(d, 4),
        0.1,
        settings,
        LocalSteps(2, 0.1, 6),
    )
    state = ServerState(conv.y)
    for k in range(4):
        info, state = algorithm.round(federation, Server(problem, conv.batch), state, k)
    assert info.metrics["v_norm"] > 0
    assert bool((federation.state(0).x < 1).any())
