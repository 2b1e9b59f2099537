"""Algorithm 2 on quadratic federations with known v*."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from conftest import quadratic_case
from fedsift.compress import CountSketch, Identity, TopK, feedback_for
from fedsift.hypergradient import (
    Constant,
    CurvatureSettings,
    Guard,
    Iterative,
    SolverState,
    Theorem,
)

COMPRESSORS = {
    "identity": Identity,
    "topk": lambda d: TopK(d, d // 50),
    "count-sketch": lambda d: CountSketch(d, 5, 32, 0),
}


def _error(case, solver, state=SolverState()):
    estimate, state = solver.estimate(case.cohort, case.point, state)
    return float((estimate.v - case.v).norm() / case.v.norm()), estimate, state


def test_without_compression_it_reaches_the_solution(quadratic):
    solver = Iterative(feedback_for(Identity(40)), 400, Constant(0.1), check_residual=True)
    error, estimate, _ = _error(quadratic, solver)
    assert error < 1e-6
    assert estimate.residual < 1e-6
    assert estimate.residual_is_exact


@pytest.mark.parametrize("name", ["topk", "count-sketch"])
def test_squared_error_falls_at_least_like_one_over_iterations(name, capsys):
    case = quadratic_case(clients=2, length=400, heavy=8)
    iterations = [40, 100, 200, 400]
    squares = []
    for count in iterations:
        solver = Iterative(feedback_for(COMPRESSORS[name](400)), count, Theorem(1.0, 100.0))
        error, estimate, _ = _error(case, solver)
        assert estimate.usable
        squares.append(error**2)
    slope = float(np.polyfit(np.log(iterations), np.log(squares), 1)[0])
    with capsys.disabled():
        print(f"\n{name}: ‖v - v*‖² falls like I^{slope:.2f} over I = 40..400")
    assert slope < -1.0


def test_one_step_replays_the_algorithm_with_dense_matrices(quadratic):
    sketch = CountSketch(40, 5, 8, 3)
    solver = Iterative(feedback_for(sketch), 3, Constant(0.05), guard=Guard(1e9, 1e9))
    _, estimate, state = _error(quadratic, solver)
    H, b = quadratic.mean.A, quadratic.point.outer_gradient
    S, U = sketch.compress, sketch.decompress
    v, e = torch.zeros(40).double(), torch.zeros(5, 8).double()
    for _ in range(3):
        z = 0.05 * S(H @ v).table + e
        delta = U(sketch.wrap(z))
        v = v - (delta - 0.05 * b)
        e = z - S(delta).table
    torch.testing.assert_close(estimate.v, v)
    torch.testing.assert_close(state.memory, e)


def test_topk_keeps_its_error_at_the_clients(quadratic):
    solver = Iterative(feedback_for(TopK(40, 4)), 3, Constant(0.05))
    _, estimate, _ = _error(quadratic, solver)
    b, v = quadratic.point.outer_gradient, torch.zeros(40).double()
    errors = [torch.zeros(40).double() for _ in quadratic.clients]
    total = sum(len(c) for c in quadratic.clients)
    for _ in range(3):
        delta = torch.zeros(40).double()
        for m, client in enumerate(quadratic.clients):
            p = 0.05 * client.A @ v + errors[m]
            sent = torch.zeros_like(p)
            keep = p.abs().topk(4).indices
            sent[keep] = p[keep]
            errors[m] = p - sent
            delta += len(client) / total * sent
        v = v - (delta - 0.05 * b)
    torch.testing.assert_close(estimate.v, v)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_warm_start_in_parts_equals_one_call(name):
    case = quadratic_case(length=400, heavy=8)
    feedback = feedback_for(COMPRESSORS[name](400))
    _, whole, _ = _error(case, Iterative(feedback, 6, Constant(0.05)))
    fresh = quadratic_case(length=400, heavy=8)
    state = SolverState()
    for _ in range(2):
        _, part, state = _error(fresh, Iterative(feedback, 3, Constant(0.05)), state)
    assert torch.equal(whole.v, part.v)


def test_cold_start_forgets(quadratic):
    solver = Iterative(feedback_for(TopK(40, 4)), 3, Constant(0.05), warm_start=False)
    _, first, state = _error(quadratic, solver)
    _, second, _ = _error(quadratic, solver, state)
    assert torch.equal(first.v, second.v)


def test_damping_shifts_the_system(quadratic):
    settings = CurvatureSettings(damping=2.0)
    solver = Iterative(feedback_for(Identity(40)), 400, Constant(0.1), settings)
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    H = quadratic.mean.A + 2.0 * torch.eye(40).double()
    expected = torch.linalg.solve(H, quadratic.point.outer_gradient)
    torch.testing.assert_close(estimate.v, expected)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_reported_residual_is_near_the_true_one(name):
    case = quadratic_case(length=400, heavy=8)
    solver = Iterative(feedback_for(COMPRESSORS[name](400)), 40, Constant(0.02))
    _, estimate, _ = _error(case, solver)
    _, before, _ = _error(
        quadratic_case(length=400, heavy=8), replace(solver, iterations=39, check_residual=True)
    )
    # The estimate is that of the last product, made with v_39; Top-k sees a part of it only.
    factor = {"identity": 1.001, "count-sketch": 1.5, "topk": 10.0}[name]
    assert before.residual / factor < estimate.residual < before.residual * factor


def test_divergence_steps_back_and_recovers(quadratic):
    solver = Iterative(feedback_for(Identity(40)), 50, Constant(0.5))  # 2 / λ_max is about 0.3
    state, failures = SolverState(), 0
    for _ in range(10):
        _, estimate, state = _error(quadratic, solver, state)
        failures += not estimate.usable
        assert bool(torch.isfinite(estimate.v).all())
        if not estimate.usable:
            assert "the solver diverged" in (estimate.advice or "")
            assert "lower solver_lr" in (estimate.advice or "")
    assert 1 <= failures == state.resets < 10
    assert state.step_scale == 0.5**failures
    assert estimate.residual < 1e-3


def test_a_sketch_that_recovers_too_much_is_caught():
    case = quadratic_case(length=500, clients=2)
    sketch = CountSketch(500, 5, 10, 0, heavy=10)  # as many heavy hitters as columns
    solver = Iterative(feedback_for(sketch), 200, Constant(0.05))
    _, estimate, state = _error(case, solver)
    assert not estimate.usable
    assert state.resets == 1
    assert bool(torch.isfinite(estimate.v).all())


def test_negative_curvature_is_named(quadratic):
    clients = [replace(c, A=c.A - 3.0 * torch.eye(40).double()) for c in quadratic.clients]
    case = quadratic_case()
    case.federation.clients = {
        m: replace(site, batch=clients[m]) for m, site in case.federation.clients.items()
    }
    lowest = torch.linalg.eigh(quadratic.mean.A).eigenvectors[:, 0]
    point = replace(case.point, outer_gradient=lowest)
    solver = Iterative(feedback_for(Identity(40)), 3, Constant(0.05))
    estimate, _ = solver.estimate(case.cohort, point, SolverState())
    assert "gauss-newton" in (estimate.advice or "")


def test_resampled_clients_still_find_the_solution_on_average():
    case = quadratic_case(clients=6, length=10)
    cohort = replace(case.cohort, clients=case.cohort.clients[:3])
    fixed, resampled = (
        Iterative(feedback_for(Identity(10)), 500, Theorem(1.0, 100.0), resample=r)
        for r in (False, True)
    )
    errors = {}
    for solver in (fixed, resampled):
        estimate, _ = solver.estimate(cohort, case.point, SolverState())
        errors[solver.resample] = float((estimate.v - case.v).norm() / case.v.norm())
    # Three fixed clients solve another system; three new ones each time nearly the right one.
    assert errors[True] < 0.5 * errors[False]


def test_the_model_travels_once_per_call(quadratic):
    solver = Iterative(feedback_for(TopK(40, 4)), 5, Constant(0.05))
    seen, ask = [], quadratic.federation.ask

    def spy(request, clients):
        seen.append(request)
        return ask(request, clients)

    quadratic.federation.ask = spy
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    assert ["y" in request.arrays for request in seen] == [True, False, False, False]
    assert "y" not in estimate.direction_arrays


def test_measuring_the_residual_costs_topk_no_memory():
    found = []
    for check in (False, True):
        case, state = quadratic_case(), SolverState()
        solver = Iterative(feedback_for(TopK(40, 4)), 3, Constant(0.05), check_residual=check)
        for _ in range(3):
            _, estimate, state = _error(case, solver, state)
        found.append(estimate.v)
    assert torch.equal(*found)
