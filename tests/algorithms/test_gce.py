"""Generalised cross-entropy in a round: its step and its weights by hand."""

import pytest
import torch

from fedsift.algorithms import FedAvg, GeneralisedCrossEntropy
from fedsift.algorithms.gce import Order
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p


@pytest.mark.parametrize("q", [0.7, 0.3])
def test_a_round_is_the_mean_of_steps_on_its_loss(q):
    _, after = GeneralisedCrossEntropy(LOCAL, Order(q)).round(*case(), 0)

    def loss(m):
        at = torch.arange(len(LABELS[m]))
        return lambda W: ((1 - log_p(W, P[m].log())[at, LABELS[m]].exp() ** q) / q).mean()

    expected = START + (3 * descended(loss(0)) + 2 * descended(loss(1))) / 5
    torch.testing.assert_close(after.y, expected)


def test_nearly_zero_is_fedavg():
    _, found = GeneralisedCrossEntropy(LOCAL, Order(1e-9)).round(*case(), 0)
    _, expected = FedAvg(LOCAL).round(*case(), 0)
    torch.testing.assert_close(found.y, expected.y, rtol=1e-6, atol=1e-7)


def test_weights_are_those_of_the_model_that_was_sent():
    federation, server, state = case()
    GeneralisedCrossEntropy(LOCAL).round(federation, server, state, 0)
    expected = torch.tensor([0.7 / 0.9, 0.1 / 0.9, 0.4 / 0.7], dtype=torch.float64)
    torch.testing.assert_close(federation.state(0).average, expected)
