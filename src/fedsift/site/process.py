"""The site's process: a host behind a Unix socket that only its owner can open.

Protocol: one connection per request. The caller sends a JSON list of [name, length], then one
message of bytes per part; the reply comes back the same way. Frames are those of
``multiprocessing.connection``, of which only the byte messages are used: nothing is unpickled.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import FrameType
from typing import IO

from fedsift.errors import InputError, RunError, WireError
from fedsift.federation.encoding import LIMIT, Parts

SOCKET, LOCK = "site.sock", "site.lock"
REQUEST_TIMEOUT = 10.0  # seconds for a caller to send its request
GRACE = 20.0  # seconds for a site to end by itself before it is killed
MAX_PATH = 100  # of a Unix socket's address; the system's limit is 108 bytes


def serve(folder: Path, load: Callable[[], Callable[[Parts], Parts]]) -> None:
    """Reply until a signal comes; return at once if another process has the folder.

    ``load`` returns what handles a request; it is called once this process has the folder.
    """
    lock = claim(folder)
    if lock is None:
        return
    address = folder / SOCKET
    check_address(address)
    address.unlink(missing_ok=True)  # left by a crash: the lock shows that no process listens
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    handle = load()
    mask = os.umask(0o177)
    try:
        listener = Listener(str(address), family="AF_UNIX", backlog=16)
    finally:
        os.umask(mask)
    with lock, listener:
        while True:
            with listener.accept() as connection:
                _answer(connection, handle)


def check_address(address: Path) -> None:
    """Refuse a path that the system does not take for a socket."""
    if len(os.fsencode(address)) > MAX_PATH:
        raise InputError(f"{address} is too long for a socket's path; choose a shorter --folder")


def receive(connection: Connection) -> Parts:
    """Read a message's parts."""
    try:
        sizes = json.loads(connection.recv_bytes(2**16))
        names = [name for name, size in sizes]
        fits = all(type(n) is str and type(s) is int and s >= 0 for n, s in sizes)
    except (ValueError, TypeError, RecursionError):
        fits = False
    if not fits or len(set(names)) != len(names) or sum(s for _, s in sizes) > LIMIT:
        raise WireError("a message does not list its parts, so it is not fedsift's")
    return {name: connection.recv_bytes(max(size, 1)) for name, size in sizes}


def send(connection: Connection, parts: Parts) -> None:
    """Write a message's parts."""
    connection.send_bytes(json.dumps([[n, len(data)] for n, data in parts.items()]).encode())
    for data in parts.values():
        connection.send_bytes(data)


def _answer(connection: Connection, handle: Callable[[Parts], Parts]) -> None:
    try:
        if connection.poll(REQUEST_TIMEOUT):
            send(connection, handle(receive(connection)))
    except (OSError, EOFError, WireError) as error:  # the caller has gone, or sent something else
        print(f"a caller was dropped: {error}", file=sys.stderr, flush=True)


def stop(folder: Path, grace: float = GRACE) -> None:
    """Terminate the process that has the folder, if there is one; wait until it has ended."""
    start, sent = time.monotonic(), None
    while folder.exists():
        lock = claim(folder, mark=False)
        if lock is not None:
            lock.close()
            return
        passed = time.monotonic() - start
        text = (folder / LOCK).read_text(encoding="utf-8")
        if passed > 2 * grace:
            raise RunError(
                f"{folder} is still in use (process {text or 'unknown'}); terminate that process"
            )
        wanted = signal.SIGKILL if passed > grace else signal.SIGTERM
        if text.isdigit() and sent != wanted:
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(int(text), wanted)
            sent = wanted
        time.sleep(0.1)


def claim(folder: Path, *, mark: bool = True) -> IO[str] | None:
    """Lock the folder until this process ends, however it ends; None if another has it."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    file = (folder / LOCK).open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    if mark:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    return file


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise SystemExit(0)
