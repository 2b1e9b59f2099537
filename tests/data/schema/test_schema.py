from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import PREPARATIONS, Schema, prepare
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import take
from schema_cases import mixed_frame, of_frame, of_pixels


def labelled(*labels, **given):
    return Samples("clean.npz", Arrays(torch.rand(len(labels), 2)), labels, **given)


@pytest.mark.parametrize(
    ("labels", "known", "extra", "classes"),
    [
        (("b", "a", "b"), None, None, ("a", "b")),
        (("10", "9", "-1"), None, None, ("-1", "9", "10")),
        (("10", "9", "x"), None, None, ("10", "9", "x")),
        (("b", "a"), ("b", "c", "a"), None, ("b", "c", "a")),
        (("b", "a"), None, ("z", "a"), ("a", "b", "z")),
    ],
)
def test_classes_and_their_order(labels, known, extra, classes):
    schema = Schema.fit(labelled(*labels, classes=known), classes=extra)
    assert schema.classes == classes


def test_prepare_gives_inputs_and_the_numbers_of_the_classes():
    samples = labelled("b", "a", "b")
    inputs, labels = prepare(Schema.fit(samples), samples)
    assert torch.equal(inputs, samples.content.inputs)
    assert labels.tolist() == [1, 0, 1]
    assert labels.dtype == torch.int64


def test_labels_that_are_no_class_are_counted_and_named():
    site = replace(labelled(*"aabbbccddddefg"), where="b.csv")
    message = (
        "b.csv has labels that are no class ('d': 4, 'b': 3, 'c': 2, 'e': 1, 'f': 1 and 1 others); "
        "list the class with --classes or correct the label"
    )
    with pytest.raises(DataError) as error:
        Schema.fit(labelled("a", "z")).labels(site)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (labelled("a", "a"), "two classes or more, all different, and there are 'a'"),
        (labelled(), "no samples"),
        (labelled("a", "b", classes=("a", "c")), "'b': 1"),
    ],
)
def test_a_clean_set_that_cannot_be_fitted_is_refused(samples, message):
    with pytest.raises(InputError, match=message):
        Schema.fit(samples)


SAMPLES = {
    "table": of_frame(mixed_frame()),
    "image": of_pixels(np.random.default_rng(0).normal(size=(5, 4, 6, 3)).astype(np.float32)),
    "array": labelled("a", "b", "c"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_schema_from_its_json_gives_equal_inputs(kind):
    samples = SAMPLES[kind]
    schema = Schema.fit(samples)
    again = Schema.from_json(schema.to_json())
    everything = torch.arange(len(samples))
    assert again == schema
    assert torch.equal(
        take(again.inputs(samples), everything), take(schema.inputs(samples), everything)
    )


COLUMNS = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.one_of(
        st.lists(st.none() | st.floats(-1e6, 1e6), min_size=6, max_size=6),
        st.lists(st.none() | st.text(max_size=30), min_size=6, max_size=6),
        st.lists(st.booleans(), min_size=6, max_size=6),
    ),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=60)
@given(COLUMNS)
def test_json_of_any_table_gives_equal_inputs(columns):
    frame = pd.DataFrame(columns).assign(one_that_varies=range(6))
    samples = of_frame(frame)
    schema = Schema.fit(samples)
    again = Schema.from_json(schema.to_json())
    indices = torch.arange(6)
    given, received = (take(s.inputs(samples), indices) for s in (schema, again))
    assert again == schema
    assert bool(given.isfinite().all())
    assert torch.equal(given, received)


def changed(kind, path, value):
    """Return the JSON of a schema with one value replaced; ``...`` takes it away."""
    document = json.loads(Schema.fit(SAMPLES[kind]).to_json())
    *way, last = path
    place = document
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return json.dumps(document)


NUMBER = ("preparation", "numbers", 0)
HOSTILE = {
    "no JSON": "{",
    "a list": "[]",
    "nested without end": "[" * 200_000,
    "an endless number": '{"classes": ' + "9" * 10_000 + "}",
    "no classes": changed("table", ("classes",), ...),
    "one class": changed("table", ("classes",), ["a"]),
    "a class twice": changed("table", ("classes",), ["a", "a"]),
    "classes that are numbers": changed("table", ("classes",), [1, 2]),
    "half a character": changed("table", ("classes",), ["a", "\ud800"]),
    "an unknown key": changed("table", ("run",), "rm"),
    "no preparation": changed("table", ("preparation",), ...),
    "an unknown kind": changed("table", ("preparation", "kind"), "__import__"),
    "a kind that is a list": changed("table", ("preparation", "kind"), ["table"]),
    "no numbers": changed("table", ("preparation", "numbers"), ...),
    "a column that is text": changed("table", NUMBER, "age"),
    "a mean that is text": changed("table", (*NUMBER, "mean"), "1"),
    "a mean that is true": changed("table", (*NUMBER, "mean"), True),
    "a mean that is infinite": changed("table", (*NUMBER, "mean"), float("inf")),
    "a mean that is no number": changed("table", (*NUMBER, "mean"), float("nan")),
    "a mean beyond doubles": changed("table", (*NUMBER, "mean"), 10**400),
    "a std of 0": changed("table", (*NUMBER, "std"), 0),
    "a column twice": changed("table", (*NUMBER, "name"), "dose"),
    "a key too many": changed("table", (*NUMBER, "eval"), "1"),
    "hashing without end": changed("table", ("preparation", "texts", 0, "columns"), 10**9),
    "hashing to nothing": changed("table", ("preparation", "texts", 0, "columns"), 0),
    "a scale of 0": changed("table", ("preparation", "texts", 0, "scale"), 0.0),
    "no categories": changed("table", ("preparation", "categories", 0, "categories"), []),
    "100,001 categories": changed(
        "table", ("preparation", "categories", 0, "categories"), [str(i) for i in range(100_001)]
    ),
    "a negative size": changed("image", ("preparation", "height"), -1),
    "two means for three channels": changed("image", ("preparation", "mean"), [0.0, 0.0]),
    "an unknown pixel type": changed("image", ("preparation", "dtype"), "object"),
    "an empty range": changed("image", ("preparation", "high"), -1e9),
    "an array of objects": changed("array", ("preparation", "dtype"), "object"),
    "a shape of fractions": changed("array", ("preparation", "size"), [1.5]),
    "an empty shape": changed("array", ("preparation", "size"), [0]),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_json_is_refused_with_one_sentence(case):
    with pytest.raises(InputError) as error:
        Schema.from_json(HOSTILE[case])
    message = str(error.value)
    assert message[0].islower()
    assert not message.endswith(".")
    assert len(message) < 300
    assert message.isprintable()


def test_every_preparation_has_samples_here():
    assert set(PREPARATIONS) == {*SAMPLES, "encoded"}  # which has a file of its own
