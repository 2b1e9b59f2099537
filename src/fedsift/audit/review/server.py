"""Serve the review page on loopback until it is stopped."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable

import uvicorn

from fedsift.audit.review.app import Review, Start, application
from fedsift.audit.review.exporting import Reviewed
from fedsift.errors import InputError

HOST = "127.0.0.1"


def serve(site: Reviewed, port: int, start: Start, announce: Callable[[str], None]) -> None:
    """Serve a site's samples until it is stopped."""
    token = secrets.token_urlsafe(24)
    with listen(port) as listening:
        review = Review(site, token, start)
        announce(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}")
        web_server(review).run(sockets=[listening])


def web_server(review: Review) -> uvicorn.Server:
    """Return the server; the page needs neither web sockets nor a compiled parser."""
    config = uvicorn.Config(
        application(review),
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    return uvicorn.Server(config)


def listen(port: int) -> socket.socket:
    """Listen on a port of loopback; 0 is any free one."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # before the address is printed: who opens it at once waits, no more
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(f"port {port} cannot be used ({error}); choose another --port") from None
    return listening
