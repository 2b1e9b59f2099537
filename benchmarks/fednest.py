"""Hyper-representation in FedNest's setting: MNIST, x a body of 157,000 parameters, y its head.

    python -m benchmarks.fednest

100 clients with two shards of one digit each (Tarzanagh et al., ICML 2022); half of a client's
samples are those of its inner loss, half those of its outer loss; all take part. ``solve``
with ``single-loop`` and the outer loss at the clients: one exchange per round; x and y travel as
compressed differences, for which it pays that nobody misses a round. Step sizes were chosen on
seed 20 by the clients' outer loss after 20 rounds. Accuracy is that on MNIST's test images, bytes
are of all rounds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor, nn

import fedsift as fs
from benchmarks.breast_cancer import provenance
from fedsift.data.datasets import lookup
from fedsift.data.partition import Pool, shards
from fedsift.experiment.config import parse_setting
from fedsift.files import write_text
from fedsift.randomness import generator

OUT = Path("results/fednest.json")
CLIENTS, WIDTH = 100, 200
SETTINGS: dict[str, Any] = {
    "method": "single-loop",
    "model_rate": 10.0,
    "local_steps": 5,
    "batch_size": 64,
    "inner_lr": 0.2,
    "solver_lr": 0.05,
    "outer_lr": 0.5,
    "outer_rule": "gradient",
}


def network(seed: int) -> fs.HyperRepresentation:
    """Return a perceptron of one hidden layer, cut behind it."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(784, WIDTH), nn.ReLU())
    head = nn.Linear(WIDTH, 10)
    source = generator(seed, "fednest")
    for layer in (body[1], head):
        bound = layer.in_features**-0.5
        for part in (layer.weight, layer.bias):
            nn.init.uniform_(part, -bound, bound, generator=source)
    return fs.HyperRepresentation.of(body, head)


def halves(seed: int) -> tuple[list[fs.LabelledBatch], list[fs.LabelledBatch]]:
    """Return every client's samples of its inner and of its outer loss."""
    train = lookup("mnist").load("train")
    pool = Pool(train.labels, CLIENTS)
    inner, outer = [], []
    for places in shards(pool, generator(seed, "shards")):
        order = places[torch.randperm(len(places), generator=generator(seed, int(places[0])))]
        for part, kept in zip(order.chunk(2), (inner, outer), strict=True):
            kept.append(fs.LabelledBatch.of(train.inputs(part), train.labels[part]))
    return inner, outer


@torch.no_grad()
def accuracy(problem: fs.HyperRepresentation, x: Tensor, y: Tensor) -> float:
    """Return that on the test images."""
    test = lookup("mnist").load("test")
    logits = problem.logits(x, y, test.inputs(torch.arange(len(test))))
    return float((logits.argmax(dim=1) == test.labels).double().mean())


def measure(seed: int, rounds: int, changes: dict[str, Any]) -> dict[str, Any]:
    """Solve once."""
    problem = network(seed)
    inner, outer = halves(seed)
    found = fs.solve(
        problem,
        inner,
        validations=outer,
        y=problem.head.initial(),
        x=problem.body.initial(),
        rounds=rounds,
        seed=seed,
        progress=False,
        **{**SETTINGS, **changes},
    )
    history = found.history
    return {
        "seed": seed,
        "accuracy": accuracy(problem, found.x, found.y),
        "outer_loss": mean(history["outer_loss"].tail(3)),
        "exchanges_per_round": float(history["exchanges"].mean()),
        "megabytes_up": history["bytes_up"].sum() / 1e6,
        "megabytes_down": history["bytes_down"].sum() / 1e6,
        "seconds": round(float(history["seconds"].sum()), 1),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fednest")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], help="key=value, for development")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    changes = dict(parse_setting(text) for text in options.set)
    rows = []
    for seed in options.seeds:
        rows.append(measure(seed, options.rounds, changes))
        print(json.dumps(rows[-1]), flush=True)
    made = {**provenance("python -m benchmarks.fednest"), "rounds": options.rounds}
    kept = {**made, "settings": {**SETTINGS, **changes}, "runs": rows}
    write_text(options.out, json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
