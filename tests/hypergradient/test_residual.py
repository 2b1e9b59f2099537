"""The residual that estimators report, and that nothing worse than v = 0 is returned."""

import math
from dataclasses import replace

import pytest
import torch

from fedsift.compress import FORMS, CountSketch, TopK, feedback_for
from fedsift.federation import LocalFederation
from fedsift.hypergradient import Constant, Iterative, NonIterative, Point, SolverState, Theorem
from fedsift.hypergradient.residual import Judge, Measured, Witness
from fedsift.messages import Answers, Cohort, Reply
from fedsift.problem import mean_client, random_quadratic
from fedsift.randomness import generator

D = 100
ITERATIVE = [f"{name} {form}" for name in ("topk", "sketch") for form in FORMS]
ESTIMATORS = (*ITERATIVE, "theorem", "non-iter")


def estimator(name, rate, iterations, step, seed):
    if name == "non-iter":
        return NonIterative(*NonIterative.rows_at_rate(D, rate), seed=seed)
    if name == "theorem":
        feedback = feedback_for(TopK.at_rate(D, rate))
        return Iterative(feedback, iterations + 1, Theorem(1.0, 100.0), seed=seed)
    compressor, form = name.split()
    made = TopK.at_rate(D, rate) if compressor == "topk" else CountSketch.at_rate(D, rate, 5, seed)
    return Iterative(feedback_for(made, form), iterations, Constant(step), seed=seed)


def outcome(seed, name):
    """Return (true residual, reported residual) on a random quadratic.

    Condition 1 to 10⁴, rate 1 to 100, every second one heavy, steps up to 2 / L.
    """
    u = torch.rand(4, generator=generator(seed, "residual")).tolist()
    problem, clients = random_quadratic(
        clients=2,
        length=D,
        outer_length=1,
        condition=10 ** (4 * u[0]),
        heavy=None if seed % 2 else 8,
        seed=seed,
    )
    H, b = mean_client(clients).A, -problem.target
    federation = LocalFederation.of(problem, clients)
    cohort = Cohort(federation, tuple(federation.sizes))
    point = Point(torch.zeros_like(b), b, seed, problem.initial_x(None))
    step = 2 * u[2] / float(torch.linalg.eigvalsh(H)[-1])
    solver = estimator(name, 10 ** (2 * u[1]), int(1 + 12 * u[3]), step, seed)
    estimate, _ = solver.estimate(cohort, point, SolverState())
    return float((H @ estimate.v - b).norm() / b.norm()), estimate.residual


def worst(outcomes):
    """Return the largest true residual, and the largest relative error of a reported one."""
    return max(t for t, _ in outcomes), max(abs(said / true - 1) for true, said in outcomes)


def test_nothing_worse_than_zero_is_returned_and_the_residual_is_true():
    """Some of the deep tier's quadratics, one estimator each."""
    largest, error = worst([outcome(s, ESTIMATORS[s // 2 % len(ESTIMATORS)]) for s in range(48)])
    assert largest <= 1.0 + 1e-12
    assert error < 0.2


@pytest.mark.deep
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_thousand_quadratics(name):
    largest, error = worst([outcome(seed, name) for seed in range(1000)])
    assert largest <= 1.0 + 1e-12
    assert error < 0.2


def test_the_check_rejects_an_estimator_that_returns_what_it_has(monkeypatch):
    monkeypatch.setattr(Measured, "scale", 1.0)
    largest, _ = worst([outcome(seed, "sketch listing") for seed in range(12)])
    assert largest > 1.0


def test_the_check_rejects_a_residual_in_the_hash_that_steers_v(monkeypatch):
    """The compressor's own numbers in place of the witness: they do not see what they left out."""
    monkeypatch.setattr(Witness, "sketch", lambda self, length: CountSketch(length, 2, 2, 0))
    _, error = worst([outcome(seed, "topk ef21") for seed in range(12)])
    assert error > 0.2


def judged(product, right, seed=0):
    witness = Witness(seed)
    judge = Judge.of(witness, right)
    replies = (Reply(0, 1, {"residual": witness.seen(product, right)}),)
    return judge.measured(judge.product(Answers(replies)))


@pytest.mark.parametrize("heavy", [2, 8, 2000])
def test_the_witness_is_within_a_fifth_for_sparse_and_dense_vectors(heavy):
    """200 draws each; the largest error is about four standard deviations of 4 %."""
    errors = []
    for seed in range(200):
        p, b = torch.randn(2, 2000, generator=generator(seed, heavy), dtype=torch.float64)
        p[heavy:], b[heavy:] = 0.0, 0.0
        true = float((p - b).norm() / b.norm())
        errors.append(abs(judged(p, b, seed).residual / true - 1))
    assert max(errors) < 0.2


def test_damping_and_shares_are_part_of_the_product():
    b, v, p, q = torch.randn(4, 300, generator=generator(1), dtype=torch.float64)
    witness = Witness(2, damping=0.5)
    judge = Judge.of(witness, b)
    replies = tuple(
        Reply(m, n, {"residual": witness.seen(x, v)}) for m, (n, x) in enumerate(((30, p), (10, q)))
    )
    seen = judge.product(Answers(replies))
    torch.testing.assert_close(seen, judge.sketch.compress(0.75 * p + 0.25 * q + 0.5 * v).table)


@pytest.mark.parametrize(
    ("along", "across", "scale"),
    [
        (1.0, 0.0, 1.0),  # solved
        (0.1, 0.05, 1.0),  # short, but surely better than v = 0
        (-1.0, 0.3, 0.0),  # the other way
        (0.05, 1.0, 0.0),  # hardly along it: not sure
        (math.nan, 0.0, 0.0),
        (1.0, math.inf, 0.0),
    ],
)
def test_how_much_of_v_is_used(along, across, scale):
    assert Measured(along, across).scale == scale


def test_what_is_too_long_gets_the_length_that_is_best_for_it():
    seen = Measured(30.0, 3.0)
    assert seen.residual > 29
    assert seen.least == pytest.approx(3 / math.hypot(30, 3), rel=0.05)
    assert seen.of(seen.scale) == seen.least


def test_where_the_gradient_is_zero_so_is_v():
    zero = torch.zeros(50)
    assert judged(zero, zero).residual == 0.0
    assert judged(torch.ones(50), zero).scale == 0.0


def test_another_hash_is_refused():
    witness, b = Witness(1), torch.ones(50)
    replies = (Reply(0, 1, {"residual": replace(witness, seed=2).seen(b, b)}),)
    with pytest.raises(Exception, match="same compressor"):
        Judge.of(witness, b).product(Answers(replies))
