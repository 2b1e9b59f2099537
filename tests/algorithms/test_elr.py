"""Early-learning regularisation: two updates of the targets, and a step, by hand."""

import torch

from fedsift.algorithms import EarlyLearningRegularisation, FedAvg
from fedsift.algorithms.elr import EarlyLearning
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p

ELR = EarlyLearning(momentum=0.75, strength=2.0)


def rounds(count, early=ELR):
    """Return the federation and every y that was sent, then the last one."""
    federation, server, state = case()
    models = [state.y]
    for k in range(count):
        _, state = EarlyLearningRegularisation(LOCAL, early).round(federation, server, state, k)
        models.append(state.y)
    return federation, models


def test_targets_are_a_running_mean_that_starts_at_zero():
    federation, models = rounds(2)
    first = 0.25 * P[0]
    second = 0.75 * first + 0.25 * log_p(models[1].view(3, 3), P[0].log()).exp()
    torch.testing.assert_close(federation.state(0).targets, second)


def test_a_step_holds_the_model_at_its_targets():
    _, models = rounds(1)

    def loss(m):
        at, targets = torch.arange(len(LABELS[m])), 0.25 * P[m]

        def value(W):
            logs = log_p(W, P[m].log())
            held = (1 - (logs.exp() * targets).sum(dim=1)).log()
            return (2.0 * held - logs[at, LABELS[m]]).mean()

        return value

    expected = START + (3 * descended(loss(0)) + 2 * descended(loss(1))) / 5
    torch.testing.assert_close(models[1], expected)


def test_without_strength_it_is_fedavg():
    _, models = rounds(1, EarlyLearning(0.7, 0.0))
    _, expected = FedAvg(LOCAL).round(*case(), 0)
    torch.testing.assert_close(models[1], expected.y)


def test_weights_compare_the_targets_of_the_label_and_of_the_best_other_class():
    federation, _ = rounds(1)
    expected = torch.tensor([0.7 / 0.9, 0.1 / 0.9, 0.4 / 0.7], dtype=torch.float64)
    torch.testing.assert_close(federation.state(0).average, expected)
