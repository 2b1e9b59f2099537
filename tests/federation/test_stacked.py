"""Local steps of many clients at once, against every client on its own."""

import pytest
import torch

from fedsift.algorithms.outer_step import Scoring
from fedsift.algorithms.posterior import Optimism
from fedsift.client import Client
from fedsift.federation import LocalFederation, stacked
from fedsift.federation.stacked import trained
from fedsift.messages import Request, scalars_of
from fedsift.problem import LabelledBatch
from fedsift.problem.sgd import LocalSteps

CUTS = ((0, 4), (4, 8), (8, 10), (10, 12))


def _sites(conv):
    parts = [(conv.batch.inputs[a:b], conv.batch.labels[a:b]) for a, b in CUTS]
    return [Client(m, conv.problem, LabelledBatch.of(*part)) for m, part in enumerate(parts)]


def _request(conv, batch_size):
    scalars = {"steps": 3, "lr": 0.2, "batch_size": batch_size}
    return Request("train", 2, {"y": conv.y}, scalars)


@pytest.mark.parametrize("batch_size", [0, 2, 3])
def test_updates_and_losses_are_the_same(conv, batch_size):
    request, members = _request(conv, batch_size), range(len(CUTS))
    pooled, alone = (
        LocalFederation(_sites(conv), pool=pool).ask(request, members) for pool in (True, False)
    )
    for ours, theirs in zip(pooled, alone, strict=True):
        torch.testing.assert_close(
            ours.arrays["update"], theirs.arrays["update"], rtol=1e-10, atol=1e-12
        )
        assert ours.scalars["loss"] == pytest.approx(theirs.scalars["loss"], rel=1e-12)


@pytest.mark.parametrize(("batch_size", "together"), [(2, {0, 1, 2}), (0, {0, 1})])
def test_a_client_without_its_like_is_left_to_itself(conv, batch_size, together):
    federation = LocalFederation(_sites(conv))
    members = [(federation.clients[m], federation.state(m)) for m in (0, 1, 2)]
    assert trained(members, _request(conv, batch_size)).keys() == together


def test_large_models_are_left_to_themselves(conv, monkeypatch):
    federation = LocalFederation(_sites(conv))
    members = [(federation.clients[m], federation.state(m)) for m in (0, 1)]
    monkeypatch.setattr(stacked, "PARAMETERS", 2 * len(conv.y) - 1)
    assert not trained(members, _request(conv, 2))


@pytest.mark.parametrize("batch_size", [0, 2, 3])
@pytest.mark.parametrize("scored", [0, 1])
def test_posterior_weighs_and_trains_stacked_sites_as_it_does_alone(conv, batch_size, scored):
    scalars = scalars_of(Optimism(0.7, 1.2, 0.8, 0.4), Scoring(scored))
    federations = [LocalFederation(_sites(conv), pool=pool) for pool in (True, False)]
    for k in (0, 1):
        local = {"steps": 1, "lr": 0.2, "batch_size": batch_size}
        request = Request("train-posterior", k, {"y": conv.y + k}, {**local, **scalars})
        pooled, alone = (federation.ask(request, range(len(CUTS))) for federation in federations)
        for m, (ours, theirs) in enumerate(zip(pooled, alone, strict=True)):
            for name in ("update", "curve"):
                torch.testing.assert_close(
                    ours.arrays[name], theirs.arrays[name], rtol=1e-8, atol=1e-10
                )
            assert ours.scalars == pytest.approx(theirs.scalars, rel=1e-8)
            averages = [federation.state(m).average for federation in federations]
            torch.testing.assert_close(*averages, rtol=1e-8, atol=1e-10)


def test_posterior_stacks_what_can_be_stacked(conv):
    federation = LocalFederation(_sites(conv))
    members = [(federation.clients[m], federation.state(m)) for m in range(len(CUTS))]
    scalars = scalars_of(Optimism(0.7, 1.2, 0.8, 0.4), Scoring(), LocalSteps(3, 0.2, 0))
    shared = stacked.posterior(members[:3], Request("train-posterior", 0, {"y": conv.y}, scalars))
    assert {m for m, own in shared.items() if own.trained is not None} == {0, 1}
