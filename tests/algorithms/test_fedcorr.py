"""FedCorr: who is noisy, what is relabelled, who trains when."""

import pytest
import torch

from fedsift.algorithms import FedAvg, LabelCorrection, ServerState
from fedsift.algorithms.fedcorr import measured
from fedsift.client.relabelling import relabel
from fedsift.messages import Answers, Reply
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p

CONFIDENT = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.45, 0.55], [0.3, 0.7]])
GIVEN = torch.tensor([1, 0, 0, 1])
LOSSES = torch.tensor([2.3, 1.6, 0.8, 0.36])


def known(noisy, level=(0.0, 0.0)):
    numbers = {name: torch.zeros(2).double() for name in ("dimension", "times")}
    return {**numbers, "noisy": torch.tensor(noisy), "level": torch.tensor(level).double()}


def one_round(k, noisy, level=(0.0, 0.0)):
    """Do round k of R = 2, R₂ = 1; return who was asked to relabel what, too."""
    federation, server, _ = case()
    asked, ask = [], federation.ask

    def listening(request, clients):
        asked.append((request.scalars["relabels"], list(clients)))
        return ask(request, clients)

    federation.ask = listening
    state = ServerState(START, own=known(noisy, level))
    _, after = LabelCorrection(LOCAL, 2, 1).round(federation, server, state, k)
    return federation, asked, after


@pytest.mark.parametrize(
    ("which", "wrong", "expected"),
    [
        ("none", 4, [1, 0, 0, 1]),
        ("some", 2, [0, 0, 0, 1]),  # half of two: the highest loss
        ("some", 4, [0, 1, 0, 1]),
        ("all", 0, [0, 1, 1, 1]),
    ],
)
def test_confident_predictions_replace_labels_of_high_loss(which, wrong, expected):
    assert relabel(GIVEN, CONFIDENT, LOSSES, wrong, which).tolist() == expected


def test_a_prediction_below_one_half_replaces_nothing():
    p = torch.tensor([[0.4, 0.3, 0.3]])
    assert relabel(torch.tensor([2]), p, torch.tensor([1.2]), 1, "all").tolist() == [2]


def test_clients_whose_predictions_fill_more_dimensions_are_noisy():
    scores = [1.0, 1.1, 0.9, 1.05, 3.0, 3.1, 2.9, 2.95]
    own = {n: torch.zeros(8).double() for n in ("dimension", "times", "level")}
    own["noisy"] = torch.zeros(8, dtype=torch.bool)
    replies = [Reply(m, 5, {}, {"dimension": s, "level": 0.2}) for m, s in enumerate(scores)]
    found = measured(own, Answers(tuple(replies)))
    assert found["noisy"].tolist() == [False] * 4 + [True] * 4
    alike = [Reply(m, 5, {}, {"dimension": 1 + 0.1 * m, "level": 0.2}) for m in range(8)]
    assert bool(measured(own, Answers(tuple(alike)))["noisy"].all())


def test_the_first_round_is_fedavg():
    federation, server, state = case()
    _, found = LabelCorrection(LOCAL).round(federation, server, state, 0)
    _, expected = FedAvg(LOCAL).round(*case(), 0)
    torch.testing.assert_close(found.y, expected.y)
    assert found.own["times"].tolist() == [1, 1]


def test_a_client_trains_on_its_new_labels_and_keeps_them():
    federation, _, after = one_round(3, [True, False])
    new = [torch.tensor([0, 1, 2]), LABELS[1]]  # p of 0.8 replaces one label of client 0
    at = [torch.arange(3), torch.arange(2)]
    steps = [descended(lambda W, m=m: -log_p(W, P[m].log())[at[m], new[m]].mean()) for m in (0, 1)]
    torch.testing.assert_close(after.y, START + (3 * steps[0] + 2 * steps[1]) / 5)
    assert federation.state(0).targets.argmax(dim=1).tolist() == [0, 1, 2]
    assert federation.state(0).average.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("k", "noisy", "level", "expected"),
    [
        (1, [True, False], (0.4, 0.0), [("none", [1]), ("some", [0])]),
        (2, [True, False], (0.4, 0.0), [("none", [1])]),  # the fine-tuning
        (2, [True, False], (0.05, 0.0), [("none", [0, 1])]),
        (2, [True, True], (0.4, 0.4), [("none", [0, 1])]),  # no client is clean
        (3, [True, False], (0.4, 0.0), [("none", [1]), ("all", [0])]),
        (4, [True, False], (0.4, 0.0), [("none", [0, 1])]),
    ],
)
def test_who_is_asked_what_in_which_stage(k, noisy, level, expected):
    _, asked, _ = one_round(k, noisy, level)
    assert asked == expected
