"""Local steps of many clients at once, against every client on its own."""

import pytest
import torch

from fedsift.client import Client
from fedsift.federation import LocalFederation, stacked
from fedsift.federation.stacked import trained
from fedsift.messages import Request
from fedsift.problem import LabelledBatch

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
