"""How far scores and intervals hold on simulated noise, from run folders.

    python -m benchmarks.calibration runs/mnist-* --out results/calibration.json
    python -m benchmarks.calibration runs/mnist-* --optimism 0.5

| key      | meaning                                                                              |
|----------|--------------------------------------------------------------------------------------|
| ece      | calibration error of `label_score` over all sites of a run, 10 bins of equal width    |
| covered  | sites whose true share of wrong labels lies within the estimated interval             |
| f1       | of `is_label_issue`                                                                   |
| width    | mean width of the interval                                                            |
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import f1_score

from fedsift.errors import DataError
from fedsift.experiment.auditing import open_run
from fedsift.files import write_text

BINS = 10


def calibration_error(scores: npt.NDArray[Any], right: npt.NDArray[Any]) -> float:
    """Return Σ_b (n_b / n) |mean score in b − share of right labels in b|."""
    place = np.minimum((scores * BINS).astype(int), BINS - 1)
    parts = [place == b for b in range(BINS)]
    return float(sum(p.mean() * abs(scores[p].mean() - right[p].mean()) for p in parts if p.any()))


def measure(folder: Path, optimism: float | None = None) -> dict[str, float]:
    """Audit every site of a run and compare with the truth."""
    run = open_run(folder)
    if optimism is not None:
        given = replace(run.calibration, optimism=optimism, spread=optimism / 2)
        run = replace(run, calibration=given)
    scores, right, covered, width = [], [], 0, 0.0
    for site in run.sites:
        audit = run.audit(site)
        truth = audit.record.true_labels
        if truth is None:
            raise DataError(f"{folder} has no true labels; give a run on simulated noise")
        table = audit.table.sort_values("index")
        correct = (audit.record.labels == truth).numpy()
        share = audit.summary.wrong
        covered += int(share.low <= 1 - correct.mean() <= share.high)
        width += (share.high - share.low) / len(run.sites)
        scores.append(table["label_score"].to_numpy())
        right.append(correct)
    pooled, correct = np.concatenate(scores), np.concatenate(right)
    return {
        "ece": calibration_error(pooled, correct),
        "covered": covered,
        "sites": len(run.sites),
        "width": width,
        "f1": float(f1_score(~correct, pooled < 0.5)),
    }


def main() -> None:
    """Print a row per run."""
    parser = argparse.ArgumentParser(description="Check scores and intervals against the truth.")
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--optimism", type=float, help="δ instead of the run's own, spread δ/2")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = {run.name: measure(run, options.optimism) for run in options.runs}
    print(f"{'run':24} {'ECE':>6} {'covered':>8} {'width':>6} {'F1':>6}")
    for name, row in results.items():
        covered = f"{row['covered']:.0f}/{row['sites']:.0f}"
        print(f"{name:24} {row['ece']:6.3f} {covered:>8} {row['width']:6.3f} {row['f1']:6.3f}")
    inside, sites = (sum(row[key] for row in results.values()) for key in ("covered", "sites"))
    worst = max(row["ece"] for row in results.values())
    print(f"{'worst ECE, all sites':24} {worst:6.3f} {f'{inside:.0f}/{sites:.0f}':>8}")
    if options.out is not None:
        write_text(options.out, json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
