"""``make bench``: run every benchmark, print a table, write results/bench.json.

python -m benchmarks                 all
python -m benchmarks curvature       one
python -m benchmarks methods ...     one with arguments, which writes files of its own
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

from fedsift.files import write_text

NAMES = (
    "curvature",
    "rounds",
    "heads",
    "first_order",
    "compressors",
    "memory",
    "scaling",
    "big_data",
    "processes",
    "hypergradient",
    "flower_simulation",
    "deployment",
    "secure_sum",
)
OUT = Path(__file__).parents[1] / "results" / "bench.json"


def main(names: list[str]) -> None:
    """Measure and write; what is not measured now keeps its last value."""
    found: dict[str, object] = json.loads(OUT.read_text()) if OUT.exists() else {}
    for name in names or NAMES:
        print(f"{name} ...", flush=True)
        measured = importlib.import_module(f"benchmarks.{name}").measure()
        found |= {key: round(value, 4) for key, value in measured.items()}
        for key, value in measured.items():
            print(f"  {key:48} {value:10.3f}", flush=True)
    threads = torch.get_num_threads()
    found |= {
        "machine": f"{platform.machine()}, {threads} threads, torch {torch.__version__}",
        "date": datetime.now(UTC).date().isoformat(),
    }
    write_text(OUT, json.dumps(dict(sorted(found.items())), indent=2) + "\n")
    print(f"written to {OUT}")


if __name__ == "__main__":
    given = [name.replace("-", "_") for name in sys.argv[1:2]] + sys.argv[2:]
    if given and given[0] not in NAMES:
        importlib.import_module(f"benchmarks.{given[0]}").main(given[1:])
    else:
        main([name.replace("-", "_") for name in given])
