"""Data cleaning as in benchopt's ``benchmark_bilevel``: one client beside SOBA, F2SA and stocBiO.

    python -m benchmarks data-cleaning [NAME ...] [--seeds 0 1 2]

The problem is that of its ``datasets/mnist.py``: MNIST, 20,000 training and 5,000 validation images
of the training set by its seed 32, pixels standardised, half of the training labels drawn anew from
all ten classes:

    g(λ, θ) = mean_j σ(λ_j) ℓ_j(θ) + 0.2 ‖θ‖²,     F(θ) = mean ℓ on the validation images

from θ = 0 and λ = −2, with minibatches of 64. SOBA, F2SA and stocBiO are written here from their
papers' definitions, in NumPy, with constant steps; 10 inner steps and 10 terms for stocBiO, λ_0 = 1
growing by 0.1 and 10 inner steps for F2SA, as there. fedsift solves the same pair of losses with
``single-loop``, which takes F and the cross product with x on all samples. An oracle call is one
gradient, Hessian product or cross product on one sample; every method has the same number of them,
10⁶. Steps and ratios are chosen for each method by the validation loss on seed 20, from a part of
the benchmark's grid (``STEPS``, ``RATIOS``); the seed draws minibatches. Test error is on all
10,000 test images. Cells that exist in the file are kept.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch.nn.functional import cross_entropy

import fedsift as fs
from benchmarks.breast_cancer import provenance
from fedsift.algorithms import Server, ServerState, SingleLoop
from fedsift.compress import feedback_for
from fedsift.data.datasets import lookup
from fedsift.files import write_text

Array = npt.NDArray[np.float32]
OUT = Path("results/data_cleaning.json")
SPLIT, RATIO, REG, BATCH, INNER = 32, 0.5, 0.2, 64, 10
STEPS, RATIOS = (0.01, 0.1), (1e-5, 1e-4, 1e-3, 1e-2)
TUNING, BUDGET, POINTS = 250_000, 1_000_000, 10
CHOSEN_ON = 20


class Samples(NamedTuple):
    """Standardised pixels and classes."""

    inputs: Array
    labels: npt.NDArray[np.int64]


@dataclass
class Oracles:
    """The derivatives on minibatches, and how many calls there were."""

    train: Samples
    validation: Samples
    test: Samples
    seed: int
    calls: int = 0
    source: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        """Seed the minibatches."""
        self.source = np.random.default_rng(self.seed)

    def draw(self, samples: Samples) -> npt.NDArray[np.int64]:
        """Return the places of a minibatch."""
        return self.source.integers(len(samples.labels), size=BATCH)

    def _residual(self, theta: Array, samples: Samples, at: Any) -> tuple[Array, Array, Array]:
        self.calls += BATCH
        inputs, labels = samples.inputs[at], samples.labels[at]
        p = softmax(inputs @ theta)
        residual = p.copy()
        residual[np.arange(len(labels)), labels] -= 1
        return inputs, p, residual

    def inner(self, theta: Array, lam: Array, at: Any) -> Array:
        """Return ∇_θ g."""
        inputs, _, residual = self._residual(theta, self.train, at)
        weighted = sigmoid(lam[at])[:, None] * residual
        return inputs.T @ weighted / BATCH + np.float32(2 * REG) * theta

    def outer(self, theta: Array, at: Any) -> Array:
        """Return ∇_θ F."""
        inputs, _, residual = self._residual(theta, self.validation, at)
        return inputs.T @ residual / BATCH

    def product(self, theta: Array, lam: Array, v: Array, at: Any) -> Array:
        """Return ∇²_θθ g v."""
        inputs, p, _ = self._residual(theta, self.train, at)
        along = p * (inputs @ v)
        bent = sigmoid(lam[at])[:, None] * (along - p * along.sum(axis=1, keepdims=True))
        return inputs.T @ bent / BATCH + np.float32(2 * REG) * v

    def cross(self, theta: Array, lam: Array, v: Array, at: Any) -> Array:
        """Return ∇²_λθ g v at the places ``at``."""
        inputs, _, residual = self._residual(theta, self.train, at)
        w = sigmoid(lam[at])
        return w * (1 - w) * (residual * (inputs @ v)).sum(axis=1) / BATCH

    def values(self, theta: Array, lam: Array, at: Any) -> Array:
        """Return ∇_λ g at the places ``at``."""
        inputs, labels = self.train.inputs[at], self.train.labels[at]
        self.calls += BATCH
        w = sigmoid(lam[at])
        return w * (1 - w) * losses(theta, Samples(inputs, labels)) / BATCH


def softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def sigmoid(x: Array) -> Array:
    return (1 / (1 + np.exp(-x))).astype(np.float32)


def losses(theta: Array, samples: Samples) -> Array:
    p = softmax(samples.inputs @ theta)
    return -np.log(np.maximum(p[np.arange(len(p)), samples.labels], 1e-30))


Points = Iterator[Array]


def soba(o: Oracles, step: float, ratio: float) -> Points:
    """SOBA (Dagréou et al., NeurIPS 2022): θ, v and λ step together."""
    theta, lam = start(o)
    v = np.zeros_like(theta)
    while True:
        at, val = o.draw(o.train), o.draw(o.validation)
        slope, product = o.inner(theta, lam, at), o.product(theta, lam, v, at)
        cross, outer = o.cross(theta, lam, v, at), o.outer(theta, val)
        theta, v = theta - step * slope, v - step * (product - outer)
        np.add.at(lam, at, step / ratio * cross)
        yield theta


def stocbio(o: Oracles, step: float, ratio: float) -> Points:
    """StocBiO (Ji, Yang and Liang, ICML 2021): inner steps, a Neumann series, an outer step."""
    theta, lam = start(o)
    while True:
        for _ in range(INNER):
            theta = theta - step * o.inner(theta, lam, o.draw(o.train))
        term = total = o.outer(theta, o.draw(o.validation))
        for _ in range(INNER):
            term = term - step * o.product(theta, lam, term, o.draw(o.train))
            total = total + term
        at = o.draw(o.train)
        np.add.at(lam, at, step / ratio * o.cross(theta, lam, step * total, at))
        yield theta


def f2sa(o: Oracles, step: float, ratio: float) -> Points:
    """F2SA (Kwon et al., ICML 2023): z minimises F + λ g, θ minimises g, no products."""
    theta, lam = start(o)
    z, penalty = theta.copy(), 1.0
    while True:
        for _ in range(INNER):
            theta = theta - step * o.inner(theta, lam, o.draw(o.train))
            slope = penalty * o.inner(z, lam, o.draw(o.train)) + o.outer(z, o.draw(o.validation))
            z = z - step / penalty * slope  # the curvature grows with the penalty
        at = o.draw(o.train)
        change = o.values(z, lam, at) - o.values(theta, lam, at)
        np.add.at(lam, at, -step / ratio * penalty * change)
        penalty += 0.1
        yield theta


def start(o: Oracles) -> tuple[Array, Array]:
    """Return θ = 0 and λ = −2."""
    theta = np.zeros((o.train.inputs.shape[1], 10), np.float32)
    return theta, np.full(len(o.train.labels), -2, np.float32)


PEERS: dict[str, Callable[[Oracles, float, float], Points]] = {
    "soba": soba,
    "stocbio": stocbio,
    "f2sa": f2sa,
}


class Curve:
    """What is measured on the way; its own time does not count."""

    def __init__(self, o: Oracles, budget: int) -> None:
        self.o, self.every = o, budget / POINTS
        self.rows: list[dict[str, float]] = []
        self.began, self.aside = time.process_time(), 0.0

    def see(self, theta: Array, calls: int) -> bool:
        """Measure where it is time; return whether to go on."""
        if calls >= self.every * (len(self.rows) + 1):
            now = time.process_time()
            self.rows.append({"calls": calls, "seconds": round(now - self.began - self.aside, 3)})
            with np.errstate(all="ignore"):
                self.rows[-1] |= judged(self.o, theta)
            self.aside += time.process_time() - now
        return len(self.rows) < POINTS


def judged(o: Oracles, theta: Array) -> dict[str, float]:
    """Return the errors, and the validation loss."""
    if not np.isfinite(theta).all():
        return {"test_error": 1.0, "validation_error": 1.0, "validation_loss": 1e30}
    wrong = {
        f"{name}_error": float(((s.inputs @ theta).argmax(axis=1) != s.labels).mean())
        for name, s in (("test", o.test), ("validation", o.validation))
    }
    return {**wrong, "validation_loss": float(losses(theta, o.validation).mean())}


def by_peer(name: str, o: Oracles, step: float, ratio: float, budget: int) -> list[Any]:
    """Run one of the references."""
    curve = Curve(o, budget)
    with np.errstate(all="ignore"):
        for theta in PEERS[name](o, step, ratio):
            if not curve.see(theta, o.calls):
                return curve.rows
    return curve.rows


def by_fedsift(o: Oracles, step: float, ratio: float, budget: int) -> list[Any]:
    """Run ``single-loop``: ten local steps a round, one product, cross products and F on all."""
    places = torch.arange(len(o.train.labels))
    train = fs.TensorBatch((*map(torch.from_numpy, o.train), places))
    validation = fs.TensorBatch(tuple(map(torch.from_numpy, o.validation)))

    def inner_loss(x: Any, y: Any, batch: Any) -> Any:
        inputs, labels, at = batch.tensors
        each = cross_entropy(inputs @ y.view(-1, 10), labels, reduction="none")
        return (x[at].sigmoid() * each).mean() + REG * y.square().sum()

    def outer_loss(x: Any, y: Any, batch: Any) -> Any:  # noqa: ARG001
        inputs, labels = batch.tensors
        return cross_entropy(inputs @ y.view(-1, 10), labels)

    theta, lam = map(torch.from_numpy, start(o))
    pair, plain = fs.LossPair(inner_loss, outer_loss, lam), fs.Identity(theta.numel())
    product, local = BATCH * INNER, fs.LocalSteps(INNER, step, BATCH)
    curvature = fs.CurvatureSettings("hessian", batch_size=product)
    outer = fs.OuterStep(step / ratio, "gradient")
    algorithm = SingleLoop(feedback_for(plain), 1.0, step, curvature, local, outer)
    federation, server = fs.LocalFederation.of(pair, [train], o.seed), Server(pair, validation)
    state, curve = ServerState(theta.flatten(), lam), Curve(o, budget)
    for k in itertools.count():
        try:
            _, state = algorithm.round(federation, server, state, k)
        except fs.FedsiftError:  # it diverged: the rest of the curve says so
            state = replace(state, y=torch.full_like(state.y, torch.nan))
        # The local steps, product on as many samples; the cross product and F on all of theirs.
        o.calls += 2 * product + len(o.train.labels) + len(o.validation.labels)
        if not curve.see(state.y.view(-1, 10).numpy(), o.calls):
            break
    return curve.rows


def cell(name: str, samples: list[Samples], seed: int, step: float, ratio: float, n: int) -> Any:
    """Run a method once."""
    oracles = Oracles(*samples, seed=seed)
    if name == "fedsift":
        return by_fedsift(oracles, step, ratio, n)
    return by_peer(name, oracles, step, ratio, n)


def mnist() -> list[Samples]:
    """Return training, validation and test samples, split and spoilt as there."""
    train, test = (lookup("mnist").load(part) for part in ("train", "test"))
    pixels, held = (
        part.inputs(torch.arange(len(part))).flatten(1).numpy() for part in (train, test)
    )
    source = np.random.RandomState(SPLIT)  # the benchmark's own draws
    parts = train_test_split(
        pixels, train.labels.numpy(), test_size=5000, train_size=20000, random_state=source
    )
    inner, outer, labels, clean = parts
    spoilt = source.rand(len(labels)) < RATIO
    labels = labels.copy()
    labels[spoilt] = source.randint(0, 10, spoilt.sum())
    scaler = StandardScaler().fit(inner)
    sets = ((inner, labels), (outer, clean), (held, test.labels.numpy()))
    return [Samples(scaler.transform(x).astype(np.float32), y.astype(np.int64)) for x, y in sets]


def main(arguments: list[str] | None = None) -> None:
    """Choose steps, measure, write after every cell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks data-cleaning")
    parser.add_argument("names", nargs="*", help="methods; all, if none is named")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = json.loads(options.out.read_text()) if options.out.exists() else {}
    tried, runs = found.setdefault("tried", {}), found.setdefault("runs", {})
    found |= provenance("python -m benchmarks data-cleaning")
    samples = mnist()

    def keep() -> None:
        write_text(options.out, json.dumps(found, indent=1) + "\n")

    for name in options.names or (*PEERS, "fedsift"):
        scores = tried.setdefault(name, {})
        for step, ratio in itertools.product(STEPS, RATIOS):
            if f"{step:g} {ratio:g}" not in scores:
                rows = cell(name, samples, CHOSEN_ON, step, ratio, TUNING)
                scores[f"{step:g} {ratio:g}"] = rows[-1]["validation_loss"]
                keep()
        step, ratio = map(float, min(scores, key=scores.__getitem__).split())
        for seed in options.seeds:
            if f"{name} {seed}" not in runs:
                rows = cell(name, samples, seed, step, ratio, BUDGET)
                runs[f"{name} {seed}"] = {"step": step, "ratio": ratio, "curve": rows}
                print(name, seed, step, ratio, json.dumps(rows[-1]), flush=True)
                keep()


if __name__ == "__main__":
    main()
