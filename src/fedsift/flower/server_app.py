"""The server app: the ordinary algorithms on a federation of sites that Flower reaches.

The run config holds ``RunKeys``. Progress goes to standard output, which Flower passes on as the
run's log: ``@note sentence``, a line ``@round {...}`` per round, ``@file name base64`` for the
files of the run folder, ``@failed sentence``, ``@goes-on number`` where the run to be resumed has
not ended: Flower's number of it. The folder `FEDSIFT_SERVER` is the server's own; its
``server.json`` may name data and a model.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsift.data.sources import read
from fedsift.errors import FedsiftError, InputError, InUse
from fedsift.experiment.config import from_mapping
from fedsift.experiment.server_run import OwnServer, execute_remotely
from fedsift.experiment.solve_remote import SOLVE, Submitted, solve_remotely
from fedsift.federation.remote import RemoteFederation, Timeouts
from fedsift.files import write_text
from fedsift.flower.run_keys import RunKeys
from fedsift.flower.transport import GridTransport
from fedsift.problem.own_problem import OwnProblem, load_problem
from fedsift.site.host import RUN_NAME
from fedsift.site.result import read_options

FILES = ("config.toml", "rounds.jsonl", "model.safetensors", "summary.json")
NUMBER = "flower.txt"  # in a run's folder: Flower's number of the run that has it
CHUNK = 48_000  # bytes of a file in one line of the log


class Heard(TypedDict):
    """How a run goes on, and who hears of it."""

    resume: bool
    observe: Callable[[dict[str, Any]], None]
    say: Callable[[str], None]
    opened: Callable[[], None]


app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Do one run."""
    keys = RunKeys.from_mapping(context.run_config)
    run = Path(os.environ["FEDSIFT_SERVER"]) / "runs" / keys.run
    number = run / NUMBER
    try:
        if not RUN_NAME.fullmatch(keys.run):
            raise InputError(f"{keys.run!r} is not a run name; use letters, digits, '-' and '_'")
        timeouts = Timeouts(keys.timeout, keys.wait)
        federation = RemoteFederation(GridTransport(grid), keys.run, timeouts)
        _run(keys, run, federation, lambda: write_text(number, str(context.run_id)))
    except FedsiftError as error:
        if isinstance(error, InUse) and keys.resume and number.exists():
            _say("goes-on", number.read_text(encoding="utf-8"))
            return
        _say("failed", f"{int(isinstance(error, InputError))} {error}")
        raise
    for name in FILES:
        _send_file(run, name)


def _run(
    keys: RunKeys, out: Path, federation: RemoteFederation, opened: Callable[[], None]
) -> None:
    """Train on labels, or solve the server's own problem, as was submitted."""
    folder = Path(os.environ["FEDSIFT_SERVER"])
    given, own = tomllib.loads(keys.config), own_problem(folder)
    if (own is None) is not (SOLVE not in given):
        raise InputError(
            "the server has no problem of its own; submit without --solve, or start it with "
            "--problem"
            if own is None
            else "the server solves a problem of its own; submit with --solve"
        )
    heard: Heard = {
        "resume": keys.resume,
        "observe": lambda record: _say("round", json.dumps(record)),
        "say": lambda note: _say("note", note),
        "opened": opened,
    }
    if own is not None:
        solve_remotely(Submitted.of(given[SOLVE]), own, out, federation, **heard)
        return
    config = from_mapping(given, "the submitted configuration")
    execute_remotely(config, out, federation, own=own_server(folder), **heard)


def own_problem(folder: Path) -> OwnProblem | None:
    """Return the problem that the server's owner names; None where it trains on labels."""
    path = folder / "server.json"
    own: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not own.get("problem"):
        return None
    sys.path.insert(0, own["cwd"])
    return load_problem(own["problem"], own.get("validation", ""))


def own_server(folder: Path) -> OwnServer | None:
    """Return the server's own data and model; None where it uses the configuration's dataset."""
    path = folder / "server.json"
    own: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not own.get("validation"):
        return None
    sys.path.insert(0, own["cwd"])
    options = read_options(own["reading"])
    validation = read(own["validation"], options)
    test = read(own["test"], options) if own.get("test") else None
    keys = {
        name: own[name] for name in ("model", "encoder", "classes", "column_kinds") if own.get(name)
    }
    return OwnServer(validation, test, keys)


def _send_file(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    for start in range(0, len(data), CHUNK):
        _say("file", f"{name} {base64.b64encode(data[start : start + CHUNK]).decode()}")


def _say(kind: str, text: str) -> None:
    """Write a line in one call: Flower's own log uses the same stream."""
    sys.stdout.write(f"@{kind} {' '.join(text.split())}\n")
