"""The review page, served in this process, and a real Chromium."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from audit.conftest import EXACT, audited
from fedsift.audit import SiteAudit, SiteRecord, audit_site
from fedsift.audit.review import Decisions, Reviewed, ReviewSamples
from fedsift.audit.review.app import Review, Start
from fedsift.audit.review.server import HOST, listen, web_server
from fedsift.data.own_file import OwnFile
from fedsift.data.samples import Content, Pictures, Table

TOKEN = "a-token-of-the-test"
LIMIT = 30.0  # seconds to start, to stop, or to answer
DESK, PHONE = (1280, 800), (375, 740)
ANA = Start("ana")


@dataclass(frozen=True)
class Served:
    """Where the page is."""

    origin: str
    folder: Path

    @property
    def address(self) -> str:
        return f"{self.origin}/?token={TOKEN}"


@contextmanager
def served(
    samples: ReviewSamples, folder: Path, start: Start = ANA, own: OwnFile | None = None
) -> Iterator[Served]:
    decisions = Decisions(folder / "decisions.jsonl", len(samples.table))
    review = Review(Reviewed(samples, decisions, folder, own), TOKEN, start)
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


FEMNIST = (*"0123456789", *"ABCDEFGHIJKLMNOPQRSTUVWXYZ", *"abcdefghijklmnopqrstuvwxyz")
CLASSES = {
    2: ("benign", "malignant"),
    10: tuple("0123456789"),
    62: FEMNIST,
}
COUNT = 24
WRONG = 8  # of them, the first ones


def site_of(kind: str, classes: int) -> SiteAudit:
    """Return an audit of 24 samples of a kind: table, text, image, scan (16 bits)."""
    names = CLASSES[classes]
    random = np.random.default_rng(classes)
    truth = np.arange(COUNT) % min(classes, 6)
    given = np.where(np.arange(COUNT) < WRONG, (truth + 1) % classes, truth)
    probabilities = np.full((COUNT, classes), 0.03 / (classes - 1))
    probabilities[np.arange(COUNT), truth] = 0.97
    ids = tuple(f"P{n:04d}" for n in range(COUNT))
    record = SiteRecord(
        "north",
        torch.from_numpy(given),
        torch.linspace(0, 1, COUNT),
        torch.from_numpy(probabilities).float(),
        ids,
    )
    content = CONTENTS[kind](random, truth)
    return audit_site(record, EXACT, names, lambda: content)


def _table(random: np.random.Generator, truth: np.ndarray) -> Content:
    frame = pd.DataFrame(
        {
            "age": (40 + 4 * truth + random.normal(0, 3, COUNT)).round(1),
            "mean radius": (12 + truth + random.random(COUNT)).round(4),
            "smoker": random.random(COUNT) < 0.5,
            "stage": random.choice(["early", "late"], COUNT),
            "ward": random.choice(["A", "B", None], COUNT),
        }
    )
    return Table(frame)


def _text(random: np.random.Generator, truth: np.ndarray) -> Content:
    words = ["invoice", "refund", "error", "crash", "card", "login", "paid", "twice", "slow"]
    texts = [
        f"Ticket {n}: {' '.join(random.choice(words, 14))}\nBest regards, <b>customer {t}</b>"
        for n, t in enumerate(truth)
    ]
    return Table(pd.DataFrame({"text": texts, "channel": random.choice(["mail", "web"], COUNT)}))


def _pictures(random: np.random.Generator, truth: np.ndarray, kind: str, side: int) -> Content:
    rows, columns = np.mgrid[:side, :side] / side - 0.5
    top = np.iinfo(kind).max

    def pixels(n: int) -> np.ndarray:
        ring = np.abs(np.hypot(rows, columns) - 0.06 * (1 + truth[n])) < 0.05
        noise = np.random.default_rng(n).random((side, side))
        return (top * (0.2 * noise + 0.7 * ring) / (4 if kind == "uint16" else 1)).astype(kind)

    return Pictures(COUNT, side, side, 1, kind, pixels, lambda n: {"file": f"scans/{n}.png"})


CONTENTS = {
    "table": _table,
    "text": _text,
    "image": lambda random, truth: _pictures(random, truth, "uint8", 28),
    "scan": lambda random, truth: _pictures(random, truth, "uint16", 512),
}


@pytest.fixture
def site(images, tmp_path) -> Iterator[Served]:
    """Serve the 8 images."""
    with served(ReviewSamples.of(images), tmp_path) as place:
        yield place


Open = Callable[[Served], object]


@pytest.fixture
def open_page(chromium):
    """Return a function that opens the page in the browser of one person."""
    contexts = {}

    def open_(place: Served, size=(1100, 800), *, touch=False, person="", ready=True):
        key = (size, touch, person)
        if key not in contexts:
            contexts[key] = chromium.new_context(
                viewport={"width": size[0], "height": size[1]}, has_touch=touch, is_mobile=touch
            )
            contexts[key].set_default_timeout(30_000)
        page = contexts[key].new_page()
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.faults = []
        page.on("pageerror", lambda error: page.faults.append(str(error)))
        page.on("console", lambda m: page.faults.append(m.text) if m.type == "error" else None)
        page.goto(place.address)
        if ready:
            page.wait_for_selector("body[data-ready]")
        return page

    yield open_
    for context in contexts.values():
        context.close()
