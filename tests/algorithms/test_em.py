"""Self-training by EM: one E step and both M steps by hand."""

import pytest
import torch

from fedsift.algorithms import SelfTraining, ServerState
from fedsift.errors import TooFewClients
from rival_case import CLEAN, CLEAN_P, LABELS, LOCAL, START, P, case, descended, log_p

MATRIX = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]], dtype=torch.float64)


def soft_labels(matrix):
    """Return q by Bayes' rule, one sample after another."""
    found = []
    for p, labels in zip(P, LABELS, strict=True):
        rows = [p[i] * matrix[:, label] for i, label in enumerate(labels.tolist())]
        found.append(torch.stack([row / row.sum() for row in rows]))
    return found


def one_round(matrix):
    federation, server, _ = case()
    state = ServerState(START, own={} if matrix is None else {"matrix": matrix})
    info, after = SelfTraining(LOCAL).round(federation, server, state, 0)
    return federation, info, after


def test_the_first_soft_labels_are_the_model_s():
    federation, _, after = one_round(None)
    expected = torch.stack([P[0][0, 0], P[0][1, 0], P[0][2, 2]])
    torch.testing.assert_close(federation.state(0).average, expected)
    assert set(after.own) == {"matrix"}


def test_e_step():
    federation, _, _ = one_round(MATRIX)
    for m, q in enumerate(soft_labels(MATRIX)):
        expected = q[torch.arange(len(q)), LABELS[m]]
        torch.testing.assert_close(federation.state(m).average, expected)


def test_m_step_of_the_matrix():
    _, _, after = one_round(MATRIX)
    counts = torch.ones(3, 3, dtype=torch.float64)  # Laplace's
    for q, labels in zip(soft_labels(MATRIX), LABELS, strict=True):
        for i, label in enumerate(labels.tolist()):
            counts[:, label] += q[i]
    torch.testing.assert_close(after.own["matrix"], counts / counts.sum(dim=1, keepdim=True))


def test_m_step_of_the_model():
    _, info, after = one_round(MATRIX)
    q = soft_labels(MATRIX)
    steps = [
        descended(lambda W, m=m: -(q[m] * log_p(W, P[m].log())).sum(dim=1).mean()) for m in (0, 1)
    ]
    steps.append(descended(lambda W: -log_p(W, CLEAN_P.log())[torch.arange(3), CLEAN].mean()))
    expected = START + (3 * steps[0] + 2 * steps[1] + 3 * steps[2]) / 8
    torch.testing.assert_close(after.y, expected)
    assert info.metrics["kept_labels"] == float(MATRIX.diagonal().mean())


def test_c_by_c_sums_and_an_update_are_all_that_a_client_sends():
    federation, server, _ = case()
    heard = []
    ask = federation.ask
    federation.ask = lambda *what: heard.extend(ask(*what)) or heard
    SelfTraining(LOCAL).round(federation, server, ServerState(START), 0)
    shapes = [{name: tuple(a.shape) for name, a in reply.arrays.items()} for reply in heard]
    assert shapes == [{"update": (9,), "sums": (3, 3)}] * 2
    assert [set(reply.scalars) for reply in heard] == [{"loss"}] * 2


def test_a_matrix_of_other_classes_is_refused():
    federation, server, _ = case()
    state = ServerState(START, own={"matrix": torch.eye(2)})
    with pytest.raises(TooFewClients, match=r"shape \[2, 2\] but its model has 3 classes"):
        SelfTraining(LOCAL).round(federation, server, state, 0)
