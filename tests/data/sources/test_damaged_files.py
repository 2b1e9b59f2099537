"""Whole files with bytes cut off or changed: they are read, or refused with a sentence."""

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fedsift as fs
from encoded import encode
from fedsift.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 255, (8, 9), dtype=np.uint8)
TABLE = pa.table({"a": [1.5, None] * 9, "s": ["x y", "z"] * 9, "label": ["yes", "no"] * 9})
CELLS = [{"bytes": encode(PIXELS), "path": "a.png"}] * 4
IMAGES = pa.table({"image": CELLS, "label": [0, 1, 0, 1]})


def _stream(table, path):
    with pa.ipc.new_stream(path, table.schema) as sink:
        sink.write_table(table)


WRITERS = {  # file that is damaged -> how it is written
    "a.csv": lambda path: TABLE.to_pandas().to_csv(path, index=False),
    "b.csv.gz": lambda path: TABLE.to_pandas().to_csv(path, index=False),
    "a.parquet": lambda path: pq.write_table(TABLE, path),
    "b.parquet": lambda path: pq.write_table(IMAGES, path),
    "a.arrow": lambda path: _stream(TABLE, path),
    "b.arrow": lambda path: _stream(IMAGES, path),
    "a.feather": lambda path: TABLE.to_pandas().to_feather(path),
    "a.npz": lambda path: np.savez_compressed(path, inputs=PIXELS, labels=PIXELS[:, 0]),
    "d/inputs.npy": lambda path: np.save(path, PIXELS),
    "d/labels.npy": lambda path: np.save(path, PIXELS[:, 0]),
    "d/x/a.png": lambda path: path.write_bytes(encode(PIXELS)),
    "d/x/a.tif": lambda path: path.write_bytes(encode(PIXELS, "TIFF")),
    "d/x/a.jpg": lambda path: path.write_bytes(encode(PIXELS, "JPEG")),
}


def _damaged(whole: bytes, source: random.Random) -> bytes:
    if source.random() < 0.3:
        return whole[: source.randrange(len(whole))]
    data = bytearray(whole)
    for _ in range(source.choice([1, 2, 8])):
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


@pytest.mark.parametrize("name", WRITERS)
def test_nothing_but_a_sentence(tmp_path, name):
    file, source, refused = tmp_path / name, random.Random(0), []
    file.parent.mkdir(parents=True, exist_ok=True)
    if name.endswith(".npy"):
        for other in ("inputs.npy", "labels.npy"):
            WRITERS[f"d/{other}"](file.parent / other)
    WRITERS[name](file)
    whole, given = file.read_bytes(), tmp_path / name.partition("/")[0]
    for _ in range(60):
        file.write_bytes(_damaged(whole, source))
        try:
            samples = fs.read(given)
            samples.content.fields(0), samples.content.picture(len(samples) - 1)
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 10
    assert "\n" not in "".join(refused)
