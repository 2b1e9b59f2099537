"""Small files in the hub's layout, with real PNG images."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def random_pixels(count: int, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, *shape), dtype=np.uint8)


@pytest.fixture
def write_images():
    """Return a function that writes images (pixels, or bytes as they are) and other columns."""

    def write(path: Path, images, column: str = "image", rows_per_group: int = 4, **columns):
        encoded = [png(image) if isinstance(image, np.ndarray) else image for image in images]
        cells = [{"bytes": image, "path": None} for image in encoded]
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        table = pa.table({column: pa.array(cells, kind), **columns})
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, row_group_size=rows_per_group)
        return path

    return write


@pytest.fixture
def mnist_pixels() -> np.ndarray:
    return random_pixels(10, (28, 28))


@pytest.fixture
def data_root(tmp_path, monkeypatch) -> Path:
    """Point FEDSIFT_DATA at an empty folder."""
    monkeypatch.setenv("FEDSIFT_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def tiny_mnist(data_root, write_images) -> Path:
    """60 train and 20 test images; the classes take turns."""
    folder = data_root / "ylecun/mnist"
    for split, count in (("train", 60), ("test", 20)):
        labels = [i % 10 for i in range(count)]
        write_images(folder / f"{split}.parquet", random_pixels(count, (28, 28)), label=labels)
    return folder


@pytest.fixture
def tiny_femnist(data_root, write_images) -> Path:
    """12 writers with 3, 4 or 5 images each."""
    writers = [f"f{w:04}_00" for w in range(12) for _ in range(3 + w % 3)]
    count = len(writers)
    folder = data_root / "flwrlabs/femnist"
    write_images(
        folder / "data/train-00000-of-00001.parquet",
        random_pixels(count, (28, 28)),
        writer_id=writers,
        hsf_id=[0] * count,
        character=[i * 7 % 62 for i in range(count)],
    )
    return folder
