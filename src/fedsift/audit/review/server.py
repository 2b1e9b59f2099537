"""Serve the review page on loopback until it is stopped."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from fedsift.audit.review.app import Review, application
from fedsift.audit.review.decisions import Decisions
from fedsift.audit.review.samples import ReviewSamples
from fedsift.errors import InputError

HOST = "127.0.0.1"


def serve(samples: ReviewSamples, folder: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serve a site's samples; decisions and corrected labels go into ``folder``."""
    token = secrets.token_urlsafe(24)
    with listen(port) as listening:
        decisions = Decisions(folder / "decisions.jsonl", len(samples.table))
        review = Review(samples, decisions, folder / "corrected.parquet", token)
        announce(f"http://{HOST}:{listening.getsockname()[1]}/?token={token}")
        try:
            web_server(review).run(sockets=[listening])
        finally:
            decisions.close()


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
    except (OSError, OverflowError) as error:
        listening.close()
        raise InputError(f"port {port} cannot be used ({error}); choose another --port") from None
    return listening
