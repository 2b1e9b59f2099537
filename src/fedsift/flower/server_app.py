"""The server app: the ordinary algorithms on a federation of Flower nodes.

| run config | is |
|---|---|
| `config` | the run's configuration, as TOML |
| `run` | its name: the folder at the server and at every site |
| `resume` | continue from the last checkpoint |
| `timeout`, `wait` | seconds for an answer, and for the clients to connect |

Progress goes to standard output, which Flower passes on as the run's log: a line ``@round {...}``
a round, ``@file name base64`` for the files of the run folder, ``@failed sentence``. The folder
`FEDSIFT_SERVER` is the server's own; its ``server.json`` may name data and a model.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from fedsift.errors import FedsiftError, InputError
from fedsift.experiment.config import from_mapping
from fedsift.experiment.remote import Place, execute_remotely
from fedsift.federation.remote import Patience, RemoteFederation
from fedsift.flower.mail import GridMail
from fedsift.site.host import RUN_NAME
from fedsift.site.sources import REFERENCE, load_model, load_samples

FILES = ("config.toml", "rounds.jsonl", "model.safetensors", "summary.json")
CHUNK = 48_000  # bytes of a file in one line of the log

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Do one run."""
    told = context.run_config
    try:
        config = from_mapping(tomllib.loads(str(told["config"])), "the submitted configuration")
        run = str(told["run"])
        if not RUN_NAME.fullmatch(run):
            raise InputError(f"{run!r} is no name for a run; use letters, digits, '-' and '_'")
        patience = Patience(float(told["timeout"]), float(told["wait"]))
        federation = RemoteFederation(GridMail(grid), run, patience)
        folder = Path(os.environ["FEDSIFT_SERVER"])
        execute_remotely(
            config,
            folder / "runs" / run,
            federation,
            place=place(folder),
            resume=bool(told["resume"]),
            observe=lambda record: _say("round", json.dumps(record)),
        )
    except FedsiftError as error:
        _say("failed", f"{int(isinstance(error, InputError))} {error}")
        raise
    for name in FILES:
        _send_file(folder / "runs" / run, name)


def place(folder: Path) -> Place | None:
    """Return the server's own data and model; None where the configuration's dataset is meant."""
    path = folder / "server.json"
    told: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not told.get("validation"):
        return None
    sys.path.insert(0, told["cwd"])
    validation = load_samples(told["validation"])
    test = load_samples(told["test"]) if told.get("test") else validation
    given = told.get("model") or "auto"
    module = load_model(given, tuple(validation[0].shape[1:]))
    return Place(validation, test, module, own_model=bool(REFERENCE.fullmatch(given)))


def _send_file(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    for start in range(0, len(data), CHUNK):
        _say("file", f"{name} {base64.b64encode(data[start : start + CHUNK]).decode()}")


def _say(kind: str, text: str) -> None:
    """Write a line in one piece: Flower's own log goes the same way."""
    sys.stdout.write(f"@{kind} {' '.join(text.split())}\n")
