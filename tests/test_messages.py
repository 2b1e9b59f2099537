"""Cohorts: who answered, how they weigh, when to stop."""

import pytest
import torch

from fedsift.compress import TopK
from fedsift.errors import InputError, TooFewClients
from fedsift.messages import (
    Answers,
    Cohort,
    Reply,
    Request,
    Traffic,
    sample_cohort,
)


class Flaky:
    """A federation whose clients 1, 4, 7, ... do not answer."""

    sizes = dict.fromkeys(range(6), 10)
    names = dict.fromkeys([4], "north")
    traffic = Traffic()

    def ask(self, request, clients):
        return [Reply(c, 10 * (c + 1), error="timed out" if c % 3 == 1 else None) for c in clients]


def test_a_round_goes_on_with_those_that_replied():
    answers = Cohort(Flaky(), (0, 1, 2)).ask(Request("train", 0))
    assert [r.client for r in answers.replies] == [0, 2]
    assert answers.shares == [0.25, 0.75]
    assert answers.events == ("client 1 did not reply to 'train': timed out",)


def test_a_site_is_called_by_its_name():
    answers = Cohort(Flaky(), (0, 4)).ask(Request("train", 0))
    assert answers.events == ("site north did not reply to 'train': timed out",)


def test_too_few_answers_stop_the_round():
    with pytest.raises(
        TooFewClients, match=r"2 of 3 clients .* min_clients = 3.*timed out.*resume"
    ):
        Cohort(Flaky(), (0, 1, 2), min_clients=3).ask(Request("train", 5))


def test_means_are_weighted_by_samples():
    replies = (
        Reply(0, 1, {"a": torch.tensor([4.0, 0.0])}, {"loss": 4.0}),
        Reply(1, 3, {"a": torch.tensor([0.0, 4.0])}, {"loss": 0.0}),
    )
    answers = Answers(replies)
    assert answers.mean("a").tolist() == [1.0, 3.0]
    assert answers.mean_scalar("loss") == 1.0
    assert replies[0].arrays["a"].tolist() == [4.0, 0.0]


def test_a_compressed_array_has_no_plain_mean():
    payload = TopK(4, 2).compress(torch.arange(4.0))
    with pytest.raises(InputError, match="decompress it"):
        Answers((Reply(0, 1, {"a": payload}),)).mean("a")


def test_cohorts_are_uniform_and_reproducible():
    counts = torch.zeros(6)
    for k in range(600):
        cohort = sample_cohort(Flaky(), 2, 1, 0, k, "cohort")
        assert len(set(cohort.clients)) == 2
        assert cohort.clients == sample_cohort(Flaky(), 2, 1, 0, k, "cohort").clients
        counts[list(cohort.clients)] += 1
    # 600 rounds x 2 of 6: mean 200, standard deviation 11.5; five of them.
    assert bool(((counts - 200).abs() < 58).all())
    assert sample_cohort(Flaky(), 0, 1, 0).clients == tuple(range(6))
