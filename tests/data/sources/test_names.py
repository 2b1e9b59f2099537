"""Labels and ids as text, against what is written by hand."""

import numpy as np
import pandas as pd
import pytest
import torch

from fedsift.data.sources.names import id_names, label_names
from fedsift.errors import DataError


@pytest.mark.parametrize(
    ("values", "names"),
    [
        (["b", "a ", "A"], ("b", "a ", "A")),
        ([3, -1, 0], ("3", "-1", "0")),
        ([3.0, -1.0, 0.0], ("3", "-1", "0")),
        (["3.0", "1", "02"], ("3", "1", "02")),
        (["1e2", "1"], ("100", "1")),
        (["3.0", "none"], ("3.0", "none")),
        ([True, False], ("true", "false")),
        (["TRUE", "False"], ("true", "false")),
        (["True", "maybe"], ("True", "maybe")),
        (np.array(["x", "y"]), ("x", "y")),
        (np.array([1, 0], np.uint8), ("1", "0")),
        (np.array([1, 0], ">i4"), ("1", "0")),
        (torch.tensor([1, 0]), ("1", "0")),
        (torch.tensor([True, False]), ("true", "false")),
        (pd.Series(["b", "a"], dtype="category"), ("b", "a")),
        (pd.Series([2, 1], dtype="Int64", index=[7, 8]), ("2", "1")),
        (pd.Series([1, 2], dtype="category"), ("1", "2")),
    ],
)
def test_labels_are_text(values, names):
    assert label_names(values, "here") == names


def test_numbers_with_class_names_are_the_names():
    assert label_names(np.array([2, 0]), "here", ("a", "b", "c")) == ("c", "a")
    assert label_names(["b", "a"], "here", ("a", "b", "c")) == ("b", "a")


@pytest.mark.parametrize(
    ("values", "classes", "sentence"),
    [
        (["a", None, "b", float("nan"), ""], None, r"no label in 3 of 5 rows.*row 1;"),
        ([1.0, np.nan], None, r"no label in 1 of 2 rows.*row 1;"),
        ([0.5, 1.0], None, r"label 0.5, which is not a whole number"),
        (["0.5", "1"], None, r"label 0.5, which is not a whole number"),
        ([float("inf"), 1.0], None, "inf"),
        ([0, 3], ("a", "b"), r"label 3 but 2 class names; labels must be 0 to 1"),
        ([0, -1], ("a", "b"), r"no label in 1 of 2 rows"),
        (["c"], ("a", "b"), r"label 'c', which is not among its classes \(a, b\)"),
        (np.zeros((2, 2)), None, "one value per sample"),
    ],
)
def test_wrong_labels(values, classes, sentence):
    with pytest.raises(DataError, match=f"here.*{sentence}"):
        label_names(values, "here", classes)


def test_ids_are_text_of_any_type():
    assert id_names([12, "a", 3.0], "here") == ("12", "a", "3")
    assert id_names(pd.Series([pd.Timestamp("2020-01-02")]), "here") == ("2020-01-02 00:00:00",)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["a", "b", "a"], "id 'a' 2 times"),
        ([1, 1.0], "id '1' 2 times"),
        (["a", None], "no id in 1 of 2 rows, the first is row 1"),
    ],
)
def test_wrong_ids(values, sentence):
    with pytest.raises(DataError, match=sentence):
        id_names(values, "here")
