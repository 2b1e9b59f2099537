"""The files of a fresh user: a table, pictures and text at three sites, with wrong labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

SITES = ("north", "south", "west")
DIAGNOSES = ("benign", "malignant")
SHAPES = ("disc", "stripe")
QUEUES = ("billing", "technical")
WORDS = {
    "billing": [
        "invoice",
        "refund",
        "payment",
        "charge",
        "card",
        "amount",
        "paid",
        "twice",
        "price",
    ],
    "technical": [
        "error",
        "crash",
        "login",
        "screen",
        "update",
        "network",
        "slow",
        "install",
        "broken",
    ],
}
COMMON = ["the", "my", "a", "please", "help", "with", "was", "on", "and", "since", "today", "again"]


def write_table(folder: Path, samples: int = 60, wrong: float = 0.25) -> None:
    """Write north.csv ... clean.csv, test.csv: strings, booleans, missing values, ids, text."""
    random = np.random.default_rng(0)
    for part in (*SITES, "clean", "test"):
        noise = wrong if part in SITES else 0.0
        _table(random, samples, noise, part).to_csv(folder / f"{part}.csv", index=False)


def _table(random: np.random.Generator, count: int, noise: float, part: str) -> pd.DataFrame:
    true = random.integers(0, 2, count)
    given = np.where(random.random(count) < noise, 1 - true, true)
    age = random.normal(45 + 20 * true, 6).round(1)
    age[random.random(count) < 0.1] = np.nan
    stage = np.where(random.random(count) < 0.2 + 0.6 * true, "late", "early").astype(object)
    stage[random.random(count) < 0.05] = None
    return pd.DataFrame(
        {
            "patient": [f"{part[0].upper()}{n:04d}" for n in range(count)],
            "age": age,
            "marker": random.normal(4 * true, 1).round(3),
            "smoker": random.random(count) < 0.3 + 0.4 * true,
            "stage": stage,
            "diagnosis": np.array(DIAGNOSES)[given],
        }
    )


def write_pictures(folder: Path, bits: int = 8, samples: int = 24, wrong: float = 0.2) -> None:
    """Write scans/north/disc/0.png ...; 16-bit pictures have values that 8 bits do not hold."""
    random = np.random.default_rng(1)
    for part in (*SITES, "clean"):
        for n in range(samples):
            true = n % 2
            given = 1 - true if part in SITES and random.random() < wrong else true
            place = folder / "scans" / part / SHAPES[given]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(_picture(random, true, bits)).save(place / f"{n}.png")


def _picture(random: np.random.Generator, kind: int, bits: int, side: int = 12) -> np.ndarray:
    rows, columns = np.mgrid[:side, :side] - side / 2 + 0.5
    shape = rows**2 + columns**2 < 16 if kind == 0 else np.abs(rows + random.integers(-2, 3)) < 2
    values = 0.25 * random.random((side, side)) + 0.7 * shape
    top = 2**bits - 1
    return (top * values).round().astype(np.uint8 if bits == 8 else np.uint16)


def write_text(folder: Path, samples: int = 60, wrong: float = 0.2) -> None:
    """Write tickets-a.csv ... tickets-clean.csv."""
    random = np.random.default_rng(2)
    for part in ("a", "b", "c", "clean"):
        rows = []
        for n in range(samples):
            true = QUEUES[random.integers(2)]
            words = [*random.choice(WORDS[true], 5), *random.choice(COMMON, 5)]
            flip = part != "clean" and random.random() < wrong
            given = next(q for q in QUEUES if (q == true) != flip)
            rows.append((f"T-{part}{n}", " ".join(random.permutation(words)), given))
        frame = pd.DataFrame(rows, columns=["ticket", "text", "queue"])
        frame.to_csv(folder / f"tickets-{part}.csv", index=False)


def write_features(folder: Path, samples: int = 80, wrong: float = 0.2) -> None:
    """Write features-a.npz ... features-clean.npz."""
    random = np.random.default_rng(3)
    for part in ("a", "b", "clean"):
        true = random.integers(0, 2, samples)
        flipped = random.random(samples) < (0 if part == "clean" else wrong)
        np.savez(
            folder / f"features-{part}.npz",
            inputs=random.normal(2.0 * true[:, None] - 1, 1, (samples, 16)).astype(np.float32),
            labels=np.array(QUEUES)[np.where(flipped, 1 - true, true)],
            ids=np.array([f"F-{part}{n}" for n in range(samples)]),
        )
