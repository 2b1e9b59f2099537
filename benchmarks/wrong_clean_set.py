"""F1 where labels of the clean set are wrong: all used, or without those that look wrong.

    python -m benchmarks wrong_clean_set [--seeds 0 1 2]

digits, 10 sites, a perceptron, `posterior`, 30 rounds. A share of the clean labels is replaced by
another class; ``trust_clean_set`` uses all, the default leaves out what cross-fitting suspects.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from fedsift.experiment.config import Config
from fedsift.experiment.run import train
from fedsift.experiment.setup import from_data, load_data
from fedsift.files import write_text
from fedsift.problem.networks import build_model
from fedsift.randomness import generator

OUT = Path(__file__).parents[1] / "results" / "robustness" / "clean_set.json"
SHARES = (0.0, 0.1, 0.2, 0.4)


def run(seed: int, share: float, trust: bool) -> dict[str, Any]:
    """Do one run; return accuracy, F1 and the warnings."""
    config = Config.of(
        dataset="digits",
        method="posterior",
        model="mlp",
        clients=10,
        rounds=30,
        eval_every=30,
        inner_lr=0.1,
        seed=seed,
        device="cpu",
        trust_clean_set=trust,
    ).resolve()
    data = load_data(config)
    inputs, labels = data.validation
    wrong = torch.randperm(len(labels), generator=generator(seed, "wrong"))
    wrong = wrong[: round(share * len(labels))]
    given = labels.clone()
    turn = torch.randint(1, data.classes, (len(wrong),), generator=generator(seed, "turn"))
    given[wrong] = (given[wrong] + turn) % data.classes
    data = replace(data, validation=(inputs, given))
    module = build_model(config.model, data.shape, data.classes, seed)
    setup = from_data(config, data, module).of_own_data(None)
    summary = train(setup).summary
    warned = [note for note in setup.notes if "wrong" in note]
    return {
        "accuracy": summary["test_accuracy"],
        "f1": summary["f1"],
        "warnings": len(warned) + sum("contradicts" in note for note in summary["notices"]),
    }


def main(arguments: list[str]) -> None:
    """Do the runs that are not done yet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks wrong_clean_set")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    found: dict[str, Any] = json.loads(OUT.read_text()) if OUT.exists() else {}
    for seed in parser.parse_args(arguments).seeds:
        for share in SHARES:
            for trust in (True, False):
                name = f"{share} {'all' if trust else 'without suspects'} {seed}"
                if name not in found:
                    found[name] = run(seed, share, trust)
                    print(name, found[name], flush=True)
                    write_text(OUT, json.dumps(found, indent=1) + "\n")
