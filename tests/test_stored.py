"""Samples that are read when a pass needs them: the same bits as from memory, few at a time."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

import fedsift as fs
from fedsift.algorithms.method import accept
from fedsift.algorithms.registry import METHODS
from fedsift.experiment.config import read_by
from fedsift.randomness import generator
from stored import Watched

TRAINED = [n for n, row in METHODS.items() if row.learns_weights or n == "fedavg"]
TRAINED = [n for n in TRAINED if METHODS[n].check is accept]  # any network
QUICK = {"local_steps": 3, "batch_size": 8, "curvature_batch": 70, "head_start": 2, "rate": 5.0}
QUICK |= {"preprocess_steps": 4, "glc_rounds": 1, "elc_rounds": 1, "corr_rounds": 1}
RIVALS = ("glc", "em", "gce", "elr", "fedelc", "fedcorr")
SIZES = (300, 100)
SHAPES = {"mlp": (900,), "conv": (3, 17, 18)}  # several chunks of 64 samples


def module(kind):
    """Return a network with fixed numbers."""
    flat = [nn.Linear(900, 9), nn.Tanh(), nn.Linear(9, 3)]
    images = [nn.Conv2d(3, 5, 3, stride=4), nn.ReLU(), nn.Flatten(), nn.Linear(80, 3)]
    found = nn.Sequential(*(flat if kind == "mlp" else images))
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator(0, "start")))
    return found


@cache
def samples(kind, name, count):
    source = generator(0, name)
    inputs = torch.randn(count, *SHAPES[kind], generator=source)
    return inputs, torch.randint(3, (count,), generator=source)


def simulated(kind, wrap, truth=None):
    """Return a federation whose clients have wrapped inputs."""
    pairs = [samples(kind, m, n) for m, n in enumerate(SIZES)]
    clients = [(wrap(x), y) for x, y in pairs]
    return fs.simulate(module(kind), clients, samples(kind, "clean", 20), true_labels=truth)


def fitted(federation, method, **keys):
    """Return y and the weights after two rounds; every client computes for itself."""
    keys = read_by(method, QUICK | keys)
    result = fs.fit(federation, method, rounds=2, device="cpu", pool=False, **keys)
    y = parameters_to_vector(result.model.parameters()).detach()
    if not METHODS[method].learns_weights:
        return y
    return torch.cat([y, *(result.weights(m) for m in range(len(SIZES)))])


@pytest.mark.parametrize("method", TRAINED)
@pytest.mark.parametrize("kind", SHAPES)
def test_stored_samples_give_the_bits_of_samples_in_memory(kind, method):
    expected = fitted(simulated(kind, lambda x: x), method)
    assert torch.equal(fitted(simulated(kind, Watched), method), expected)


@pytest.mark.parametrize("method", TRAINED)
def test_few_samples_are_read_at_once(monkeypatch, method):
    monkeypatch.setattr("fedsift.problem.predict.LARGEST", 64)  # of the audit; by itself 1,000
    watched = []
    federation = simulated("mlp", lambda x: watched.append(Watched(x)) or watched[-1])
    for stored in watched:
        stored.largest = 0  # the test for NaN has limits of its own
    fitted(federation, method)
    assert 0 < max(stored.largest for stored in watched) <= 256 < max(SIZES)


def test_steps_on_all_samples_are_taken_in_chunks():
    expected = fitted(simulated("conv", lambda x: x), "single-loop", batch_size=0)
    found = fitted(simulated("conv", Watched), "single-loop", batch_size=0)
    assert not torch.equal(found, fitted(simulated("conv", Watched), "single-loop"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_oracle_trains_on_a_part_that_it_does_not_read_whole():
    truth = [torch.arange(n) % 3 for n in SIZES]
    expected = fitted(simulated("mlp", lambda x: x, truth), "oracle")
    assert torch.equal(fitted(simulated("mlp", Watched, truth), "oracle"), expected)


def peak(kind, count, folder):
    """Return the peak memory of a process that trains on so many stored samples."""
    script = Path(__file__).with_name("peak_memory.py")
    command = [sys.executable, script, kind, str(count), folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    return int(done.stdout)


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("kind", "few", "many"), [("mapped", 10_000, 100_000), ("pictures", 1_000, 10_000)]
)
def test_memory_does_not_grow_with_the_samples(tmp_path, kind, few, many):
    """In memory, the further samples would be 460 MB and 147 MB."""
    # bytes: labels, weights, probabilities, orders, names and their copies, for the audit, too
    numbers = 500 * (many - few)
    between_runs = 16e6  # of the same size: the allocator and what imports leave
    grown = peak(kind, many, tmp_path) - peak(kind, few, tmp_path)
    assert grown < numbers + between_runs


@pytest.mark.deep
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_measure_sees_samples_that_are_in_memory(tmp_path):
    assert peak("held", 100_000, tmp_path) - peak("mapped", 100_000, tmp_path) > 400e6
