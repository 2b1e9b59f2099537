"""Posterior: one round by hand, what its halves of the clean set do, and that it finds labels."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsift.algorithms import Posterior, ServerState
from fedsift.algorithms.clean_set import split_validation
from fedsift.algorithms.posterior import matched
from fedsift.experiment.auditing import calibrate
from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_config
from fedsift.messages import Answers, Reply
from fedsift.problem.label_posterior import OPTIMISMS, curve, evidence, known_rate, rate, right
from rival_case import LABELS, LOCAL, START, P, case, descended, log_p


def one_round(server=None, state=None):
    federation, usual, _ = case()
    info, after = Posterior(LOCAL).round(
        federation, server or usual, state or ServerState(START), 0
    )
    return federation, info, after


def weights(m, optimism=0.0):
    found = evidence(P[m], LABELS[m])
    return right(found, rate(found, optimism), optimism)


def opened(optimism):
    """Return a state after the opening, with this δ."""
    numbers = {"lenient": optimism, "temperature": 1.0, "accuracy": 0.9}
    own = {name: torch.tensor(v, dtype=torch.float64) for name, v in numbers.items()}
    return ServerState(START, own=own)


@pytest.mark.parametrize("optimism", [0.0, 1.0])
def test_labels_weigh_what_bayes_rule_gives_them(optimism):
    federation, _, _ = one_round(state=opened(optimism))
    for m in (0, 1):
        torch.testing.assert_close(federation.state(m).average, weights(m, optimism))


def test_a_step_by_hand():
    _, server, _ = case()
    part, rest = split_validation(server, 0.5, "head start")
    _, info, after = one_round()
    total, change = 0, torch.zeros(9, dtype=torch.float64)
    for m in (0, 1):
        x, at = weights(m), torch.arange(len(LABELS[m]))

        def loss(W, m=m, x=x, at=at):
            logs = log_p(W, P[m].log())
            each = x * logs[at, LABELS[m]] + 0.5 * (1 - x) * logs[at, P[m].argmax(dim=1)]
            return -each.sum() / (x + 0.5 * (1 - x)).sum()

        change, total = change + len(at) * descended(loss), total + len(at)
    n = len(part)
    own = descended(lambda W: -log_p(W, part.inputs)[torch.arange(n), part.labels].mean())
    torch.testing.assert_close(after.y, START + (change + n * own) / (total + n))
    judged = log_p(after.y.view(3, 3), rest.inputs)
    expected = -judged[torch.arange(len(rest)), rest.labels].mean()
    assert info.metrics["judged_loss"] == pytest.approx(float(expected))


def test_no_model_is_trained_on_the_half_that_judges():
    _, server, _ = case()
    _, rest = split_validation(server, 0.5, "head start")
    labels = server.validation.labels.clone()
    labels[rest.positions] = (labels[rest.positions] + 1) % 3
    other = replace(server, validation=replace(server.validation, labels=labels))
    _, info, after = one_round()
    _, changed, same = one_round(server=other)
    assert torch.equal(after.y, same.y)
    assert info.metrics["judged_loss"] != changed.metrics["judged_loss"]


def test_what_the_first_model_says_is_kept():
    federation, _, after = one_round(state=opened(0.0))
    torch.testing.assert_close(federation.state(0).unseen.exp(), P[0])
    federation.states = {m: replace(s, y=None) for m, s in federation.states.items()}
    _, server, _ = case()
    Posterior(LOCAL).round(federation, server, after, 1)
    torch.testing.assert_close(federation.state(0).unseen.exp(), P[0])


def test_optimism_is_where_the_curve_meets_the_rate():
    replies = []
    for m, (p, labels) in enumerate(zip(P, LABELS, strict=True)):
        found = evidence(p, labels)
        known = known_rate(found - 1)  # a model that had not seen the labels says less
        scalars = {"unseen_rate": known.mean, "unseen_variance": known.variance}
        replies.append(Reply(m, len(labels), {"curve": curve(found)}, scalars))
    answers = Answers(tuple(replies))
    middle, spread, lenient = matched(answers, accuracy=0.9, judges=50)
    mean = answers.mean("curve").numpy()
    assert np.interp(middle, OPTIMISMS, mean) == pytest.approx(answers.mean_scalar("unseen_rate"))
    wider = matched(answers, accuracy=0.5, judges=5)
    assert wider.spread > spread > 0
    assert 0 <= wider.lenient <= lenient < middle == wider.optimism


def test_it_finds_wrong_labels_and_measures_its_own_optimism():
    config = Config.of(method="posterior", rounds=20, seed=21, eval_every=20).resolve()
    setup = from_config(config)
    finished = train(setup)
    calibration = calibrate(setup, finished.state)
    assert calibration.optimism == pytest.approx(float(finished.state.own["optimism"]))
    assert calibration.misfit == 1.0
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
