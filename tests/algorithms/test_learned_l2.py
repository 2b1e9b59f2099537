"""L2 as the outer variable: its hypergradient against finite differences, and a bad start."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, one_hot

from fedsift.algorithms import LocalSteps, OutOfFold, Server, ServerState
from fedsift.algorithms.learned_l2 import LearnedL2, curvature, judged_gradient, without_intercept
from fedsift.experiment.run import execute
from fedsift.federation import LocalFederation
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.linear_head import logits
from tiny import tiny_config

SAMPLES, WIDTH, CLASSES, FOLDS = 40, 3, 3, 2


@pytest.fixture
def clean():
    """Features with a column of ones, labels, folds; in float64."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (SAMPLES,), generator=random)
    x = torch.eye(CLASSES, WIDTH)[labels] + torch.randn(SAMPLES, WIDTH, generator=random)
    features = torch.cat([x, torch.ones(SAMPLES, 1)], dim=1).double()
    return features, labels, torch.arange(SAMPLES) % FOLDS


def loss_of(W, features, labels):
    return cross_entropy(logits(W, features), labels)


def fitted(l2, features, labels, steps=4000, lr=0.5):
    """Return the head of lowest loss on all samples, by plain gradient descent."""
    W = torch.zeros(CLASSES, WIDTH + 1, dtype=torch.float64)
    for _ in range(steps):
        residuals = (logits(W, features).softmax(1) - one_hot(labels, CLASSES)) / len(labels)
        W = W - lr * (residuals.mT @ features + l2 * without_intercept(W))
    return W


def other_labels(labels):
    """Those that heads train on: F must not be stationary where they are fitted."""
    return torch.where(torch.arange(SAMPLES) % 5 == 0, (labels + 1) % CLASSES, labels)


def test_the_gradient_of_the_judged_loss(clean):
    features, labels, folds = clean
    heads = torch.randn(FOLDS, CLASSES, WIDTH + 1, dtype=torch.float64, requires_grad=True)
    z = logits(heads, features)
    (expected,) = torch.autograd.grad(cross_entropy(z[range(SAMPLES), folds], labels), heads)
    found = judged_gradient(z.detach().softmax(dim=2), features, labels, folds)
    torch.testing.assert_close(found, expected)


def test_the_curvature_is_the_hessian_of_the_loss_whatever_the_labels(clean):
    features, labels, _ = clean
    source = torch.Generator().manual_seed(1)
    heads, v = torch.randn(2, 1, CLASSES, WIDTH + 1, generator=source, dtype=torch.float64)
    p = logits(heads, features).softmax(dim=2)
    for given in (labels, other_labels(labels)):
        H = torch.func.hessian(lambda W, given=given: loss_of(W, features, given))(heads[0])
        expected = torch.einsum("cdef,ef->cd", H, v[0])
        torch.testing.assert_close(curvature(p, features, v)[0], expected)


@pytest.mark.parametrize("l2", [0.02, 0.3])
def test_the_hypergradient_is_that_of_finite_differences(clean, l2):
    """Heads are fitted to labels of which a fifth are wrong, and judged on the right ones."""
    features, labels, folds = clean
    trained = other_labels(labels)

    def judged(value):
        W = fitted(value, features, trained)
        return float(loss_of(W, features, labels))

    step = 1e-4
    expected = (judged(l2 * (1 + step)) - judged(l2 * (1 - step))) / (2 * step)  # per log ω
    W = fitted(l2, features, trained)
    heads = W.repeat(FOLDS, 1, 1)  # each judges its fold; together all samples
    local = LocalSteps(4000, 0.5, 0)
    after = LearnedL2.start(l2, heads).moved(heads, features, labels, folds, local)
    assert after.squares**0.5 == pytest.approx(abs(expected), rel=1e-4)
    assert (after.value < l2) == (expected > 0)


def test_the_first_move_is_a_factor_of_e_and_later_ones_are_shorter(clean):
    features, labels, folds = clean
    heads = torch.randn(FOLDS, CLASSES, WIDTH + 1, dtype=torch.float64)
    local = LocalSteps(5, 0.1, 0)
    first = LearnedL2.start(0.1, heads).moved(heads, features, labels, folds, local)
    assert abs(torch.tensor(first.value / 0.1).log()) == pytest.approx(1.0, abs=1e-6)
    second = first.moved(heads, features, labels, folds, local)
    assert abs(torch.tensor(second.value / first.value).log()) < 1.0


def test_it_stays_where_a_step_goes_down(clean):
    features, labels, folds = clean
    heads = torch.randn(FOLDS, CLASSES, WIDTH + 1, dtype=torch.float64)
    far = LearnedL2(9.0, 0.0, -100 * without_intercept(heads))  # its slope says: much more
    local = LocalSteps(1, 0.1, 0)
    assert far.moved(heads, features, labels, folds, local).value <= 1 / local.lr


def test_heads_that_are_zero_move_nothing(clean):
    features, labels, folds = clean
    heads = torch.zeros(FOLDS, CLASSES, WIDTH + 1, dtype=torch.float64)
    after = LearnedL2.start(0.1, heads).moved(heads, features, labels, folds, LocalSteps(5, 0.1))
    assert after.value == 0.1
    assert after.squares == 0.0


def test_it_is_read_from_the_state_that_it_was_written_to(clean):
    heads = torch.randn(FOLDS, CLASSES, WIDTH + 1, dtype=torch.float64)
    found = LearnedL2.of(LearnedL2(0.3, 1.5, heads).arrays())
    assert (found.value, found.squares) == (0.3, 1.5)
    assert torch.equal(found.v, heads)


def drawn(n, seed, wrong=0.0):
    random = torch.Generator().manual_seed(seed)
    true = torch.randint(CLASSES, (n,), generator=random)
    x = 2.0 * torch.eye(CLASSES, 5)[true] + torch.randn(n, 5, generator=random)
    flip = torch.rand(n, generator=random) < wrong
    return LabelledBatch.of(x, torch.where(flip, (true + 1) % CLASSES, true))


def run(l2, *, learns):
    problem = Reweighting(FlatModel(nn.Linear(5, CLASSES)), l2)
    sites = LocalFederation.of(problem, [drawn(120, seed, wrong=0.3) for seed in range(3)])
    server = Server(problem, drawn(60, 9))
    state = ServerState(problem.model.initial())
    algorithm = OutOfFold(LocalSteps(3, 0.1, 16), learns=learns)
    for k in range(15):
        info, state = algorithm.round(sites, server, state, k)
    return info.metrics


def test_out_of_fold_recovers_from_a_bad_start():
    good, bad, learned = run(1e-3, learns=False), run(3.0, learns=False), run(3.0, learns=True)
    assert bad["l2"] == 3.0
    assert learned["l2"] < 1.0
    gap = bad["judged_loss"] - good["judged_loss"]
    assert learned["judged_loss"] < good["judged_loss"] + 0.25 * gap


def test_without_it_l2_stays_that_of_the_problem():
    assert run(1e-3, learns=False)["l2"] == 1e-3


def test_a_resumed_run_has_the_same_heads_and_l2(tmp_path):
    def of(rounds):
        return tiny_config("out-of-fold", {}, rounds=rounds, l2=1.0, learn_l2=True)

    whole = execute(of(4), tmp_path / "whole").state
    execute(of(2), tmp_path / "parts")
    parts = execute(of(4), tmp_path / "parts", resume=True).state
    assert torch.equal(whole.y, parts.y)
    assert float(whole.own["l2"]) == float(parts.own["l2"]) != 1.0
