"""ε of Gaussian releases: by quadrature, by another library, and by what composition must do."""

import math

import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.integrate import quad
from scipy.stats import norm

from fedsift.errors import RunError
from fedsift.privacy import Account, epsilon_of, multiplier_for
from fedsift.privacy.accounting import delta_of

MUS = (0.05, 0.3, 1.0, 2.5, 6.0)


@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 1.0, 4.0])
def test_delta_is_the_hockey_stick_between_two_gaussians(mu, epsilon):
    """δ(ε) = ∫ max(0, p(t) − e^ε q(t)) dt with p = N(μ, 1) and q = N(0, 1), by quadrature."""
    border = epsilon / mu + mu / 2  # p > e^ε q to the right of it
    expected, _ = quad(
        lambda t: norm.pdf(t - mu) - math.exp(epsilon) * norm.pdf(t),
        border,
        border + 40,
        epsabs=1e-13,
        limit=200,
    )
    assert delta_of(epsilon, mu) == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_the_classic_bound_is_rejected_as_too_large():
    """σ = √(2 ln(1.25 / δ)) / ε is what a looser theorem asks; ours must need less."""
    for epsilon in (0.1, 0.5, 0.9):
        classic = math.sqrt(2 * math.log(1.25 / 1e-5)) / epsilon
        assert 0.5 * classic < multiplier_for(epsilon, 1e-5, 1) < 0.95 * classic


@pytest.mark.parametrize(("z", "releases"), [(1.0, 1), (0.8, 1), (4.0, 30), (20.0, 200)])
def test_another_library_finds_the_same(z, releases):
    event = dp_event.SelfComposedDpEvent(dp_event.GaussianDpEvent(z), releases)
    own = epsilon_of(math.sqrt(releases) / z, 1e-5)
    numerical = PLDAccountant().compose(event).get_epsilon(1e-5)
    renyi = RdpAccountant().compose(event).get_epsilon(1e-5)
    assert own == pytest.approx(numerical, rel=2e-3)
    assert own <= renyi * (1 + 1e-9) <= 1.3 * own


def test_unlike_releases_compose_as_one():
    """60 releases with z are one with z / √60; the sum of single ε is far more."""
    assert epsilon_of(math.sqrt(60) / 5, 1e-5) == pytest.approx(
        epsilon_of(1 / (5 / math.sqrt(60)), 1e-5), rel=1e-8
    )
    assert epsilon_of(math.sqrt(60) / 5, 1e-5) < 60 * epsilon_of(1 / 5, 1e-5 / 60)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("releases", [1, 60])
def test_the_multiplier_gives_what_was_asked_and_no_less_noise_does(epsilon, releases):
    z = multiplier_for(epsilon, 1e-5, releases)
    assert delta_of(epsilon, math.sqrt(releases) / z) <= 1e-5
    assert delta_of(epsilon, math.sqrt(releases) / (0.999 * z)) > 1e-5
    assert epsilon_of(math.sqrt(releases) / z, 1e-5) == pytest.approx(epsilon, rel=1e-2)


def test_the_ends():
    assert epsilon_of(0.0, 1e-5) == 0.0
    assert epsilon_of(1e-7, 1e-5) == 0.0
    assert epsilon_of(1e5, 1e-5) == math.inf


def test_an_account_counts_before_it_is_asked_and_takes_the_client_asked_most():
    written = []
    account = Account(2.0, 1e-5, keep=lambda counts: written.append(dict(counts)))
    account.spend([0, 1])
    account.spend([1])
    assert written == [{0: 1, 1: 1}, {0: 1, 1: 2}]
    assert account.epsilon() == epsilon_of(math.sqrt(2) / 2, 1e-5)
    assert account.epsilon(factor=2.0) == epsilon_of(2 * math.sqrt(2) / 2, 1e-5)


def test_a_planned_epsilon_is_never_passed():
    account = Account(2.0, 1e-5, most=2)
    for _ in range(2):
        account.spend([3])
    account.spend([4])
    with pytest.raises(RunError, match="dp_epsilon is spent after 2 requests"):
        account.spend([3, 4])
    assert account.releases == {3: 2, 4: 1}
