"""FedELC: learned labels, class losses and weights of the mean, by hand."""

import math

import pytest
import torch
from torch.nn.functional import one_hot

from fedsift.algorithms import EndToEndCorrection, FedAvg, ServerState
from fedsift.algorithms.fedelc import LabelLearning, by_distance, scaled
from fedsift.client import answer
from fedsift.messages import Answers, Reply, Request
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p

LEARNING = LabelLearning(step=4.0, compatibility=0.5, entropy=0.2)


def second_stage(clean):
    """Do one round of the second stage with these clean clients."""
    federation, server, _ = case()
    state = ServerState(START, own={"clean": torch.tensor(clean, dtype=torch.int64)})
    algorithm = EndToEndCorrection(LOCAL, first=0, learning=LEARNING)
    info, after = algorithm.round(federation, server, state, 1)
    return federation, info, after


def learned():
    """Return the logits of client 0's labels after one step."""
    given = one_hot(LABELS[0], 3).double()
    q = (10 * given).softmax(dim=1)
    return 10 * given - 4.0 * ((q - P[0]) + 0.5 * (q - given))


def test_learned_labels_take_a_gradient_step():
    z = torch.tensor([[1.0, 0.0, 2.0]], dtype=torch.float64, requires_grad=True)
    p, label = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64), torch.tensor([2])
    logs = z.log_softmax(dim=1)
    loss = (p * (p.log() - logs)).sum() - 0.5 * logs[0, 2]
    (gradient,) = torch.autograd.grad(loss, z)
    found = LEARNING.updated(z.detach(), p, one_hot(label, 3).double())
    torch.testing.assert_close(found, z.detach() - 4.0 * gradient)


def test_a_noisy_client_s_labels_move_and_weigh_its_samples():
    federation, _, _ = second_stage(clean=[])
    z = learned()
    torch.testing.assert_close(federation.state(0).targets, z)
    q = z.softmax(dim=1)
    assert float(federation.state(0).average[1]) == pytest.approx(float(q[1, 0] / q[1, :2].sum()))


def test_the_model_steps_on_the_divergence_to_the_learned_labels():
    federation, _, after = second_stage(clean=[1])
    logs = learned().log_softmax(dim=1)

    def noisy(W):
        p = log_p(W, P[0].log())
        return ((p.exp() * (p - logs)).sum(1) - 0.2 * (p.exp() * p).sum(1)).mean()

    at = torch.arange(2)
    steps = [descended(noisy), descended(lambda W: -log_p(W, P[1].log())[at, LABELS[1]].mean())]
    share = 3 * math.exp(-1) / (3 * math.exp(-1) + 2)  # client 0 is as far away as any
    torch.testing.assert_close(after.y, START + share * steps[0] + (1 - share) * steps[1])
    assert federation.state(1).targets is None


def test_the_first_stage_is_fedavg():
    federation, server, state = case()
    _, found = EndToEndCorrection(LOCAL, first=1).round(federation, server, state, 0)
    _, expected = FedAvg(LOCAL).round(*case(), 0)
    assert torch.equal(found.y, expected.y)


def test_class_losses_are_means_of_the_class_or_of_all():
    federation, _, _ = case()
    reply, _ = answer(
        federation.clients[0], federation.state(0), Request("class-losses", 0, {"y": START})
    )
    first, last = -(math.log(0.7) + math.log(0.1)) / 2, -math.log(0.4)
    expected = [first, (2 * first + last) / 3, last]
    assert reply.arrays["losses"].tolist() == pytest.approx(expected)
    assert reply.scalars == {}


def test_clients_that_are_alike_all_correct_their_labels():
    federation, server, state = case()
    info, after = EndToEndCorrection(LOCAL, first=0).round(federation, server, state, 0)
    assert info.metrics["clean_clients"] == len(after.own["clean"]) == 0
    assert all(federation.state(m).targets is not None for m in (0, 1))


def test_updates_far_from_those_of_clean_clients_weigh_less():
    updates = [torch.tensor([0.0]), torch.tensor([1.0]), torch.tensor([4.0])]
    replies = tuple(Reply(m, 10, {"update": u}) for m, u in enumerate(updates))
    found = by_distance(Answers(replies), {0, 1}).weights
    assert found == pytest.approx([10, 10, 10 * math.exp(-1)])
    assert by_distance(Answers(replies), set()).weights is None


def test_columns_are_shares_of_their_range():
    losses = torch.tensor([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    assert scaled(losses).tolist() == [[0, 0], [1, 0], [0.5, 0]]
