"""Labels as people have them."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedsift.data.labels import names_of_classes, numbered, read_labels
from fedsift.errors import DataError


@pytest.mark.parametrize(
    "values",
    [
        [2, 0],
        [torch.tensor(2), np.int32(0)],
        np.array([2, 0], np.uint8),
        np.array([2, 0], object),
        torch.tensor([2, 0], dtype=torch.int16),
        pd.Series([2, 0], index=[7, 7]),
        pd.Series([2, 0], dtype="Int64"),
        pd.Categorical([2, 0]),
    ],
)
def test_integers_stay_numbers(values):
    found = read_labels(values, "here")
    assert found.dtype == torch.int64
    assert found.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a"], ("b", "a")),
        (pd.Series(["b", "a"], dtype="string"), ("b", "a")),
        ([True, False], ("true", "false")),
        (torch.tensor([True, False]), ("true", "false")),
        (pd.Series([True, False], dtype="boolean"), ("true", "false")),
        (np.array([True, False], object), ("true", "false")),
    ],
)
def test_text_and_booleans_are_names(values, names):
    assert read_labels(values, "here") == names


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, 2.0], r"here has labels of type float64; labels must be integers or names"),
        (np.array([1.0, 2], object), "here has labels of type float64"),
        (torch.tensor([1.0]), r"here has labels of type torch\.float32"),
        (["a", None], "here has no label in sample 1"),
        (pd.Series([1, None], dtype="Int64"), "here has no label in sample 1"),
        (pd.Categorical(["a", None]), "here has no label in sample 1"),
        (np.array(["a", 1], object), "here has labels that are not an array of integers or names"),
        ([1, "a"], "here has labels that are not an array of integers or names"),
        ([True, 2], "here has labels that are not an array of integers or names"),
        (pd.Series([1.0, None]), "here has no label in sample 1"),
        ([["a"], ["b"]], "here has labels that are not an array"),
        (None, "here has labels that are not an array"),
        (pd.Series(["2020-01-01"], dtype="datetime64[s]"), "labels that are not an array"),
    ],
)
def test_what_is_no_label_is_refused(values, message):
    with pytest.raises(DataError, match=message):
        read_labels(values, "here")


def test_names_get_one_number_everywhere():
    parts = {"here": ("b", "c"), "there": ("a", "c")}
    names = names_of_classes(parts, None, None)
    assert names == ("a", "b", "c")
    assert numbered(("c", "a"), names, "here").tolist() == [2, 0]


def test_a_given_order_comes_before_a_known_one_and_that_before_the_alphabet():
    parts = {"here": ("a", "b")}
    assert names_of_classes(parts, ["b", "a"], ("a", "b", "c")) == ("b", "a")
    assert names_of_classes(parts, None, ("b", "a", "c")) == ("b", "a", "c")
    assert names_of_classes({"here": torch.tensor([1])}, None, None) is None
