"""The site's process: a host behind a Unix socket that only its owner can open.

Protocol: one connection per request. The caller sends a JSON list of [name, length], then one
message of bytes per part; the reply comes back the same way. Frames are those of
``multiprocessing.connection``, of which only the byte messages are used: nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from types import FrameType

from fedsift.errors import InputError, WireError
from fedsift.federation.encoding import LIMIT, Parts
from fedsift.files import sweep
from fedsift.logs import say
from fedsift.site.calling import SOCKET
from fedsift.site.lifetime import claim

REQUEST_TIMEOUT = 10.0  # seconds for a caller to send its request
MAX_PATH = 100  # of a Unix socket's address; the system's limit is 108 bytes


def serve(folder: Path, load: Callable[[], Callable[[Parts], Parts]]) -> None:
    """Reply until a signal comes; return at once if another process has the folder.

    ``load`` returns what handles a request; it is called once this process has the folder.
    """
    lock = claim(folder)
    if lock is None:
        say(f"{folder} is in use by another process of this site, which goes on")
        return
    os.umask(0o077)  # what is written here is for its owner
    sweep(folder)
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
            _bound(connection)
            send(connection, handle(receive(connection)))
    except (OSError, EOFError, WireError) as error:  # the caller has gone, or sent something else
        print(f"a caller was dropped: {error}", file=sys.stderr, flush=True)


def _bound(connection: Connection) -> None:
    """Let no read from a caller and no write to it take longer than ``REQUEST_TIMEOUT``."""
    seconds, fraction = divmod(REQUEST_TIMEOUT, 1)
    limit = struct.pack("ll", int(seconds), int(fraction * 1e6))
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            same.setsockopt(socket.SOL_SOCKET, option, limit)


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
    raise SystemExit(0)
