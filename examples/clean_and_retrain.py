"""Close the loop: train, accept the suggestions that are sure enough, train again.

The level of confidence is chosen without the truth: confidences are calibrated, so their mean over
the accepted suggestions is the share expected to be right, and the lowest level that keeps this
mean at PRECISION is taken. The simulated truth is used only to show the accuracy afterwards.

    python examples/clean_and_retrain.py                     # digits
    python examples/clean_and_retrain.py --dataset mnist     # needs the data, takes longer
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fedsift.audit import SiteAudit
from fedsift.experiment.auditing import open_run
from fedsift.experiment.config import Config
from fedsift.experiment.run import execute

PRECISION = 0.95


def choose_level(confidence: pd.Series) -> float:
    """Return the lowest confidence above which a share PRECISION is expected to be right."""
    falling = np.sort(confidence.to_numpy())[::-1]
    expected = falling.cumsum() / np.arange(1, len(falling) + 1)
    enough = np.flatnonzero(expected >= PRECISION)
    return float(falling[enough[-1]]) if len(enough) else 1.0


def corrections(audit: SiteAudit) -> pd.DataFrame:
    """Accept what is sure enough; leave out what is suspicious but has no sure suggestion."""
    issues = audit.table[audit.table["is_label_issue"]]
    sure = issues["confidence"] >= choose_level(issues["confidence"])
    return pd.DataFrame(
        {
            "site": audit.site,
            "id": issues["id"],
            "label": issues["predicted_label"].astype(str),
            "unusable": ~sure,
        }
    )


def main(config: Config, folder: Path) -> dict[str, float]:
    """Sift, correct, train again; return the accuracies."""
    noisy = execute(config.replace(method="fedavg"), folder / "noisy").summary
    sifted = execute(config, folder / "sifted").summary
    run = open_run(folder / "sifted")
    table = pd.concat([corrections(run.audit(client)) for client in run.sites])
    path = folder / "corrected.parquet"
    table.to_parquet(path, index=False)
    cleaned = config.replace(method="fedavg", labels=str(path))
    after = execute(cleaned, folder / "after").summary
    oracle = execute(config.replace(method="oracle"), folder / "oracle").summary
    print(f"accepted {(~table['unusable']).sum()} suggestions, left out {table['unusable'].sum()}")
    print(f"wrong labels: {noisy['noise_rate']:.1%} before, {after['noise_rate']:.1%} after")
    rows = {
        "fedavg on the labels as they are": noisy,
        f"{sifted['method']} on them": sifted,
        "fedavg on the corrected labels": after,
        "oracle: the right labels only": oracle,
    }
    for name, summary in rows.items():
        print(f"{name:34} {summary['test_accuracy']:.1%} test accuracy")
    return {name: summary["test_accuracy"] for name, summary in rows.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train, correct, train again.")
    parser.add_argument("--dataset", default="digits")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        main(Config.of(**vars(options), eval_every=options.rounds), Path(place))
