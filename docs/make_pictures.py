"""Draw the README's picture from the run folders of ``fedsift demo``.

fedsift demo --out runs/demo && python docs/make_pictures.py runs/demo
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.figure import Figure

from fedsift.report import load_run

COLOURS = {"fedavg": "#767676", "iter-sketch": "#0072B2", "oracle": "#000000"}


def main(demo: Path, out: Path) -> None:
    """Draw accuracy against rounds, and the weights of clean and wrong labels."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    runs = {name: load_run(demo / name) for name in COLOURS}
    for name, run in runs.items():
        style = "--" if name == "oracle" else "-"
        left.plot(
            run.rounds["round"],
            100 * run.rounds["test_accuracy"],
            style,
            color=COLOURS[name],
            label=name,
        )
    left.set(xlabel="round", ylabel="test accuracy (%)", ylim=(60, 100))
    left.legend(frameon=False, loc="lower left")
    weights = runs["iter-sketch"].weights
    wrong = weights["label"] != weights["true_label"]
    right.hist(
        [weights["weight"][~wrong], weights["weight"][wrong]],
        bins=25,
        stacked=True,
        color=["#BBBBBB", "#D55E00"],
        label=["label is right", "label is wrong"],
    )
    right.axvline(0.5, color="black", linewidth=0.8, linestyle=":")
    right.set(xlabel="learned weight of a sample", ylabel="samples")
    right.legend(frameon=False, loc="upper center")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(__file__).parent / "images" / "demo.png")
