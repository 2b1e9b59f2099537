"""Algorithm 3 on quadratic federations."""

import math
from dataclasses import replace

import pytest
import torch

from conftest import quadratic_case
from fedsift.compress import SparseEmbedding
from fedsift.errors import ConfigError, InputError
from fedsift.federation import LocalFederation
from fedsift.hypergradient import CurvatureSettings, NonIterative, Point, SolverState
from fedsift.hypergradient.non_iterative import NON_ITER
from fedsift.keys import BuildContext, Settings
from fedsift.messages import Cohort
from fedsift.problem.curvature import CURVATURES
from fedsift.randomness import derive


def test_it_solves_the_sketched_system_of_dense_matrices(quadratic):
    solver = NonIterative(8, 16, seed=5)
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    S1, S2 = (
        SparseEmbedding(r, 40, derive(5, 0, name)).dense()
        for r, name in ((8, "tau_1"), (16, "tau_2"))
    )
    b = quadratic.point.outer_gradient
    omega = torch.linalg.pinv(S2 @ quadratic.mean.A @ S1.T) @ (S2 @ b)
    # Of the length that is no worse than v = 0, if that is another one.
    sent = estimate.direction_arrays["omega"]
    torch.testing.assert_close(_unit(sent), _unit(omega))
    torch.testing.assert_close(estimate.v, S1.T @ sent)
    true = float((quadratic.mean.A @ estimate.v - b).norm() / b.norm())
    assert true < 1.0
    assert estimate.residual == pytest.approx(true, rel=0.2)


def _unit(vector):
    return vector / vector.norm()


def test_galerkin_gives_the_best_v_of_the_subspace(conv):
    """Least squares on J: the Gauss-Newton system in the span of S_1ᵀ, by dense algebra."""
    federation = LocalFederation.of(conv.problem, [conv.batch])
    b, settings = conv.y.cos(), CurvatureSettings("gauss-newton", damping=0.2)
    solver = NonIterative(6, 6, settings, "galerkin", seed=5)
    federation.states[0] = replace(federation.state(0), x=conv.x)
    estimate, _ = solver.estimate(Cohort(federation, (0,)), Point(conv.y, b, 0), SolverState())
    d = len(conv.y)
    operator = CURVATURES["gauss-newton"].once(conv.problem, conv.x, conv.y, conv.batch, 0.2)
    H = torch.stack([operator.product(e) for e in torch.eye(d).double()])
    S1 = SparseEmbedding(6, d, derive(5, 0, "tau_1")).dense()
    omega = torch.linalg.solve(S1 @ H @ S1.T, S1 @ b)
    best = S1.T @ omega
    torch.testing.assert_close(_unit(estimate.v), _unit(best))
    # The energy ½ vᵀHv − bᵀv is lowest there: any other ω of the subspace has more.
    energy = lambda v: float(0.5 * v @ H @ v - b @ v)  # noqa: E731
    for i in range(6):
        for step in (0.1, -0.1):
            assert energy(best + step * S1[i]) > energy(best)


def test_an_unknown_system_is_refused():
    with pytest.raises(InputError, match="'normal' is unknown"):
        NonIterative(4, 8, system="normal")


def test_error_falls_as_the_sketch_grows(capsys):
    """With r_2 = r_1², as Theorem 2 asks; r_2 = O(r_1) is not enough where r_1 nears d."""
    case = quadratic_case(length=60, condition=3.0, clients=2)
    sizes, errors = [6, 24, 96], []
    for r1 in sizes:
        runs = []
        for seed in range(10):
            solver = NonIterative(r1, r1 * r1, seed=seed)
            estimate, _ = solver.estimate(case.cohort, case.point, SolverState())
            runs.append(float((estimate.v - case.v).norm() / case.v.norm()))
        errors.append(sorted(runs)[5])
    slope = math.log(errors[-1] / errors[0]) / math.log(sizes[-1] / sizes[0])
    with capsys.disabled():
        shown = ", ".join(f"{e:.3f}" for e in errors)
        print(f"\nnon-iterative: ‖v - v*‖/‖v*‖ at r1 = {sizes}: {shown} (slope {slope:.2f})")
    assert errors == sorted(errors, reverse=True)
    assert slope < -0.2


def test_reported_residual_estimates_the_true_one(quadratic):
    for seed in range(3):
        known, estimated = (
            NonIterative(8, 400, seed=seed, check_residual=check).estimate(
                quadratic.cohort, quadratic.point, SolverState()
            )[0]
            for check in (True, False)
        )
        assert 0.7 < estimated.residual / known.residual < 1.4


def test_fresh_seeds_change_with_the_round_only(quadratic):
    later = replace(quadratic.point, round=3)
    for fresh in (True, False):
        solver = NonIterative(8, 16, fresh_seeds=fresh)
        v0, v3 = (
            solver.estimate(quadratic.cohort, p, SolverState())[0].v
            for p in (quadratic.point, later)
        )
        assert torch.equal(v0, v3) != fresh


def test_a_rank_deficient_system_is_named_and_solved_with_the_least_norm(quadratic):
    # Twice as many columns as parameters: ω is not unique, v is.
    solver = NonIterative(80, 800, CurvatureSettings())
    estimate, _ = solver.estimate(quadratic.cohort, quadratic.point, SolverState())
    assert estimate.usable
    assert "rank" in (estimate.advice or "")
    assert float(estimate.direction_arrays["omega"].norm()) < 10 * float(quadratic.v.norm())


def test_only_the_small_system_travels(quadratic):
    before = quadratic.federation.traffic
    NonIterative(4, 8).estimate(quadratic.cohort, quadratic.point, SolverState())
    sent = quadratic.federation.traffic - before
    assert sent.exchanges == 2  # the system; the sketch of the product that judges v
    cross = 4 * quadratic.problem.outer_length * 8  # of the small shared x, which travels along
    assert sent.bytes_up < len(quadratic.clients) * (4 * 8 * 8 + cross + 320 * 8 + 300)


@pytest.mark.parametrize(("r1", "r2"), [(0, 4), (8, 4)])
def test_impossible_sizes_are_refused(r1, r2):
    with pytest.raises(InputError, match="r2 >= r1 >= 1"):
        NonIterative(r1, r2)


def test_a_subspace_may_be_the_whole_space_but_not_more():
    settings = Settings.of(NON_ITER.groups, {"r1": 5, "damping": 0.5})
    assert NON_ITER.build(settings, BuildContext(5)).r1 == 5
    with pytest.raises(ConfigError, match="r1 is 5 but the model has 4 parameters"):
        NON_ITER.build(settings, BuildContext(4))


def test_rows_at_rate_send_about_d_over_rate_numbers():
    r1, r2 = NonIterative.rows_at_rate(112_074, 20)
    assert r2 == 2 * r1
    assert 0.95 < r1 * r2 / (112_074 / 20) <= 1.0
