"""Posterior: one round by hand, what the parts of the clean set do, and that it finds labels."""

from dataclasses import replace

import pytest
import torch

from fedsift.algorithms import Posterior, ServerState
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.posterior import matched
from fedsift.client import Client, answer, initial_state
from fedsift.client.follow import in_turn
from fedsift.experiment.auditing import calibrate
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.messages import Answers, Reply, Request
from fedsift.problem import LabelledBatch
from fedsift.problem.label_posterior import OPTIMISMS, evidence, rate, right
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p


def one_round(server=None, state=None, k=0):
    federation, usual, _ = case()
    info, after = Posterior(LOCAL).round(
        federation, server or usual, state or ServerState(START), k
    )
    return federation, info, after


def weights(m, optimism=0.0):
    found = evidence(P[m], LABELS[m])
    return right(found, rate(found, optimism), optimism)


def opened(optimism=0.0, kept=1.0):
    """Return a state after the opening, with this δ and this mean weight."""
    numbers = {"optimism": optimism, "temperature": 1.0, "rate_error": 0.1, "kept": kept}
    own = {name: torch.tensor(v, dtype=torch.float64) for name, v in numbers.items()}
    return ServerState(START, own=own)


@pytest.mark.parametrize("optimism", [0.0, 1.0])
def test_labels_weigh_what_bayes_rule_gives_them(optimism):
    federation, _, _ = one_round(state=opened(optimism))
    for m in (0, 1):
        torch.testing.assert_close(federation.state(m).average, weights(m, optimism))


@pytest.mark.parametrize(("kept", "k"), [(1.0, 0), (0.8, 1), (0.8, 30)])
def test_a_step_by_hand(kept, k):
    _, server, _ = case()
    part, judges = split_validation(server, 0.8, "head start")
    _, info, after = one_round(state=opened(kept=kept), k=k)
    total, change, xs = 0, torch.zeros(9, dtype=torch.float64), []
    for m in (0, 1):
        x, at = 1 - (1 - 0.9**k) * (1 - weights(m)), torch.arange(len(LABELS[m]))
        xs.append(x)

        def loss(W, m=m, x=x, at=at):
            logs = log_p(W, P[m].log())
            sure, predicted = P[m].max(dim=1)
            each = x * logs[at, LABELS[m]] + (1 - x) * sure * logs[at, predicted]
            return -each.mean() / kept

        change, total = change + len(at) * descended(loss), total + len(at)
    n = len(part)
    own = descended(lambda W: -log_p(W, part.inputs)[torch.arange(n), part.labels].mean())
    torch.testing.assert_close(after.y, START + (change + n * own) / (total + n))
    judged = log_p(after.y.view(3, 3), judges.inputs)
    expected = -judged[torch.arange(len(judges)), judges.labels].mean()
    assert info.metrics["judged_loss"] == pytest.approx(float(expected))
    means = [float((x + (1 - x) * P[m].amax(dim=1)).mean()) for m, x in enumerate(xs)]
    assert float(after.own["kept"]) == pytest.approx((3 * means[0] + 2 * means[1]) / 5)


def test_no_model_is_trained_on_the_fifth_that_judges():
    _, server, _ = case()
    _, judges = split_validation(server, 0.8, "head start")
    labels = server.validation.labels.clone()
    labels[judges.positions] = (labels[judges.positions] + 1) % 3
    other = replace(server, validation=replace(server.validation, labels=labels))
    _, info, after = one_round(state=opened())
    _, changed, same = one_round(server=other, state=opened())
    assert torch.equal(after.y, same.y)
    assert info.metrics["judged_loss"] != changed.metrics["judged_loss"]


def test_what_judges_is_among_what_judged_the_head_start():
    _, server, _ = case()
    (_, rest), (_, judges) = (split_validation(server, s, "head start") for s in (0.5, 0.8))
    assert set(judges.positions.tolist()) < set(rest.positions.tolist())


def test_what_the_first_model_says_is_kept():
    federation, _, after = one_round(state=opened())
    torch.testing.assert_close(federation.state(0).unseen.exp(), P[0])
    federation.states = {m: replace(s, y=None) for m, s in federation.states.items()}
    _, server, _ = case()
    Posterior(LOCAL).round(federation, server, after, 1)
    torch.testing.assert_close(federation.state(0).unseen.exp(), P[0])


def test_optimism_rests_on_the_mean_curve_and_the_error_of_the_mean_rate():
    curve = torch.tensor(OPTIMISMS, dtype=torch.float64) / 10 + 0.2  # slope 0.1 per nat
    known = {"unseen_rate": 0.5, "unseen_variance": 0.0004}
    answers = Answers(tuple(Reply(m, 100, {"curve": curve}, known) for m in range(4)))
    found = matched(answers, rate_error=0.01)
    s = (0.0004 / 4 + 0.01**2) ** 0.5 / 0.1  # in nats; the prior is N(0, 2²)
    precision = 1 / s**2 + 1 / 4
    assert found["optimism"] == pytest.approx(3.0 / s**2 / precision, abs=1e-3)
    assert found["spread"] == pytest.approx(precision**-0.5, rel=1e-2)


def test_it_finds_wrong_labels_and_measures_its_own_optimism():
    config = Config.of(method="posterior", rounds=20, seed=21, eval_every=20).resolve()
    setup = from_config(config)
    finished = train(setup)
    calibration = calibrate(setup, finished.state)
    assert calibration.optimism == pytest.approx(float(finished.state.own["optimism"]))
    assert calibration.spread == pytest.approx(float(finished.state.own["spread"]))
    assert finished.summary["f1"] > 0.95  # flagging every label has 0.57
    assert finished.summary["exchanges"] == 20
    inside = [
        audit.summary.wrong.low
        <= float((r.labels != r.true_labels).double().mean())
        <= audit.summary.wrong.high
        for audit in finished.audits
        for r in [audit.record]
    ]
    assert sum(inside) >= 9


def test_a_large_site_weighs_some_of_its_samples_in_turn(conv):
    """12 samples, one step of 2: 4 a round; the others keep what was said of them before."""
    site = Client(0, conv.problem, LabelledBatch.of(conv.batch.inputs, conv.batch.labels), 3)
    numbers = {"optimism": 0.5, "temperature": 1.0, "kept": 1.0, "counts": 1.0}
    local = {"steps": 1, "lr": 0.1, "batch_size": 2, "scored": 1, "differences": False}
    state, turns = initial_state(site), []
    for k in range(3):
        request = Request("train-posterior", k, {"y": conv.y + k}, {**numbers, **local})
        before = None if state.average is None or not k else state.average
        reply, state = answer(site, state, request)
        assert reply.error is None
        turns.append(in_turn(12, 4, 3, k, 0))
        if before is not None:
            moved = (state.average != before).nonzero().squeeze(1)
            assert set(moved.tolist()) == set(turns[-1].tolist())
    assert len(set(torch.cat(turns).tolist())) == 12
