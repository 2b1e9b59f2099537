"""Where samples come from: every form gives what was put in; bad data is refused in a sentence."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedsift.errors import DataError, InputError
from fedsift.site.sources import class_names, load_model, load_samples, sample_names

INPUTS = np.arange(24, dtype=np.float32).reshape(4, 1, 2, 3)
LABELS = np.array([0, 2, 1, 0])


def _equal(pair, inputs=INPUTS):
    assert torch.equal(pair[0], torch.from_numpy(inputs))
    assert pair[1].tolist() == LABELS.tolist()
    assert pair[1].dtype == torch.int64


def test_npz(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=INPUTS.astype(np.float64), labels=LABELS)
    _equal(load_samples(str(tmp_path / "a.npz")))


def test_parquet_of_lists(tmp_path):
    pd.DataFrame({"inputs": INPUTS.tolist(), "label": LABELS}).to_parquet(tmp_path / "a.parquet")
    _equal(load_samples(str(tmp_path / "a.parquet")))


def test_a_folder_of_parquet_files_of_numbers(tmp_path):
    flat = INPUTS.reshape(4, 6)
    table = pd.DataFrame(flat, columns=[f"c{i}" for i in range(6)]).assign(label=LABELS)
    table[:1].to_parquet(tmp_path / "0.parquet")
    table[1:].to_parquet(tmp_path / "1.parquet")
    _equal(load_samples(str(tmp_path)), flat)


def test_a_folder_of_images(tmp_path):
    image = pytest.importorskip("PIL.Image")
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    (tmp_path / "classes.txt").write_text("cat\ndog\nbird")
    for name in ("bird", "cat"):
        (tmp_path / name).mkdir()
        image.fromarray(pixels).save(tmp_path / name / "a.png")
    inputs, labels = load_samples(str(tmp_path))
    assert labels.tolist() == [2, 0]
    assert torch.equal(inputs[0, 0], torch.from_numpy(pixels / np.float32(255)))
    assert sample_names(str(tmp_path)) == ["bird/a.png", "cat/a.png"]
    assert class_names(str(tmp_path)) == ("cat", "dog", "bird")


def test_module_and_function(tmp_path, monkeypatch):
    (tmp_path / "mine_for_test.py").write_text(
        "import numpy as np\nfrom torch import nn\n"
        "def data(): return np.zeros((2, 3), np.float32), [0, 1]\n"
        "def net(): return nn.Linear(3, 2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    inputs, labels = load_samples("mine_for_test:data")
    assert (inputs.shape, labels.tolist()) == ((2, 3), [0, 1])
    assert load_model("mine_for_test:net", (3,))("", 2, 0).weight.shape == (2, 3)
    with pytest.raises(InputError, match="not an nn"):
        load_model("mine_for_test:data", (3,))("", 2, 0)


def test_a_function_that_makes_a_model_is_seeded_by_the_run(tmp_path, monkeypatch):
    code = "from torch import nn\ndef net(): return nn.Linear(3, 2)\n"
    (tmp_path / "seeded_for_test.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    make, before = load_model("seeded_for_test:net", (3,)), torch.random.get_rng_state()
    first, again, other = (make("", 2, seed).weight for seed in (4, 4, 5))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("files", "given", "sentence"),
    [
        ({}, "a.npz", "there is no file"),
        ({"a.csv": b"1"}, "a.csv", "neither .npz nor .parquet"),
        ({"a.npz": b"PK"}, "a.npz", "must hold the arrays"),
        ({"a.parquet": b"PAR1"}, "a.parquet", "cannot be read as parquet"),
        ({"d/cat/a.png": b""}, "d", "number is not known"),
        ({"d/0/a.txt": b""}, "d", "no parquet file and no folder of images"),
    ],
)
def test_bad_data_is_refused(tmp_path, files, given, sentence):
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    with pytest.raises(DataError, match=sentence):
        load_samples(str(tmp_path / given))


def test_pickled_arrays_are_not_loaded(tmp_path):
    np.savez(tmp_path / "a.npz", inputs=np.array([{}, {}], dtype=object), labels=LABELS[:2])
    with pytest.raises(DataError, match="must hold the arrays"):
        load_samples(str(tmp_path / "a.npz"))
