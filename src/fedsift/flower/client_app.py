"""The client app: passes a message to the site's process over its socket, and the reply back.

This file travels in the run's bundle, so that Flower's own executor (a new Python process per
message, at a site without ``fedsift join``) can run it. It therefore uses only the standard library
and Flower's public interface, and imports neither fedsift nor torch. It holds no data and no state.
Where no process listens on the site's socket, it starts one as ``site.json`` says.

| environment | is |
|---|---|
| `FEDSIFT_SITE` | the site's folder: `site.sock`, `site.json`, `site.log` |
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

RECORD = "fedsift"
START = 600.0  # seconds for a site to load its data

app = ClientApp()
_started: list[subprocess.Popen[bytes]] = []  # sites outlive this process, so none is waited for


@app.query()
def forward(message: Message, context: Context) -> Message:  # noqa: ARG001
    """Return the site's reply to a message."""
    record = message.content.config_records[RECORD]
    parts = {str(name): data for name, data in record.items() if isinstance(data, bytes)}
    reply = ask_site(Path(os.environ["FEDSIFT_SITE"]), parts)
    return Message(RecordDict({RECORD: ConfigRecord(dict(reply))}), reply_to=message)


def ask_site(folder: Path, parts: dict[str, bytes]) -> dict[str, bytes]:
    """Ask the site of a folder; once more if its process ended before it could reply."""
    for last in (False, True):
        try:
            with connect(folder) as connection:
                sizes = [[name, len(data)] for name, data in parts.items()]
                connection.send_bytes(json.dumps(sizes).encode())
                for data in parts.values():
                    connection.send_bytes(data)
                names = [str(name) for name, _ in json.loads(connection.recv_bytes())]
                return {name: connection.recv_bytes() for name in names}
        except (EOFError, ConnectionError):
            if last:
                raise
    raise AssertionError


def connect(folder: Path) -> Connection:
    """Return a connection to the site, which is started if it does not listen."""
    end, process = time.monotonic() + START, None
    while True:
        try:
            return Client(str(folder / "site.sock"), family="AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            if process is None:
                process = start(folder)
            if process.poll() not in {None, 0} or time.monotonic() > end:
                raise RuntimeError(f"the site did not start; see {folder / 'site.log'}") from None
            time.sleep(0.05)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the site's process; one that finds another in its folder exits by itself."""
    how = json.loads((folder / "site.json").read_text(encoding="utf-8"))
    with (folder / "site.log").open("ab") as log:
        process = subprocess.Popen(
            how["command"],
            cwd=how["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives this process
        )
    _started[:] = [*(p for p in _started if p.poll() is None), process]
    return process
