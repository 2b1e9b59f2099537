"""Asking the site's process over its socket; it is started where it does not listen.

Only the standard library: whoever calls (``flower.node``) needs neither torch nor the data. The
protocol is that of ``site.process``. ``site.json`` in the site's folder says how it is started.
"""

from __future__ import annotations

import json
import subprocess
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path

from fedsift.errors import RunError
from fedsift.logs import rotate
from fedsift.site.lifetime import end_with_parent

START = 600.0  # seconds for a site to load its data
SOCKET, LOG, COMMAND = "site.sock", "site.log", "site.json"


class SiteCaller:
    """The site of a folder, for one caller."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, parts: dict[str, bytes]) -> dict[str, bytes]:
        """Return the reply; ask once more if the process ended before it could reply."""
        for last in (False, True):
            try:
                with self.connect() as connection:
                    sizes = [[name, len(data)] for name, data in parts.items()]
                    connection.send_bytes(json.dumps(sizes).encode())
                    for data in parts.values():
                        connection.send_bytes(data)
                    names = [str(name) for name, _ in json.loads(connection.recv_bytes())]
                    return {name: connection.recv_bytes() for name in names}
            except (EOFError, ConnectionError):
                if last:
                    raise RunError("the site's process ended twice within a request") from None
        raise AssertionError

    def connect(self) -> Connection:
        """Return a connection to the site, which is started if it does not listen.

        A site that was killed may refuse a connection before the system says that it has ended, so
        only one that was started here counts as one that does not start. One that ends with code 0
        has found another in the folder, which may have been about to end.
        """
        end, started = time.monotonic() + START, False
        while True:
            try:
                return Client(str(self.folder / SOCKET), family="AF_UNIX")
            except (FileNotFoundError, ConnectionRefusedError):
                code = None if self._process is None else self._process.poll()
                if (started and code not in {None, 0}) or time.monotonic() > end:
                    raise RunError(f"the site did not start: {self._reason()}") from None
                if self._process is None or code is not None:
                    self.start()
                    started = True
                time.sleep(0.05)

    def start(self) -> subprocess.Popen[bytes]:
        """Start the site's process, unless it runs; one that finds another exits by itself."""
        if self._process is not None and self._process.poll() is None:
            return self._process
        how = json.loads((self.folder / COMMAND).read_text(encoding="utf-8"))
        rotate(self.folder / LOG)
        with (self.folder / LOG).open("ab") as log:
            self._process = subprocess.Popen(
                how["command"],
                cwd=how["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for its caller, which then ends it
                preexec_fn=end_with_parent,  # noqa: PLW1509 - no lock of a thread is used in it
            )
        return self._process

    def _reason(self) -> str:
        """Return the last line of the site's log."""
        path = self.folder / LOG
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        last = next((line for line in reversed(lines) if line.strip()), "no reason given")
        return f"{last.strip()[-300:]} ({path})"
