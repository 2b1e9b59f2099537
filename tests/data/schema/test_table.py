"""Tables, against scikit-learn's own pipeline on the same data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fedsift.data.schema import Schema, SchemaSettings
from fedsift.errors import DataError, InputError
from fedsift.problem.inputs import StoredInputs, take
from schema_cases import mixed_frame, of_frame


def dense(schema, samples):
    inputs = schema.inputs(samples)
    return take(inputs, torch.arange(len(inputs))).numpy()


def by_scikit_learn(clean, site):
    """Impute, scale, one-hot and hash with scikit-learn: numbers, gaps, categories, words."""
    numbers = ["age", "dose", "visits"]
    impute = SimpleImputer(strategy="median")
    words = HashingVectorizer(n_features=4096, ngram_range=(1, 2))
    pipeline = ColumnTransformer(
        [
            ("numbers", make_pipeline(impute, StandardScaler()), numbers),
            ("ward", OneHotEncoder(handle_unknown="ignore"), ["ward"]),
            ("note", words, "note"),
        ],
        sparse_threshold=0,
    )
    clean, site = (f.assign(note=f["note"].fillna("")) for f in (clean, site))
    result = pipeline.fit(clean).transform(site)
    fitted = pipeline.named_transformers_["ward"].categories_[0]
    known = [i for i, ward in enumerate(fitted) if isinstance(ward, str)]
    hashed = words.transform(clean["note"]).data
    return (
        result[:, :3],
        result[:, 3 : 3 + len(fitted)][:, known],
        result[:, 3 + len(fitted) :] / np.sqrt(np.mean(hashed**2)),
    )


def test_inputs_are_those_of_scikit_learns_pipeline(frame):
    site = mixed_frame(rows=30, seed=1)
    site.loc[3, "ward"] = "south"
    numbers, wards, words = by_scikit_learn(frame, site)
    gaps = site["dose"].isna().to_numpy(float)
    smokers = (site["smoker"] == "true").to_numpy(float)
    age, dose, visits = numbers.T
    head = np.column_stack([age, dose, gaps, visits, smokers, wards])
    result = dense(Schema.fit(of_frame(frame)), of_frame(site))
    np.testing.assert_allclose(result, np.hstack([head, words]), rtol=1e-6, atol=1e-6)


def test_a_table_without_text_is_a_tensor_in_memory(frame):
    samples = of_frame(frame.drop(columns="note"))
    assert isinstance(Schema.fit(samples).inputs(samples), torch.Tensor)


def test_hashed_text_stays_sparse_until_it_is_taken(frame):
    inputs = Schema.fit(of_frame(frame)).inputs(of_frame(frame))
    assert isinstance(inputs, StoredInputs)
    assert inputs.words.nnz < 40 * 2 * 12
    rows = inputs.take(torch.tensor([7, 3]))
    assert torch.equal(rows, inputs.take(torch.arange(len(inputs)))[[7, 3]])


def test_the_schema_says_what_it_left_out(frame):
    frame["born"] = pd.to_datetime("1990-01-01")
    frame["nothing"] = None
    notes = Schema.fit(of_frame(frame)).notes
    assert [note.split(" and is left out")[0] for note in notes] == [
        "column 'year' has the value '2024' in every row",
        "column 'name' has 40 different values in 40 rows",
        "column 'born' has dates",
        "column 'nothing' has no values",
    ]


def test_a_column_is_of_the_kind_that_is_chosen(frame):
    settings = SchemaSettings(columns={"visits": "category", "note": "ignore", "name": "text"})
    preparation = Schema.fit(of_frame(frame), settings=settings).preparation
    assert [c.name for c in preparation.categories] == ["visits", "ward"]
    assert [t.name for t in preparation.texts] == ["name"]
    assert preparation.categories[0].categories == tuple(
        sorted(str(v) for v in set(frame["visits"]))
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"visit": "text"}, "no column 'visit'"),
        ({"age": "numeric"}, "use number, boolean"),
        ({"ward": "number"}, "where a number is expected"),
        ({"ward": "boolean"}, "where true or false is expected"),
        ({"age": "text"}, "where text is expected"),
    ],
)
def test_a_wrong_choice_is_refused(frame, columns, message):
    with pytest.raises(InputError, match=message):
        Schema.fit(of_frame(frame), settings=SchemaSettings(columns=columns))


def test_an_empty_column_is_left_out_whatever_was_chosen(frame):
    settings = SchemaSettings(columns={"nothing": "number"})
    schema = Schema.fit(of_frame(frame.assign(nothing=None)), settings=settings)
    assert "column 'nothing' has no values and is left out" in schema.notes


def test_columns_may_come_in_another_order(frame):
    schema = Schema.fit(of_frame(frame))
    turned = frame[list(reversed(frame.columns))]
    np.testing.assert_array_equal(dense(schema, of_frame(turned)), dense(schema, of_frame(frame)))


def test_a_site_without_columns_that_are_left_out_is_fine(frame):
    schema = Schema.fit(of_frame(frame))
    assert schema.unseen(of_frame(frame.drop(columns=["year", "name"]))) == []


def test_what_the_clean_set_lacks_is_counted(frame):
    site = frame.assign(ward=["south", "south", "sea", *frame["ward"][3:]], colour="red")
    site.loc[5, "age"] = None
    assert Schema.fit(of_frame(frame)).unseen(of_frame(site, "b.csv")) == [
        "b.csv: 1 of 40 rows have no value in column 'age', where the clean set has no gaps; they "
        "count as its median",
        "b.csv: 3 of 40 rows have a category in column 'ward' that the clean set lacks ('south': "
        "2, 'sea': 1); they count as missing",
        "b.csv: the clean set has no column 'colour', so it is not used",
    ]


WRONG = {
    "no column": (lambda f: f.drop(columns="dose"), "no column 'dose', which the clean set has"),
    "twice": (lambda f: pd.concat([f, f[["age"]]], axis=1), "column 'age' twice"),
    "text": (
        lambda f: f.assign(age=[1.5, "ten", *f["age"][2:]]),
        r"column 'age' of b.csv has 'ten' in row 1 \(id 'P1'\) where a number is expected",
    ),
    "boolean": (lambda f: f.assign(age=True), "has 'True' in row 0"),
    "date": (
        lambda f: f.assign(age=pd.Timestamp("2024-01-31")),
        "where a number is expected",
    ),
    "infinite": (lambda f: f.assign(age=[np.inf, *f["age"][1:]]), "too large to compute with"),
    "huge": (lambda f: f.assign(age=[-1e300, *f["age"][1:]]), "too large to compute with"),
    "no boolean": (lambda f: f.assign(smoker="perhaps"), "'perhaps' in row 0 .* true or false"),
    "number for a category": (lambda f: f.assign(ward=7.5), "'7.5' .* a category such as 'east'"),
    "number for text": (lambda f: f.assign(note=3), "has '3' in row 0 .* where text is expected"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_site_whose_table_does_not_fit_is_refused(frame, case):
    change, message = WRONG[case]
    ids = tuple(f"P{i}" for i in range(len(frame)))
    with pytest.raises(DataError, match=message):
        Schema.fit(of_frame(frame)).inputs(of_frame(change(frame), "b.csv", ids=ids))


def test_a_reader_that_turned_categories_into_numbers_or_booleans_does_no_harm():
    clean = pd.DataFrame({"code": ["1", "2", "x"], "seen": ["true", "false", "no"]})
    site = pd.DataFrame({"code": [2.0, np.nan, 1.0], "seen": [True, False, True]})
    result = dense(Schema.fit(of_frame(clean)), of_frame(site))
    expected = [[0, 1, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 1]]
    np.testing.assert_array_equal(result, expected)


def test_numbers_may_be_text_at_a_site(frame):
    schema = Schema.fit(of_frame(frame))
    site = frame.assign(visits=frame["visits"].astype(str))
    np.testing.assert_array_equal(dense(schema, of_frame(site)), dense(schema, of_frame(frame)))


def test_a_column_that_is_empty_at_a_site_counts_as_missing(frame):
    schema = Schema.fit(of_frame(frame))
    result = dense(schema, of_frame(frame.assign(dose=None, smoker=None, ward=None)))
    assert set(result[:, 2]) == {1.0}  # the gap of dose
    assert set(result[:, 4]) == {0.5}
    assert not result[:, 5:8].any()


def test_a_site_without_samples_has_inputs_without_rows(frame):
    schema = Schema.fit(of_frame(frame))
    assert dense(schema, of_frame(frame[:0])).shape == (0, *schema.shape)


def test_a_table_without_a_usable_column_is_refused(frame):
    with pytest.raises(DataError, match="no column that can be used"):
        Schema.fit(of_frame(frame[["year", "name"]]))
