"""Gold loss correction: its matrix, its loss and its mean by hand."""

import torch

from fedsift.algorithms import FedAvg, GoldLossCorrection
from fedsift.algorithms.glc import corruption_matrix
from rival_case import CLEAN, CLEAN_P, LABELS, LOCAL, START, P, case, descended, log_p

# Rows 0 and 1 are the means of the clean samples of that class; class 2 has none.
MATRIX = torch.tensor([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.0, 0.0, 1.0]], dtype=torch.float64)


def second_stage():
    """Do one round of the first stage and one of the second, from the same model."""
    federation, server, state = case()
    algorithm = GoldLossCorrection(LOCAL, first=1)
    _, noisy = algorithm.round(federation, server, state, 0)
    matrix = corruption_matrix(server, noisy.y)
    info, after = algorithm.round(federation, server, noisy, 1)
    return federation, matrix, info, after


def test_the_matrix_has_the_mean_probabilities_of_each_class():
    _, server, _ = case()
    torch.testing.assert_close(corruption_matrix(server, START), MATRIX)


def test_the_first_rounds_are_fedavg_and_keep_the_start():
    federation, server, state = case()
    _, found = GoldLossCorrection(LOCAL, first=2).round(federation, server, state, 0)
    _, expected = FedAvg(LOCAL).round(*case(), 0)
    assert torch.equal(found.y, expected.y)
    assert torch.equal(found.own["start"], START)
    assert federation.state(0).average.tolist() == [1, 1, 1]


def test_the_second_stage_is_a_mean_of_corrected_and_clean_steps_from_the_start():
    _, matrix, info, after = second_stage()

    def corrected(m):
        at = torch.arange(len(LABELS[m]))
        return lambda W: -(log_p(W, P[m].log()).exp() @ matrix)[at, LABELS[m]].log().mean()

    steps = [descended(corrected(m)) for m in (0, 1)]
    steps.append(descended(lambda W: -log_p(W, CLEAN_P.log())[torch.arange(3), CLEAN].mean()))
    expected = START + (3 * steps[0] + 2 * steps[1] + 3 * steps[2]) / 8
    torch.testing.assert_close(after.y, expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(after.own["matrix"], matrix)
    assert abs(info.metrics["kept_labels"] - float(matrix.trace()) / 3) < 1e-12


def test_a_weight_is_the_probability_that_the_label_is_right():
    federation, matrix, _, _ = second_stage()
    joint = P[0] * matrix[:, LABELS[0]].T
    expected = joint[torch.arange(3), LABELS[0]] / joint.sum(dim=1)
    torch.testing.assert_close(federation.state(0).average, expected)
    assert bool(expected[1] < 0.5 < expected[0])  # the label 0 of a sample that looks like 1


def test_replies_are_an_update_and_a_loss():
    federation, server, state = case()
    heard = []
    ask = federation.ask
    federation.ask = lambda *what: heard.extend(ask(*what)) or heard[-2:]
    algorithm = GoldLossCorrection(LOCAL, first=1)
    _, state = algorithm.round(federation, server, state, 0)
    algorithm.round(federation, server, state, 1)
    assert [(set(r.arrays), set(r.scalars)) for r in heard] == [({"update"}, {"loss"})] * 4
