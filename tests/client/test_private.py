"""Clipping and noise at a site: the bounds, the variance, and what no site may differ by."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from fedsift.client import Client, initial_state, private
from fedsift.client.actions import ACTIONS
from fedsift.client.private import PRIVATE, Part, clipped, reach, with_noise
from fedsift.client.replies import REPLIES
from fedsift.client.state import Outcome
from fedsift.errors import InputError, TooFewClients
from fedsift.federation import LocalFederation, PrivateFederation, SecureSumFederation
from fedsift.messages import Cohort, Request
from fedsift.privacy import Account


class Batch:
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size


class Problem:
    x_is_private = False


CLIP, Z, D = 2.0, 1.5, 20_000
ASKED = {"dp_clip": CLIP, "dp_noise": Z}


def client(m=0, **keys):
    return Client(m, Problem(), Batch(10 + m), **keys)


def outcome(action, arrays):
    scalars = {n: v for n, v in arrays.items() if isinstance(v, float)}
    vectors = {n: v for n, v in arrays.items() if isinstance(v, torch.Tensor)}
    return Outcome(vectors, {**scalars, "loss": 3.7}, initial_state(client()))


def replies(source):
    """Return what may come to each action: usual, huge, not finite."""
    for action, parts in PRIVATE.items():
        for scale in (1e-6, 1.0, 1e9, math.inf, math.nan):
            made = {}
            for name in parts:
                vector = name in {"update", "curve"}
                length = {"update": D, "curve": 17}.get(name, 1)
                numbers = torch.randn(length, generator=source) * scale
                made[name] = numbers if vector else float(numbers)
            yield action, made


def noised(action, arrays, m=0, **keys):
    asked = {**ASKED, **keys}
    return with_noise(client(m), outcome(action, arrays), Request(action, 3, {}, asked))


def silent(monkeypatch):
    """Take the noise out, so that what is left is what a site tells."""
    monkeypatch.setattr(private, "normal", lambda key, count: np.zeros(count))


def told(action, arrays):
    """Return how far a reply is from that of a site without samples, in units of its noise."""
    found, total = noised(action, arrays), 0.0
    for name, part in PRIVATE[action].items():
        value = found.arrays.get(name, found.scalars.get(name))
        flat = torch.as_tensor(value, dtype=torch.float64).reshape(-1)
        deviation = Z * part.bound(CLIP, flat.numel()) / math.sqrt(part.share)
        total += float((flat - part.middle).norm() / deviation) ** 2
    return math.sqrt(total)


def test_a_reply_is_one_gaussian_release_with_multiplier_z(monkeypatch):
    """√Σ (‖c_i − o_i‖ / σ_i)² is at most 1 / z, whatever a site has; it is reached."""
    silent(monkeypatch)
    source = torch.Generator().manual_seed(0)
    found = [(action, told(action, made)) for action, made in replies(source)]
    assert all(distance <= (1 + 1e-6) / Z for _, distance in found)
    for action in PRIVATE:
        assert max(d for name, d in found if name == action) > 0.8 / Z


def test_the_check_rejects_parts_that_do_not_share(monkeypatch):
    """With the whole budget for every part, a reply tells more than one release."""
    silent(monkeypatch)
    action, made = next(p for p in replies(torch.Generator().manual_seed(0)) if len(p[1]) > 1)
    alone = [replace(part, share=1.0) for part in PRIVATE[action].values()]
    monkeypatch.setitem(PRIVATE, action, dict(zip(PRIVATE[action], alone, strict=True)))
    made = {
        n: torch.full_like(v, 1e3) if isinstance(v, torch.Tensor) else 1e3 for n, v in made.items()
    }
    assert told(action, made) > 1.5 / Z


@pytest.mark.parametrize("action", PRIVATE)
def test_shares_make_one_budget_and_parts_are_all_of_a_reply(action):
    assert sum(part.share for part in PRIVATE[action].values()) == pytest.approx(1.0)
    row = REPLIES[action]
    assert set(row.arrays) | set(row.scalars) == {*PRIVATE[action], *private.WITHHELD}


def test_clipping_is_exact():
    source = np.random.default_rng(0)
    for length in (0.1, 1.999999, 2.0, 2.000001, 1e6):
        vector = source.standard_normal(500)
        vector *= length / np.linalg.norm(vector)
        found = clipped(vector, Part(1.0), CLIP)
        assert np.linalg.norm(found) == pytest.approx(min(length, CLIP), rel=1e-12)
        assert np.allclose(found / np.linalg.norm(found), vector / length, rtol=1e-9)
    short = np.array([0.3, -0.4])
    assert np.array_equal(clipped(short, Part(1.0), CLIP), short)


def test_what_is_not_finite_says_nothing():
    for bad in (math.nan, math.inf):
        assert np.array_equal(clipped(np.array([1.0, bad]), Part(1.0), CLIP), np.zeros(2))
    assert clipped(np.array([math.nan]), Part(1.0, 0.0, 1.0), CLIP) == 0.5


def test_without_the_request_a_reply_is_what_it_was():
    made = outcome("train", {"update": torch.ones(3)})
    assert with_noise(client(), made, Request("train", 0)) is made


def fits(numbers, deviation):
    """Tell whether the variance is as expected, within five standard errors."""
    ratio = float(numbers.double().square().mean()) / deviation**2
    return abs(ratio - 1) < 5 * math.sqrt(2 / numbers.numel())


def test_the_noise_has_the_stated_variance():
    update = torch.zeros(D)
    update[0] = 1.0
    found = noised("train", {"update": update}).arrays["update"] - update
    assert fits(found, Z * CLIP)
    assert not fits(1.05 * found, Z * CLIP)
    assert noised("train", {"update": update}).scalars == {"loss": 0.0}


def test_draws_differ_and_come_again_in_a_simulation():
    made = outcome("train", {"update": torch.zeros(50)})

    def drawn(of, k=3, state=made.state):
        request = Request("train", k, {}, ASKED)
        found = with_noise(of, made._replace(state=state), request)
        return found.arrays["update"].tolist(), found.state

    first, after = drawn(client())
    assert drawn(client())[0] == first
    others = [drawn(client(1))[0], drawn(client(), 4)[0], drawn(client(), 3, after)[0]]
    assert first not in others
    secret = client(secret_noise=True)
    assert drawn(secret)[0] != drawn(secret)[0]


def test_what_has_no_bound_is_refused():
    with pytest.raises(InputError, match="no bound for noise"):
        noised("fold-step", {"update": torch.zeros(3)})
    with pytest.raises(InputError, match="above 0"):
        noised("train", {"update": torch.zeros(3)}, dp_noise=0.0)


class Absent:
    """A federation of which some clients do not answer `train`."""

    def __init__(self, inner, gone):
        self.inner, self.gone = inner, gone

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, request, clients):
        found = self.inner.ask(request, clients)
        return [
            replace(r, arrays={}, scalars={}, error="silent")
            if request.action == "train" and r.client in self.gone
            else r
            for r in found
        ]


@pytest.fixture
def zeros(monkeypatch):
    """Let every site train to no change, so that the mean is the noise."""
    monkeypatch.setitem(
        ACTIONS,
        "train",
        lambda client, state, request, shared: Outcome(
            {"update": torch.zeros(D)}, {"loss": 0.0}, state
        ),
    )


def summed(gone=(), members=10):
    local = LocalFederation([client(m) for m in range(members)], pool=False)
    secure = SecureSumFederation(Absent(local, gone), equal=True)
    return PrivateFederation(secure, CLIP, Account(Z, 1e-5))


@pytest.mark.parametrize("gone", [(), (2,), (0, 4, 9)])
def test_the_noise_of_a_sum_is_shared(zeros, gone):
    """Of 10 sites 7 are needed: the sum of n replies has n / 7 of the noise, at least all of it."""
    answers = Cohort(summed(gone), tuple(range(10))).ask(Request("train", 0, {"y": torch.zeros(D)}))
    n = len(answers.replies)
    assert n == 10 - len(gone)
    noise = answers.mean("update")  # of those present; one site changes it by C / n
    assert fits(noise, math.sqrt(n / 7) * Z * CLIP / n)
    assert float(noise.double().square().mean().sqrt()) > 0.97 * Z * CLIP / n
    broken = noise * math.sqrt(7 / 10)  # a share by the number of sites: dropouts take noise away
    assert not fits(broken, math.sqrt(n / 7) * Z * CLIP / n)


def test_every_site_weighs_the_same_in_a_sum(monkeypatch):
    """A large site would change the mean by more than C / n."""
    silent(monkeypatch)
    monkeypatch.setitem(
        ACTIONS,
        "train",
        lambda client, state, request, shared: Outcome(
            {"update": torch.full((4,), 0.1 * client.id)}, {"loss": 0.0}, state
        ),
    )
    answers = Cohort(summed(), tuple(range(10))).ask(Request("train", 0, {"y": torch.zeros(4)}))
    assert torch.allclose(answers.mean("update"), torch.full((4,), 0.45), atol=1e-6)


def test_sizes_of_numbers_say_nothing(zeros, monkeypatch):
    """What sites state before a sum is the same, whatever they have."""
    stated = []

    def seen(vector):
        monkeypatch.setitem(
            ACTIONS,
            "train",
            lambda client, state, request, shared: Outcome(
                {"update": vector}, {"loss": 5.0}, state
            ),
        )
        federation = summed()
        Cohort(federation, tuple(range(10))).ask(Request("train", 0, {"y": torch.zeros(D)}))
        stated.append(federation.inner._bounds["train"].tolist())

    for scale in (0.0, 1e-3, 1e6):
        seen(torch.full((D,), scale))
    assert stated[0] == stated[1] == stated[2]


def test_a_server_cannot_choose_how_a_noised_sum_is_rounded(zeros):
    federation = summed()
    request = Request("train", 0, {"y": torch.zeros(D)})
    Cohort(federation, tuple(range(10))).ask(request)
    bounds = federation.inner._bounds["train"]
    for shift in (-40, 20):
        federation.inner._bounds["train"] = bounds + shift
        with pytest.raises(TooFewClients, match="those that clients state"):
            Cohort(federation, tuple(range(10))).ask(request)


def test_no_noised_number_passes_its_reach():
    for action, made in replies(torch.Generator().manual_seed(1)):
        found = noised(action, made)
        request = Request(action, 3, {}, ASKED)
        for name in PRIVATE[action]:
            flat = torch.as_tensor(found.arrays.get(name, found.scalars.get(name))).reshape(-1)
            assert float(flat.abs().max()) < reach(request, name, flat.numel())
