"""Run every program, each in its own process, and write results/side_by_side.json."""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.breast_cancer import provenance
from benchmarks.side_by_side.problem import Array, Problem
from fedsift.errors import RunError
from fedsift.files import write_text

HERE = Path(__file__).parent
OUT = HERE.parents[1] / "results" / "side_by_side.json"
PACKAGES = {
    "fedsift": "fedsift",
    "torchopt": "torchopt",
    "betty": "betty-ml",
    "boat": "boat-torch",
    "jaxopt": "jaxopt",
}
BENEATH = {"jaxopt": "jax"}
STEPS, PRODUCTS = (25, 50, 100, 200, 400, 800, 1600), (10, 20, 40, 80, 160, 320, 640)
INNER_LR, OUTER_LR, ROUNDS, ERROR, REPEATS = 1.0, 60.0, 30, 1e-3, 2
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


@dataclass(frozen=True)
class Run:
    """What a program returned: its x, and the processor's time for it and for its imports."""

    x: Array
    seconds: float
    importing: float


@dataclass(frozen=True)
class Program:
    """A program with the interpreter that has its library."""

    name: str
    python: str
    folder: Path

    def run(self, rounds: int, steps: int, products: int) -> Run:
        """Run it in a process of its own."""
        out = self.folder / f"{self.name}.npz"
        numbers = map(str, (rounds, steps, products, INNER_LR, OUTER_LR))
        files = (HERE / "timed.py", f"with_{self.name}", self.folder / "data.npz", out)
        environment = {**os.environ, **ONE_THREAD}
        command = [self.python, "-P", *map(str, files), *numbers]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise RunError(f"{self.name} failed in {self.python}: {said}")
        with np.load(out) as found:
            return Run(found["x"], float(found["seconds"]), float(found["importing"]))

    def version(self, package: str) -> str:
        """Return the version of a package that its interpreter has."""
        code = f"import importlib.metadata as m; print(m.version('{package}'))"
        told = [self.python, "-c", code]
        return subprocess.run(told, capture_output=True, text=True, check=True).stdout.strip()


def statements(source: str) -> int:
    """Return the number of statements of a program, without imports and docstrings."""

    def counts(node: ast.AST) -> bool:
        if isinstance(node, ast.Import | ast.ImportFrom):
            return False
        said = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        return isinstance(node, ast.stmt) and not said

    return sum(counts(node) for node in ast.walk(ast.parse(source)))


def fewest(ladder: Sequence[int], enough: Callable[[int], bool]) -> int:
    """Return the first rung that is enough, by halving; the last one, where none is."""
    low, high = 0, len(ladder) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(ladder[middle]) else (middle + 1, high)
    return ladder[low]


def measure(
    program: Program, problem: Problem, repeats: int = REPEATS, later: int = 0
) -> dict[str, Any]:
    """Choose steps and products, then measure; ``later``: inner steps of the run of all rounds."""
    exact = problem.h(problem.start)[1]

    def error(run: Run) -> float:
        return float(np.linalg.norm((problem.start - run.x) / OUTER_LR - exact)) / size

    size = float(np.linalg.norm(exact))
    steps = fewest(STEPS, lambda n: error(program.run(1, n, PRODUCTS[-1])) < ERROR / 2)
    products = fewest(PRODUCTS, lambda n: error(program.run(1, steps, n)) < ERROR)
    first = [program.run(1, steps, products) for _ in range(repeats)]
    whole = [program.run(ROUNDS, later or steps, products) for _ in range(repeats)]
    once = statistics.median(run.seconds for run in first)
    total = statistics.median(run.seconds for run in whole)
    start, least = problem.h(problem.start)[0], problem.least
    packages = {PACKAGES[program.name], BENEATH.get(program.name, "torch"), "numpy"}
    return {
        "statements": statements((HERE / f"with_{program.name}.py").read_text(encoding="utf-8")),
        "inner_steps": steps,
        "inner_steps_of_all": later or steps,
        "repeats": repeats,
        "products": products,
        "error": error(first[0]),
        "first_seconds": once,
        "total_seconds": total,
        "import_seconds": statistics.median(run.importing for run in first + whole),
        "gap": (problem.h(whole[0].x)[0] - least) / (start - least),
        "versions": {package: program.version(package) for package in sorted(packages)},
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure all libraries that have an interpreter, print, write; rows of others are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks side-by-side")
    parser.add_argument("names", nargs="*", help="all, if none is named")
    parser.add_argument("--python", action="append", default=[], help="NAME=PATH of an interpreter")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--later", type=int, default=0, help="inner steps of the run of all rounds")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    pythons = {"fedsift": sys.executable, **dict(pair.split("=", 1) for pair in options.python)}
    problem = Problem.of_digits()
    with tempfile.TemporaryDirectory() as folder:
        problem.save(Path(folder) / "data.npz")
        for name in (name for name in options.names or PACKAGES if name in pythons):
            program = Program(name, pythons[name], Path(folder))
            row = measure(program, problem, options.repeats, options.later)
            print(name, json.dumps(row), flush=True)
            keep(options.out, problem, name, row)


def keep(out: Path, problem: Problem, name: str, row: dict[str, Any]) -> None:
    """Put a row into the file; those of other libraries stay."""
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"] if out.exists() else {}
    rows[name] = row
    start, least = problem.h(problem.start)[0], problem.least
    reached = problem.h(problem.descent(ROUNDS, OUTER_LR))[0]
    found = {
        "rows": {name: rows[name] for name in PACKAGES if name in rows},
        "exact_gap": (reached - least) / (start - least),
        "rounds": ROUNDS,
        **provenance("python -m benchmarks side-by-side"),
    }
    write_text(out, json.dumps(found, indent=1) + "\n")
