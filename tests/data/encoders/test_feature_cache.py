from __future__ import annotations

import numpy as np
import pytest
import torch

from encoder_cases import Counting
from fedsift.data.encoders import Chunks, default_cache, encoded
from fedsift.data.encoders.feature_cache import BATCH, CHUNK
from fedsift.errors import DataError

N = 2 * CHUNK + 100


@pytest.fixture
def inputs() -> torch.Tensor:
    return torch.randn(N, 3, generator=torch.Generator().manual_seed(0))


def run(encoder, inputs, cache):
    return encoded(encoder, inputs, cache, lambda _done, _total: None)


def test_features_are_the_encoders_in_any_order(inputs, tmp_path):
    parts = run(Counting(), inputs, tmp_path)
    mean, std = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([2.0, 1.0, 4.0])
    indices = torch.tensor([N - 1, 0, CHUNK, CHUNK - 1, 0])
    stored = Chunks(parts, mean, std)
    assert stored.shape == (N, 3)
    expected = (inputs[indices].square() - mean) / std
    torch.testing.assert_close(stored.take(indices), expected, rtol=1e-6, atol=1e-6)
    assert all(isinstance(part, np.memmap) for part in parts)


def test_nothing_is_computed_twice(inputs, tmp_path):
    run(Counting(), inputs, tmp_path)
    again = Counting()
    run(again, inputs, tmp_path)
    assert again.sizes == []


def test_a_run_that_was_stopped_goes_on_with_the_chunk_it_was_at(inputs, tmp_path):
    whole = run(Counting(), inputs, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(Counting(fails_at=CHUNK // BATCH + 3), inputs, tmp_path / "stopped")
    second = Counting()
    resumed = run(second, inputs, tmp_path / "stopped")
    assert sum(second.sizes) == N - CHUNK
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)


def test_only_chunks_with_other_samples_are_computed(inputs, tmp_path):
    run(Counting(), inputs, tmp_path)
    changed = inputs.clone()
    changed[CHUNK + 7, 1] += 1
    again = Counting()
    parts = run(again, changed, tmp_path)
    assert sum(again.sizes) == CHUNK
    np.testing.assert_array_equal(parts[1], changed[CHUNK : 2 * CHUNK].square())


def test_another_encoder_has_its_own_features(inputs, tmp_path):
    run(Counting(), inputs, tmp_path)
    other = Counting(fingerprint="cd" * 32)
    run(other, inputs, tmp_path)
    assert sum(other.sizes) == N


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\x03\x04 no array"])
def test_a_damaged_file_is_computed_again(inputs, tmp_path, content):
    run(Counting(), inputs, tmp_path)
    path = sorted(tmp_path.rglob("*.npy"))[0]
    path.write_bytes(content)
    again = Counting()
    parts = run(again, inputs, tmp_path)
    assert len(again.sizes) > 0
    np.testing.assert_array_equal(np.concatenate(parts), inputs.square())


def test_a_pickle_in_the_cache_is_not_loaded(inputs, tmp_path):
    run(Counting(), inputs[:3], tmp_path)
    (path,) = tmp_path.rglob("*.npy")
    np.save(path, np.array([{"a": 1}] * 3, object), allow_pickle=True)
    parts = run(Counting(), inputs[:3], tmp_path)
    np.testing.assert_array_equal(parts[0], inputs[:3].square())


def test_progress_counts_samples_up_to_all(inputs, tmp_path):
    seen = []
    encoded(Counting(), inputs, tmp_path, lambda *state: seen.append(state))
    done = [now for now, _ in seen]
    assert done == sorted(done)
    assert seen[-1] == (N, N)
    assert {total for _, total in seen} == {N}


def test_texts_are_told_apart_by_where_they_end(tmp_path):
    class Lengths(Counting):
        def encode(self, batch):
            self.sizes.append(len(batch))
            return torch.tensor([[float(len(text))] for text in batch])

    run(Lengths(), ["ab", "c"], tmp_path)
    other = Lengths()
    parts = run(other, ["a", "bc"], tmp_path)
    assert other.sizes == [2]
    np.testing.assert_array_equal(parts[0], [[1], [2]])


def test_an_encoder_that_loses_samples_is_refused(inputs, tmp_path):
    class Losing(Counting):
        def encode(self, batch):
            return batch[1:]

    with pytest.raises(DataError, match=r"returned features \[63, 3\] for 64 samples"):
        run(Losing(), inputs, tmp_path)


def test_a_cache_that_cannot_be_written_is_named(inputs, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(
        DataError, match=r"cannot be kept in .* \(Not a directory\); set FEDSIFT_CACHE"
    ):
        run(Counting(), inputs, tmp_path / "file")


def test_features_are_readable_by_their_owner_only(inputs, tmp_path):
    run(Counting(), inputs[:2], tmp_path)
    (folder,) = tmp_path.iterdir()
    assert folder.stat().st_mode & 0o077 == 0


def test_the_cache_is_where_the_environment_says(monkeypatch, tmp_path):
    monkeypatch.setenv("FEDSIFT_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("FEDSIFT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache/fedsift/features"
