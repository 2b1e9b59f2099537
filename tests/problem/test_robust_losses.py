"""Every loss against its closed form, on probabilities that can be read off."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.robust_losses import (
    WithLoss,
    corrected,
    early_learning,
    generalised,
    normalised,
    posterior,
    reversed_kl,
    soft,
)

P = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]], dtype=torch.float64)
LABELS = torch.tensor([1, 0])
MATRIX = torch.tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.25, 0.25, 0.5]], dtype=torch.float64)
CROSS_ENTROPY = [-math.log(0.3), -math.log(0.1)]


def test_corrected_is_the_cross_entropy_of_the_label_s_own_probability():
    expected = [-math.log(0.5 * 0.1 + 0.3 * 0.7 + 0.2 * 0.25), -math.log(0.09 + 0.02 + 0.2)]
    assert corrected(P.log(), LABELS, MATRIX).tolist() == pytest.approx(expected)


def test_without_noise_corrected_is_cross_entropy():
    found = corrected(P.log(), LABELS, torch.eye(3).double()).tolist()
    assert found == pytest.approx(CROSS_ENTROPY, rel=1e-4)  # zeros of the matrix are kept above 0


def test_soft_targets_mix_the_losses_of_the_classes():
    q = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
    expected = [-0.5 * math.log(0.5) - 0.5 * math.log(0.3), -math.log(0.8)]
    assert soft(P.log(), q).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(("q", "expected"), [(1.0, [0.7, 0.9]), (1e-9, CROSS_ENTROPY)])
def test_generalised_is_between_absolute_error_and_cross_entropy(q, expected):
    assert generalised(P.log(), LABELS, q).tolist() == pytest.approx(expected)


def test_the_gradient_of_generalised_is_that_of_finite_differences():
    logits, step = P.log().requires_grad_(True), 1e-6
    (gradient,) = torch.autograd.grad(generalised(logits, LABELS, 0.7).sum(), logits)
    for i in range(6):
        moved = torch.zeros(6).double().index_fill_(0, torch.tensor([i]), step).view(2, 3)
        ends = [generalised(P.log() + s * moved, LABELS, 0.7).sum() for s in (1, -1)]
        assert float(gradient.flatten()[i]) == pytest.approx(float(ends[0] - ends[1]) / 2e-6)


def test_early_learning_adds_the_agreement_with_the_target():
    targets = torch.tensor([[0.6, 0.2, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    expected = [CROSS_ENTROPY[0] + 3 * math.log(1 - 0.5 * 0.6 - 0.3 * 0.2), CROSS_ENTROPY[1]]
    assert early_learning(P.log(), LABELS, targets, 3.0).tolist() == pytest.approx(expected)


def test_a_sure_model_that_agrees_with_a_sure_target_has_a_finite_loss():
    sure = torch.tensor([[200.0, 0.0, 0.0]])
    assert torch.isfinite(early_learning(sure, torch.tensor([1]), sure.softmax(1), 3.0)).all()


def test_reversed_kl_weighs_by_the_prediction():
    q = torch.tensor([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]], dtype=torch.float64)
    pairs = zip(P[0].tolist(), q[0].tolist(), strict=True)
    divergence = sum(p * math.log(p / r) for p, r in pairs)
    entropy = [-sum(p * math.log(p) for p in row) for row in P.tolist()]
    found = reversed_kl(P.log(), q.log() + 3.0, 0.2).tolist()
    assert found == pytest.approx([divergence + 0.2 * entropy[0], 0.2 * entropy[1]])


def test_posterior_is_bayes_rule():
    joint = [0.5 * 0.1, 0.3 * 0.7, 0.2 * 0.25]
    expected = [value / sum(joint) for value in joint]
    assert posterior(P, LABELS, MATRIX)[0].tolist() == pytest.approx(expected)


def test_rows_of_counts_become_probabilities():
    found = normalised(torch.tensor([[2.0, 0.0], [0.0, 0.0]]), torch.ones(2, 2))
    assert found.tolist() == [[0.75, 0.25], [0.5, 0.5]]


def test_a_model_under_another_loss_keeps_its_l2_term():
    problem = Reweighting(FlatModel(torch.nn.Linear(3, 3).double()), l2=0.5)
    batch, y = LabelledBatch.of(P, LABELS), torch.linspace(-1, 1, 12).double()
    targets = one_hot(LABELS, 3).double()
    swapped = WithLoss(problem, lambda logits, part: soft(logits, targets[part.positions]))
    some = batch.take(torch.tensor([1]))
    expected = cross_entropy(problem.outputs(y, some), some.labels) + 0.25 * (y @ y)
    assert float(swapped.inner_loss(y.new_zeros(0), y, some)) == pytest.approx(float(expected))
