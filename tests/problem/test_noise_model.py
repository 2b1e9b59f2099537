"""The noise model: its maximum against scipy's, a known matrix, Bayes' rule by hand."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from fedsift.problem import noise_model
from fedsift.problem.noise_model import (
    Confusion,
    Sums,
    beliefs,
    fit,
    objective,
    own_beta,
    site_step,
)

CLASSES = 3


def drawn(sites, each, beta, seed=0, sharpness=2.0):
    """Return (logs, labels) of sites whose labels come from the model itself."""
    random = torch.Generator().manual_seed(seed)
    matrix = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.35, 0.6]]).double().log()
    rates, found = torch.linspace(-0.8, 0.8, sites).tolist(), []
    for rate in rates:
        z = sharpness * torch.randn(each, CLASSES, generator=random, dtype=torch.float64)
        logs = z.log_softmax(dim=1)
        true = torch.multinomial(logs.exp(), 1, generator=random).squeeze(1)
        table = Confusion(matrix, beta).table(rate, logs).expand(each, -1, -1)
        chances = table[torch.arange(each), true].exp()
        found.append((logs, torch.multinomial(chances, 1, generator=random).squeeze(1)))
    return matrix, rates, found


def unpack(values, sites, free):
    matrix = torch.tensor(values[: CLASSES**2]).view(CLASSES, CLASSES)
    rest = values[CLASSES**2 :]
    beta = float(rest[-1]) if free else 0.0
    return Confusion(matrix.log_softmax(dim=1), beta), rest[:sites].tolist()


@pytest.mark.parametrize("free", [False, True])
def test_its_maximum_is_that_of_a_general_optimiser(free):
    _, _, sites = drawn(3, 60, beta=0.4)
    model, rates = fit(sites, free=free, steps=3000, tolerance=1e-10)

    def loss(values):
        return -objective(*unpack(values, 3, free), sites)

    start = np.concatenate([Confusion.start(CLASSES).matrix.flatten(), np.zeros(3 + free)])
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-4})
    assert objective(model, rates, sites) == pytest.approx(-found.fun, abs=1e-4)
    other, other_rates = unpack(found.x, 3, free)
    torch.testing.assert_close(model.matrix.exp(), other.matrix.exp(), atol=3e-3, rtol=0)
    assert model.beta == pytest.approx(other.beta, abs=3e-3)
    assert rates == pytest.approx(other_rates, abs=2e-2)


def test_a_known_matrix_is_found_within_its_standard_error():
    """Of P(j | c) at every site: 36 cells; the error is that of counted labels of known class."""
    matrix, true_rates, sites = drawn(4, 1500, beta=0.0, sharpness=8.0)
    model, rates = fit(sites, free=False)
    none = torch.zeros(1, CLASSES, dtype=torch.float64)
    for true, rate, (logs, _) in zip(true_rates, rates, sites, strict=True):
        p = Confusion(matrix).table(true, none)[0].exp()
        error = (p * (1 - p) / logs.exp().sum(dim=0)[:, None]).sqrt()
        assert bool(((model.table(rate, none)[0].exp() - p).abs() < 3 * error).all())


def test_a_known_beta_is_found():
    _, _, sites = drawn(4, 1500, beta=0.5)
    assert fit(sites, free=True)[0].beta == pytest.approx(0.5, abs=0.08)


def test_the_own_beta_of_a_site_is_found_with_the_matrix_of_all():
    matrix, _, sites = drawn(2, 3000, beta=0.6)
    assert [own_beta(Confusion(matrix), *site) for site in sites] == pytest.approx(
        [0.6] * 2, abs=0.1
    )
    _, _, others = drawn(2, 3000, beta=0.0)
    assert [own_beta(Confusion(matrix), *site) for site in others] == pytest.approx(
        [0] * 2, abs=0.1
    )


def test_labels_that_depend_on_the_class_alone_give_no_beta():
    _, _, sites = drawn(4, 1000, beta=0.0)
    assert abs(fit(sites, free=True)[0].beta) < 0.08


def test_beliefs_are_bayes_rule():
    matrix = torch.tensor([[0.9, 0.1], [0.3, 0.7]]).double().log()
    logs = torch.tensor([[0.2, 0.8]]).double().log()
    q, evidence = beliefs(Confusion(matrix), 0.0, logs, torch.tensor([0]))
    given = 0.2 * 0.9 + 0.8 * 0.3  # P(ỹ = 0 | x)
    assert q[0].tolist() == pytest.approx([0.2 * 0.9 / given, 0.8 * 0.3 / given])
    assert float(evidence.exp()) == pytest.approx(given)


def test_beta_moves_labels_towards_what_the_sample_looks_like():
    logs = torch.tensor([[0.5, 0.4, 0.1]]).double().log()
    chances = Confusion(torch.zeros(3, 3, dtype=torch.float64), 2.0).table(0.0, logs)[0, 0].exp()
    assert chances.tolist() == pytest.approx([0.25 / 0.42, 0.16 / 0.42, 0.01 / 0.42])


@pytest.mark.parametrize("beta", [0.0, 0.7, -0.4])
def test_sums_are_those_of_the_whole_table(beta):
    """The reference has P(j | c, x) of every sample as [n, c, j]; the steps never make it."""
    _, _, ((logs, labels),) = drawn(1, 100, beta=0.3, sharpness=20.0)
    model = Confusion(Confusion.start(CLASSES).matrix + torch.eye(CLASSES).double(), beta)
    rate, sums = site_step(model, 0.2, logs, labels)
    chances, every = model.table(rate, logs).exp(), torch.arange(100)
    joint = logs.exp() * chances[every, :, labels]
    q = joint / joint.sum(dim=1, keepdim=True)
    mean = torch.einsum("ncj,nj->nc", chances, logs)
    spread = torch.einsum("ncj,nj->nc", chances, logs**2) - mean**2
    torch.testing.assert_close(beliefs(model, rate, logs, labels)[0], q)
    torch.testing.assert_close(sums.counts, q.mT @ torch.eye(CLASSES).double()[labels])
    torch.testing.assert_close(sums.expected, torch.einsum("nc,ncj->cj", q, chances))
    assert sums.slope == pytest.approx(float((q * (logs[every, labels][:, None] - mean)).sum()))
    assert sums.curvature == pytest.approx(float((q * spread).sum()))
    assert sums.likelihood == pytest.approx(float(joint.sum(dim=1).log().sum()))


def test_sums_in_parts_are_sums(monkeypatch):
    _, _, ((logs, labels),) = drawn(1, 100, beta=0.0)
    model = Confusion(Confusion.start(CLASSES).matrix, 0.3)
    whole = site_step(model, 0.2, logs, labels)
    monkeypatch.setattr(noise_model, "CHUNK", 7 * CLASSES)
    rate, sums = site_step(model, 0.2, logs, labels)
    assert rate == pytest.approx(whole[0])
    torch.testing.assert_close(sums.packed(), whole[1].packed())
    assert float(sums.counts.sum()) == pytest.approx(100)
    assert float(sums.expected.sum()) == pytest.approx(100)


def test_sums_survive_packing():
    _, sums = site_step(Confusion.start(2), 0.0, torch.zeros(1, 2).double(), torch.tensor([1]))
    assert torch.equal(Sums.unpacked(sums.packed(), 2).packed(), sums.packed())
