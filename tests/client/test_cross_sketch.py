"""Line 4 of Algorithm 3: both sketches in one reply, by dense matrices; never of a private x."""

from dataclasses import replace

import pytest
import torch

from conftest import quadratic_case
from fedsift.algorithms import Server, ServerState
from fedsift.algorithms.comm_fedbio import CommFedBiO
from fedsift.algorithms.outer_step import OuterStep
from fedsift.client import answer
from fedsift.federation import LocalFederation
from fedsift.hypergradient import NonIterative, SolverState
from fedsift.hypergradient.non_iterative import SketchedSystem
from fedsift.messages import Request, scalars_of
from fedsift.problem.quadratic import random_quadratic
from fedsift.problem.sgd import LocalSteps


def _rounds(outer_length=6, rounds=3):
    problem, clients = random_quadratic(3, 40, outer_length, condition=1.5)
    federation, server = LocalFederation.of(problem, clients), Server(problem, None)
    algorithm = CommFedBiO(NonIterative(30, 60), LocalSteps(lr=0.1), OuterStep(0.1, "gradient"))
    state = ServerState(torch.zeros_like(problem.target), problem.initial_x(None))
    for k in range(rounds):
        _, state = algorithm.round(federation, server, state, k)
    return federation.traffic.exchanges, state.x


def test_the_cross_product_is_that_of_dense_matrices():
    case = quadratic_case(length=40, condition=3.0, clients=3)
    estimate, _ = NonIterative(8, 16).estimate(case.cohort, case.point, SolverState())
    torch.testing.assert_close(estimate.cross, -case.mean.B.T @ estimate.v)


@pytest.fixture
def always_used(monkeypatch):
    """Every v is used, however good; return what else is changed of the estimates."""
    changes, estimate = {"usable": True}, NonIterative.estimate

    def changed(self, *given):
        found, state = estimate(self, *given)
        return replace(found, **changes), state

    monkeypatch.setattr(NonIterative, "estimate", changed)
    return changes


def test_it_takes_one_exchange_less_and_gives_the_same_x(always_used):
    exchanges, x = _rounds()
    assert exchanges == 3 * 3  # train, sketch, measure
    always_used["cross"] = None
    asked, same = _rounds()
    assert asked == 3 * 4
    torch.testing.assert_close(x, same)


@pytest.mark.usefixtures("always_used")
def test_a_large_x_is_asked_for_along_one_direction_only():
    exchanges, _ = _rounds(outer_length=61)
    assert exchanges == 3 * 4


def test_a_client_gives_no_cross_sketch_of_its_own_x(conv):
    federation = LocalFederation.of(conv.problem, [conv.batch])
    scalars = scalars_of(SketchedSystem(4, 0, 8, 1))
    request = Request("sketch-both", 0, {"y": conv.y}, scalars)
    reply, _ = answer(federation.clients[0], federation.state(0), request)
    assert "gives no cross sketch" in reply.error
    assert not reply.arrays


@pytest.mark.parametrize("rows", [3, 5])
def test_it_has_a_column_for_every_row_of_the_subspace(rows):
    case = quadratic_case(length=40, condition=3.0, clients=2)
    seen = []
    ask = case.cohort.federation.ask

    def spy(request, clients):
        replies = ask(request, clients)
        seen.extend(r.arrays["cross"].shape for r in replies if "cross" in r.arrays)
        return replies

    case.cohort.federation.ask = spy
    NonIterative(rows, 2 * rows).estimate(case.cohort, case.point, SolverState())
    assert seen == [(6, rows)] * 2
