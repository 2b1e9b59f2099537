"""Sites with simulated noise and a model whose probabilities are exactly right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedsift.audit import Calibration, SiteAudit, SiteRecord, audit_site
from fedsift.data.samples import Arrays

EXACT = Calibration(temperature=1.0, optimism=0.0, spread=0.0, misfit=1.0)
CLASSES = 5


@dataclass(frozen=True)
class Site:
    """Labels, the truth, and P(class | x) from which the truth was drawn."""

    labels: np.ndarray
    truth: np.ndarray
    probabilities: np.ndarray


def draw_site(seed: int, samples: int = 400, rate: float = 0.3, sharpness: float = 6.0) -> Site:
    random = np.random.default_rng(seed)
    logits = sharpness * random.random((samples, CLASSES))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    below = probabilities.cumsum(axis=1) < random.random((samples, 1))
    truth = np.minimum(below.sum(axis=1), CLASSES - 1)
    shift = random.integers(1, CLASSES, samples) * (random.random(samples) < rate)
    return Site((truth + shift) % CLASSES, truth, probabilities)


def audited(inputs: torch.Tensor, record: SiteRecord, names: tuple[str, ...]) -> SiteAudit:
    return audit_site(record, Calibration(), names, lambda: Arrays(inputs))


@pytest.fixture
def images() -> SiteAudit:
    """Return an audit of 8 images with names that would be markup if they were not text."""
    inputs = torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    probabilities = torch.full((8, 3), 0.02)
    suspicious = torch.tensor([1, 2, 0, 1, 1, 2, 0, 1])  # the first four disagree
    probabilities[torch.arange(8), suspicious] = 0.96
    names = ("cat", "<b>dog</b>", "emu")
    ids = [f"<img src=x onerror=alert({n})>.png" for n in range(8)]
    weights = torch.linspace(0, 1, 8)
    return audited(inputs, SiteRecord("north", labels, weights, probabilities, tuple(ids)), names)
