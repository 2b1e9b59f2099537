"""The site's process: a host behind a Unix socket that only its owner can open.

Protocol: one connection a question. The caller sends a JSON list of [name, length], then one
message of bytes per part; the answer comes back the same way. Frames are those of
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
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import FrameType
from typing import IO

from fedsift.errors import InputError, WireError
from fedsift.federation.encoding import LIMIT, Parts

SOCKET, LOCK = "site.sock", "site.lock"
PATIENCE = 10.0  # seconds for a caller to say what it wants
MAX_PATH = 100  # of a Unix socket's address; the system's limit is 108 bytes


def serve(folder: Path, load: Callable[[], Callable[[Parts], Parts]]) -> None:
    """Answer until a signal comes; return at once if the folder has a site already.

    ``load`` returns what answers; it is called when the folder is this process's own.
    """
    lock = claim(folder)
    if lock is None:
        return
    address = folder / SOCKET
    if len(os.fsencode(address)) > MAX_PATH:
        raise InputError(f"{address} is too long a name for a socket; choose a shorter --folder")
    address.unlink(missing_ok=True)  # left by a crash: the lock says that nobody listens
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


def receive(connection: Connection) -> Parts:
    """Read a message's parts."""
    try:
        sizes = json.loads(connection.recv_bytes(2**16))
        names = [name for name, size in sizes]
        fits = all(type(n) is str and type(s) is int and s >= 0 for n, s in sizes)
    except (ValueError, TypeError, RecursionError):
        fits = False
    if not fits or len(set(names)) != len(names) or sum(s for _, s in sizes) > LIMIT:
        raise WireError("a message does not list its parts")
    return {name: connection.recv_bytes(max(size, 1)) for name, size in sizes}


def send(connection: Connection, parts: Parts) -> None:
    """Write a message's parts."""
    connection.send_bytes(json.dumps([[n, len(data)] for n, data in parts.items()]).encode())
    for data in parts.values():
        connection.send_bytes(data)


def _answer(connection: Connection, handle: Callable[[Parts], Parts]) -> None:
    try:
        if connection.poll(PATIENCE):
            send(connection, handle(receive(connection)))
    except (OSError, EOFError, WireError) as error:  # the caller has gone, or talks nonsense
        print(f"a caller was dropped: {error}", file=sys.stderr, flush=True)


def stop(folder: Path, patience: float = 20.0) -> None:
    """End the process that has the folder, if there is one; wait until it has."""
    start, sent = time.monotonic(), None
    while folder.exists():
        lock = claim(folder, mark=False)
        if lock is not None:
            lock.close()
            return
        wanted = signal.SIGKILL if time.monotonic() - start > patience else signal.SIGTERM
        text = (folder / LOCK).read_text(encoding="utf-8")
        if text.isdigit() and sent != wanted:
            os.kill(int(text), wanted)
            sent = wanted
        time.sleep(0.1)


def claim(folder: Path, *, mark: bool = True) -> IO[str] | None:
    """Make the folder this process's own, until it ends however it ends; None if it is taken."""
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
