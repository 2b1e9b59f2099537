"""Algorithm 1 on problems with known answers."""

from dataclasses import replace

import pytest
import torch
from torch.func import grad, jacrev

from conftest import quadratic_case
from fedsift import Exact, Iterative, LocalSteps, OuterStep, solve
from fedsift.algorithms import CommFedBiO, Server, ServerState
from fedsift.client import Client
from fedsift.compress import Identity, TopK, feedback_for
from fedsift.federation import LocalFederation
from fedsift.hypergradient import Constant, CurvatureSettings
from fedsift.problem import LabelledBatch, inner_gradient

FULL = LocalSteps(steps=20, lr=0.05, batch_size=0)


@pytest.mark.parametrize(
    ("estimator", "tolerance"),
    [
        (Exact(), 1e-4),
        (Iterative(feedback_for(Identity(10)), 5, Constant(0.15)), 1e-4),
        # With a constant step, Top-k's error circles around the solution.
        (Iterative(feedback_for(TopK(10, 5)), 5, Constant(0.1)), 0.05),
    ],
    ids=["exact", "iterative", "topk"],
)
def test_it_finds_the_outer_solution_of_a_quadratic_federation(estimator, tolerance):
    case = quadratic_case(clients=1, length=10, outer_length=3)
    problem = case.problem
    found = solve(
        problem,
        case.federation,
        y=torch.zeros(10).double(),
        x=problem.initial_x(None),
        method=CommFedBiO(estimator, FULL, OuterStep(0.5, "gradient")),
        rounds=200,
    )
    # One client: local steps have no drift, so the fixed point is the exact solution.
    x = problem.outer_solution(case.mean)
    y = problem.inner_solution(case.mean, x)
    assert (found.x - x).norm() < tolerance * x.norm()
    assert (found.y - y).norm() < tolerance * y.norm()


def test_one_round_with_private_weights_follows_the_equations(conv):
    problem, n = conv.problem, len(conv.batch)
    halves = [torch.arange(0, 4), torch.arange(4, n)]
    parts = [LabelledBatch.of(conv.batch.inputs[h], conv.batch.labels[h]) for h in halves]
    federation = LocalFederation(Client(m, problem, part) for m, part in enumerate(parts))
    settings = CurvatureSettings("gauss-newton", damping=0.1)
    outer, local = OuterStep(3.0, "gradient"), LocalSteps(1, 0.1, 0)
    algorithm = CommFedBiO(Exact(settings), local, outer)
    server = Server(problem, conv.batch)
    _, state = algorithm.round(federation, server, ServerState(conv.y), 0)

    ones = torch.ones(n).double()
    pooled = LabelledBatch.of(conv.batch.inputs, conv.batch.labels)
    y = conv.y - 0.1 * inner_gradient(problem, ones, conv.y, pooled)
    torch.testing.assert_close(state.y, y)
    J = jacrev(lambda y_: problem.outputs(y_, pooled))(y)
    p = problem.outputs(y, pooled).softmax(dim=1)
    Q = (torch.diag_embed(p) - p.unsqueeze(2) * p.unsqueeze(1)) / n
    H = torch.einsum("nid,nij,nje->de", J, Q, J) + 0.101 * torch.eye(len(y)).double()
    v = torch.linalg.solve(H, grad(lambda y_: problem.outer_loss(ones, y_, pooled))(y))
    own = LabelledBatch.of(pooled.inputs, p.argmax(dim=1))
    with_label, with_own = (
        jacrev(lambda y_, b=batch: problem.sample_losses(y_, b))(y) @ v for batch in (pooled, own)
    )
    scores = with_label - problem.bootstrap * with_own
    expected = (ones + 3.0 * scores / n).clamp(0, 1)
    weights = torch.cat([federation.state(m).x for m in (0, 1)]).double()
    torch.testing.assert_close(weights, expected, rtol=1e-5, atol=1e-6)
    assert (expected < 1).any()
    assert state.x is None  # the server holds no part of a private x


def test_weights_never_travel(conv):
    problem = conv.problem
    federation = LocalFederation.of(problem, [conv.batch])
    replies = []
    ask = federation.ask
    federation.ask = lambda request, clients: (replies.extend(r := ask(request, clients)), r)[1]
    algorithm = CommFedBiO(Exact(CurvatureSettings("gauss-newton", 0.1)), LocalSteps(1, 0.1, 0))
    algorithm.round(federation, Server(problem, conv.batch), ServerState(conv.y), 0)
    names = {name for reply in replies for name in (*reply.arrays, *reply.scalars)}
    # `residual` is a sketch of the product, `outer_square` one number: the mean square of ∇h.
    assert names == {
        *("update", "loss", "product", "curvature", "error"),
        *("residual", "outer_square"),
    }
    n = len(conv.batch)
    dense = [a for reply in replies for a in reply.arrays.values() if isinstance(a, torch.Tensor)]
    assert all(len(a) != n for a in dense)


def test_a_failed_estimate_leaves_x_alone(quadratic):
    """Negative curvature everywhere: neither v nor ∇_y F is better than v = 0."""
    clients = quadratic.federation.clients
    for m, site in clients.items():
        clients[m] = replace(site, batch=replace(site.batch, A=-site.batch.A))
    estimator = Iterative(feedback_for(Identity(40)), 100, Constant(10.0))
    state = ServerState(torch.zeros(40).double(), quadratic.problem.initial_x(None))
    algorithm = CommFedBiO(estimator, FULL, OuterStep(0.5, "gradient"))
    info, after = algorithm.round(quadratic.federation, Server(quadratic.problem, None), state, 0)
    assert torch.equal(after.x, state.x)
    assert any("diverged" in event for event in info.events)


def test_a_fresh_cohort_helps_the_estimator_if_it_is_asked_for():
    """As Algorithms 2 and 3 are listed; otherwise the clients of the local steps do."""
    asked = {}
    for fresh in (False, True):
        case = quadratic_case(clients=8)
        estimator = Iterative(feedback_for(Identity(40)), 2, Constant(0.05))
        algorithm = CommFedBiO(estimator, FULL, OuterStep(0.5, "gradient"), fresh)
        ask, seen = case.federation.ask, []

        def spy(request, clients, ask=ask, seen=seen):
            seen.append((request.action, tuple(clients)))
            return ask(request, clients)

        case.federation.ask = spy
        state = ServerState(torch.zeros(40).double(), case.problem.initial_x(None))
        algorithm.round(case.federation, Server(case.problem, None, cohort=3), state, 0)
        asked[fresh] = dict(seen)
    assert asked[False]["product"] == asked[False]["outer"] == asked[False]["train"]
    assert asked[True]["product"] == asked[True]["outer"] != asked[True]["train"]
    assert asked[True]["train"] == asked[False]["train"]
