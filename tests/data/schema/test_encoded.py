"""Features as inputs: every kind of samples, and who decides which encoder runs."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from encoder_cases import Counting
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema, SchemaSettings, Workspace
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import take
from schema_cases import mixed_frame, of_frame, of_pixels

SETTINGS = SchemaSettings(encoder="tests:counting")
PIXELS = np.random.default_rng(0).integers(0, 256, (7, 4, 3, 3), dtype=np.uint8)


class WordCounts(Counting):
    """Number of words and of lines of each text."""

    def encode(self, batch):
        self.sizes.append(len(batch))
        return torch.tensor([[len(t.split()), t.count("\n")] for t in batch]).float()


def texts() -> WordCounts:
    return WordCounts(reads="text")


def fitted(samples, encoder, cache):
    workspace = Workspace(encoder=encoder, cache=cache)
    return Schema.fit(samples, settings=SETTINGS, workspace=workspace), workspace


def everything(inputs):
    return take(inputs, torch.arange(len(inputs)))


def test_features_are_standardised_with_the_clean_sets(tmp_path):
    values = torch.randn(9, 2, 2, generator=torch.Generator().manual_seed(0))
    clean = Samples("clean.npz", Arrays(values), tuple("ab" * 4 + "a"))
    schema, workspace = fitted(clean, Counting(), tmp_path)
    squares = values.flatten(1).square().double()
    expected = (squares - squares.mean(0)) / squares.std(0, correction=0)
    schema_inputs = everything(schema.inputs(clean, workspace))
    torch.testing.assert_close(schema_inputs, expected.float(), rtol=1e-5, atol=1e-5)
    assert schema.shape == (4,)


@pytest.mark.parametrize("reads", ["pictures", "inputs"])
def test_an_encoder_gets_pictures_in_0_to_1_or_standardised(tmp_path, reads):
    seen = []

    class Seeing(Counting):
        def encode(self, batch):
            seen.append(batch)
            return super().encode(batch)

    fitted(of_pixels(PIXELS), Seeing(reads=reads), tmp_path)
    x = PIXELS.transpose(0, 3, 1, 2) / 255
    if reads == "inputs":
        x = (x - x.mean((0, 2, 3), keepdims=True)) / x.std((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(torch.cat(seen), x, atol=1e-5)


def test_text_columns_are_encoded_and_the_others_prepared_as_ever(tmp_path):
    frame = mixed_frame().assign(second=lambda f: f["note"])
    clean = of_frame(frame)
    schema, workspace = fitted(clean, texts(), tmp_path)
    result = everything(schema.inputs(clean, workspace))
    words = 2 * frame["note"].fillna("").str.split().map(len).to_numpy(float)
    others = of_frame(frame.drop(columns=["note", "second"]))
    np.testing.assert_allclose(result[:, 0], (words - words.mean()) / words.std(), atol=1e-5)
    assert torch.equal(result[:, 2:], Schema.fit(others).inputs(others))
    assert schema.shape == tuple(result.shape[1:])


def test_a_table_of_text_alone_is_features_alone(tmp_path):
    schema, workspace = fitted(of_frame(mixed_frame()[["note"]]), texts(), tmp_path)
    site = of_frame(mixed_frame(rows=5, seed=3))
    assert schema.inputs(site, workspace).shape == (5, 2)


def test_the_clean_sets_features_are_not_computed_again(tmp_path):
    clean = of_pixels(PIXELS)
    schema, _ = fitted(clean, Counting(), tmp_path)
    again = Counting()
    schema.inputs(clean, Workspace(encoder=again, cache=tmp_path))
    assert again.sizes == []


@pytest.mark.parametrize("encoder", [texts(), Counting()])
def test_a_schema_from_its_json_gives_equal_inputs(tmp_path, encoder):
    clean = of_frame(mixed_frame())
    schema, workspace = fitted(clean, encoder, tmp_path)
    again = Schema.from_json(schema.to_json())
    assert again == schema
    expected = everything(schema.inputs(clean, workspace))
    assert torch.equal(everything(again.inputs(clean, workspace)), expected)


def test_an_encoder_is_loaded_by_its_name(tmp_path):
    clean = Samples("clean.npz", Arrays(torch.rand(4, 2)), tuple("abab"))
    settings = SchemaSettings(encoder="encoder_cases:doubled")
    schema = Schema.fit(clean, settings=settings, workspace=Workspace(cache=tmp_path))
    workspace = Workspace(encoder="encoder_cases:doubled", cache=tmp_path)
    assert schema.preparation.encoder == "encoder_cases:doubled"
    assert schema.inputs(clean, workspace).shape == (4, 2)


def test_a_site_never_runs_an_encoder_because_a_server_named_it(tmp_path):
    schema, _ = fitted(of_pixels(PIXELS), Counting(), tmp_path)
    with pytest.raises(InputError, match="came without one; give the same encoder with --encoder"):
        schema.inputs(of_pixels(PIXELS))


def test_an_encoder_with_other_weights_is_refused(tmp_path):
    schema, _ = fitted(of_pixels(PIXELS), Counting(), tmp_path)
    other = Workspace(encoder=Counting(fingerprint="cd" * 32), cache=tmp_path)
    with pytest.raises(InputError, match=r"fingerprint cdcdcdcdcdcd and the server's .* abab"):
        schema.inputs(of_pixels(PIXELS), other)


def test_a_site_without_the_text_column_is_refused(tmp_path):
    schema, workspace = fitted(of_frame(mixed_frame()), texts(), tmp_path)
    with pytest.raises(DataError, match="no column 'note'"):
        schema.inputs(of_frame(mixed_frame().drop(columns="note")), workspace)


def test_a_clean_set_without_text_is_refused(tmp_path):
    with pytest.raises(DataError, match="no text column"):
        fitted(of_frame(mixed_frame().drop(columns="note")), texts(), tmp_path)


def test_a_feature_of_one_value_stays_finite(tmp_path):
    clean = Samples("clean.npz", Arrays(torch.full((4, 2), 0.1)), tuple("abab"))
    schema, workspace = fitted(clean, Counting(), tmp_path)
    assert everything(schema.inputs(clean, workspace)).abs().max() < 1e-6


CHANGES = {
    "no mean": {"mean": []},
    "fewer deviations": {"std": [1.0]},
    "a deviation of 0": {"std": [0.0] * 36},
    "an inner kind that is unknown": {"inner": {"kind": "encoded"}},
    "an inner list": {"inner": []},
    "nothing to encode": {"inner": None},
    "text columns of pictures": {"columns": ["note"]},
    "a fingerprint that is a number": {"fingerprint": 7},
    "a key too many": {"weights": "x"},
}


@pytest.mark.parametrize("case", CHANGES)
def test_hostile_json_is_refused(tmp_path, case):
    schema, _ = fitted(of_pixels(PIXELS), Counting(), tmp_path)
    document = json.loads(schema.to_json())
    document["preparation"] |= CHANGES[case]
    with pytest.raises(InputError):
        Schema.from_json(json.dumps(document))


def test_settings_without_an_encoder_make_no_features():
    schema = Schema.fit(of_pixels(PIXELS), settings=replace(SETTINGS, encoder=""))
    assert schema.preparation.kind == "image"
