"""``make mutants``: a seeded sample of mutants, and how many of them the tests catch.

python -m benchmarks.mutation                        100 mutants; goes on where it was stopped
python -m benchmarks.mutation --count 30 --only wire some of one group or of modules named so

A mutant is tried again when its module or the tests that guard it have changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from types import FrameType
from typing import Any

from benchmarks.mutation.guarded import GUARDED, ROOT, SHARES, Guarded, check
from benchmarks.mutation.mutants import Mutant, mutants
from benchmarks.mutation.trial import CAUGHT, SURVIVED, Verdict, Workspace
from fedsift.errors import FedsiftError, InputError
from fedsift.files import write_text

OUT = ROOT / "results" / "mutation.json"
LONGEST = 1800.0  # seconds for the tests of an unchanged module
PATIENCE = (60.0, 5.0)  # a mutant's time limit: seconds, and times what the unchanged tests take


@dataclass(frozen=True)
class Case:
    """A mutant of a module; ``digest`` is that of the module and its tests."""

    row: Guarded
    mutant: Mutant
    digest: str

    @property
    def record(self) -> dict[str, Any]:
        """What identifies the case in the results."""
        m = self.mutant
        where = {"module": self.row.module, "line": m.line, "column": m.column}
        what = {"kind": m.kind, "before": m.before, "after": m.after}
        return {"group": self.row.group, **where, **what, "of": self.digest}


def cases(rows: Sequence[Guarded]) -> list[Case]:
    """Return every mutant of every module."""
    return [
        Case(row, mutant, digest)
        for row, digest in ((row, _digest(row)) for row in rows)
        for mutant in mutants(row.source.read_text(encoding="utf-8"), row.only)
    ]


def sample(found: Sequence[Case], count: int, seed: int) -> list[Case]:
    """Choose by the groups' shares, at random within a group, which takes all that it has."""
    present = {group: SHARES[group] for group in SHARES if any(c.row.group == group for c in found)}
    chosen = []
    for group, share in present.items():
        members = [c for c in found if c.row.group == group]
        random.Random(f"{seed} {group}").shuffle(members)
        chosen += members[: round(count * share / sum(present.values()))]
    random.Random(seed).shuffle(chosen)
    return chosen


def judge(chosen: Sequence[Case], jobs: int = 2) -> Iterator[tuple[Case, Verdict]]:
    """Try each case, one module after the other in each process."""
    groups: dict[Guarded, list[Case]] = {}
    for case in chosen:
        groups.setdefault(case.row, []).append(case)
    with (
        tempfile.TemporaryDirectory(prefix="fedsift-mutants-") as folder,
        ThreadPoolExecutor(jobs) as pool,
    ):
        stop = Event()
        tried = [
            pool.submit(_try_all, Path(folder) / str(n), stop, row, group)
            for n, (row, group) in enumerate(groups.items())
        ]
        try:
            for done in as_completed(tried):
                yield from done.result()
        finally:
            stop.set()
            for waiting in tried:
                waiting.cancel()


def _try_all(
    folder: Path, stop: Event, row: Guarded, group: Sequence[Case]
) -> list[tuple[Case, Verdict]]:
    """Try the unchanged module first: a test that fails without a mutant would catch them all."""
    workspace = Workspace.make(folder, stop)
    unchanged = workspace.attempt(row, row.source.read_text(encoding="utf-8"), LONGEST)
    if unchanged.outcome != SURVIVED:
        raise InputError(f"the tests of {row.module} fail without a mutant: {unchanged.said}")
    limit = PATIENCE[0] + PATIENCE[1] * unchanged.seconds
    return [(case, workspace.attempt(row, case.mutant.source, limit)) for case in group]


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the score and its parts."""
    ordered = sorted(records, key=lambda r: (r["group"], r["module"], r["line"], r["after"]))
    caught = sum(r["outcome"] == CAUGHT for r in ordered)
    return {
        "mutants": len(ordered),
        "caught": caught,
        "score": round(caught / len(ordered), 3) if ordered else None,
        "survivors": [r for r in ordered if r["outcome"] == SURVIVED],
        "all": ordered,
    }


def main(arguments: list[str]) -> None:
    """Try what is not in the results yet; write them after every module."""
    options = _options(arguments)
    rows = tuple(r for r in GUARDED if options.only in f"{r.group} {r.module}")
    check(rows)
    chosen = sample(cases(rows), options.count, options.seed)
    before = json.loads(options.out.read_text())["all"] if options.out.exists() else []
    known = {json.dumps(_identity(r)): r for r in before}
    keys = {json.dumps(case.record): case for case in chosen}
    records = [known[key] for key in keys if key in known]
    for case, verdict in judge([c for key, c in keys.items() if key not in known], options.jobs):
        outcome = {"outcome": verdict.outcome, "seconds": round(verdict.seconds, 1)}
        records.append({**case.record, **outcome})
        write_text(options.out, json.dumps(summary(records), indent=2, ensure_ascii=False) + "\n")
        m = case.mutant
        print(f"{verdict.outcome:8} {case.row.module}:{m.line} {m.before} -> {m.after}", flush=True)
    total = summary(records)
    print(f"{total['caught']} of {total['mutants']} caught; written to {options.out}")


def _identity(record: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in record.items() if k not in ("outcome", "seconds")}


def _digest(row: Guarded) -> str:
    total = hashlib.sha256(row.source.read_bytes())
    for path in row.test_paths:
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            total.update(file.read_bytes())
    return total.hexdigest()[:12]


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mutation")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="a part of a group's or a module's name")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def _terminate(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    sys.exit("stopped; the same command continues")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _terminate)
    try:
        main(sys.argv[1:])
    except FedsiftError as error:
        sys.exit(f"error: {error}")
