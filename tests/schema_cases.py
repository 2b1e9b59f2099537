"""Samples of every kind, as a source would read them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from fedsift.data.samples import Pictures, Samples, Table

WORDS = ["the", "patient", "has", "no", "pain", "but", "a", "fever", "since", "two", "days"]


def mixed_frame(rows: int = 40, seed: int = 0) -> pd.DataFrame:
    """Return numbers with and without gaps, booleans, categories, text and useless columns."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.normal(50, 20, rows),
            "dose": random.exponential(3, rows),
            "visits": random.integers(0, 9, rows),
            "smoker": random.choice(["true", "false"], rows),
            "ward": random.choice(["east", "west", "north"], rows),
            "note": [" ".join(random.choice(WORDS, random.integers(4, 12))) for _ in range(rows)],
            "year": [2024] * rows,
            "name": [f"patient {i}" for i in range(rows)],
        }
    )
    for column in ("dose", "ward", "note"):
        frame.loc[random.choice(rows, rows // 8, replace=False), column] = None
    return frame


def of_frame(frame: pd.DataFrame, where: str = "clean.csv", **given: object) -> Samples:
    labels = tuple(("ill", "well")[i % 2] for i in range(len(frame)))
    return Samples(where, Table(frame), labels, **given)  # type: ignore[arg-type]


def of_pixels(pixels: np.ndarray, where: str = "pictures/") -> Samples:
    """Return pictures of an array [n, H, W] or [n, H, W, C]."""
    channels = 1 if pixels.ndim == 3 else pixels.shape[3]
    size = (len(pixels), pixels.shape[1], pixels.shape[2], channels, str(pixels.dtype))
    labels = tuple(str(i % 3) for i in range(len(pixels)))
    return Samples(where, Pictures(*size, pixels=lambda i: pixels[i]), labels)
