"""The review page, served in this process, and a real Chromium."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from audit.conftest import audited
from fedsift.audit import SiteRecord
from fedsift.audit.review import Decisions, ReviewSamples
from fedsift.audit.review.app import Review
from fedsift.audit.review.server import HOST, listen, web_server

TOKEN = "a-token-of-the-test"
LIMIT = 30.0  # seconds to start, to stop, or to answer


@dataclass(frozen=True)
class Served:
    """Where the page is."""

    origin: str
    folder: Path

    @property
    def address(self) -> str:
        return f"{self.origin}/?token={TOKEN}"


@contextmanager
def served(samples: ReviewSamples, folder: Path) -> Iterator[Served]:
    decisions = Decisions(folder / "decisions.jsonl", len(samples.table))
    review = Review(samples, decisions, folder / "corrected.parquet", TOKEN)
    server, listening = web_server(review), listen(0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    end = time.monotonic() + LIMIT
    try:
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < end
            time.sleep(0.01)
        yield Served(f"http://{HOST}:{listening.getsockname()[1]}", folder)
    finally:
        server.should_exit = True
        thread.join(LIMIT)
        listening.close()
        decisions.close()
        assert not thread.is_alive()


def many(count: int) -> ReviewSamples:
    """Return so many tiny images, all with a suspicious label."""
    inputs = torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    probabilities = torch.tensor([[0.01, 0.99]]).repeat(count, 1)
    probabilities[: count // 10] = probabilities[: count // 10].flip(1)
    record = SiteRecord("0", torch.zeros(count).long(), torch.zeros(count), probabilities)
    return ReviewSamples.of(audited(inputs, record, ("no", "yes")))


@pytest.fixture
def site(images, tmp_path) -> Iterator[Served]:
    """Serve the 8 images."""
    with served(ReviewSamples.of(images), tmp_path) as place:
        yield place


Open = Callable[[Served], object]


@pytest.fixture
def open_page(chromium):
    """Return a function that opens the page in the browser of one person."""
    context = chromium.new_context(viewport={"width": 1100, "height": 800})
    context.set_default_timeout(60_000)

    def open_(place: Served):
        page = context.new_page()
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
        page.goto(place.address)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_
    context.close()
