"""What the paper proves and takes for granted, measured: theory beside measurement, part by part.

| part           | what                                                        | module          |
|----------------|-------------------------------------------------------------|-----------------|
| theorem1       | error of Algorithm 2, in each form of error feedback        | `iterative`     |
| theorem2       | error of Algorithm 3                                        | `sketched`      |
| theorem3       | hypergradient of Algorithm 1 over K rounds                  | `convergence`   |
| heavy-hitters  | numbers that find them; two hashes                          | `heavy_hitters` |
| sparsity       | of products and Hessians of networks; stable rank           | `sparsity`      |
| contribution   | weights and Shapley values                                  | `contribution`  |
| drift          | several local steps at unlike clients, plain and corrected  | `drift`         |

Each part returns its series and its ``checks``: a claim, what theory says, what was measured, and
whether they agree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fedsift.experiment.run import versions
from fedsift.experiment.theory import (
    contribution,
    convergence,
    drift,
    heavy_hitters,
    iterative,
    sketched,
    sparsity,
)
from fedsift.files import write_text

PARTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "theorem1": iterative.measure,
    "theorem2": sketched.measure,
    "theorem3": convergence.measure,
    "heavy-hitters": heavy_hitters.measure,
    "sparsity": sparsity.measure,
    "contribution": contribution.measure,
    "drift": drift.measure,
}


def write_theory(folder: Path, scale: str, parts: Sequence[str] = ()) -> None:
    """Measure parts, or all, and write a file for each."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in parts or PARTS:
        start = time.process_time()
        measured = PARTS[name](scale)
        seconds = round(time.process_time() - start, 1)
        written = {"scale": scale, **measured, "seconds": seconds, "versions": versions()}
        write_text(path_of(folder, name), json.dumps(written, indent=1) + "\n")


def path_of(folder: Path, part: str) -> Path:
    """Return the file of a part."""
    return folder / f"theory-{part}.json"
