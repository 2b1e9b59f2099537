"""Calls of ``simulate`` that cannot be right: each is one sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn

import fedsift as fs
from fedsift.data.samples import Samples, Table
from fedsift.errors import FedsiftError
from given import FRAME, HELD, NAMED, NAMES, SITES, Columns, Endless, Items, X, Y

PAIR = (X, Y)
TEXT = pd.DataFrame({"age": X[:, 0], "diagnosis": NAMES})
PAIRS = [(x, int(y)) for x, y in zip(X, Y, strict=True)]
HOLED = [*NAMES[:3], None, *NAMES[4:]]
WRONG: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
    "no clients": (([], HELD), {}, "there is no client"),
    "nothing": ((None, HELD), {}, "clients is a NoneType; give a list of pairs"),
    "a table without groups": (
        (FRAME, HELD),
        {},
        "clients is a DataFrame; .* groups with",
    ),
    "an array without groups": ((X, Y), {"validation": HELD}, "got 'validation' twice"),
    "too many": (([PAIR], *[None] * 6), {}, "simulate got 6 arguments after the clients"),
    "no validation": (([PAIR],), {}, "the validation set must be a pair .* not a NoneType"),
    "empty validation": (([PAIR], (X[:0], Y[:0])), {}, "the validation set has no samples"),
    "a path as site name": (({"a/b": PAIR}, HELD), {}, "'a/b' is not a name for a site"),
    "no site name": (({"": PAIR}, HELD), {}, "'' is not a name for a site"),
    "a dot as site name": (({"..": PAIR}, HELD), {}, r"'\.\.' is not a name for a site"),
    "a name twice": (({"1": PAIR, 1: PAIR}, HELD), {}, "2 sites have the name '1'"),
    "a named site": (({"north": (X, Y + 1)}, HELD), {}, "site north has the label 3 in sample 2"),
    "groups too short": ((X, Y), {"groups": SITES[1:], "validation": HELD}, "11 entries for 12"),
    "a missing group": (
        (X, Y),
        {"groups": [*SITES[1:], None], "validation": HELD},
        "groups has no site in row 11",
    ),
    "groups as text": ((X, Y), {"groups": "site", "validation": HELD}, "groups is of type str"),
    "one group": ((X, Y), {"groups": np.array(1), "validation": HELD}, "groups has a single value"),
    "table without labels": ((X,), {"groups": SITES, "validation": HELD}, "the table must be a"),
    "labels too short": (
        (X, Y[1:]),
        {"groups": SITES, "validation": HELD},
        "the table has 12 rows but 11 labels",
    ),
    "ids of rows": (
        (X, Y),
        {"groups": SITES, "validation": HELD, "ids": [1]},
        "ids has 1 entries for 12 rows",
    ),
    "ids as a number": (([PAIR], HELD), {"ids": 5}, "ids is of type int; give a list"),
    "ids of one": (([PAIR], HELD), {"ids": [[1]]}, "ids must have one list per client"),
    "ids of others": (([PAIR], HELD), {"ids": {"x": Y}}, "ids has other sites than clients"),
    "truth of others": (([PAIR], HELD), {"true_labels": [Y, Y]}, "true_labels has 2 arrays for 1"),
    "mixed labels": (([(X, NAMES)], HELD), {}, "client 0 has names or booleans as labels but the"),
    "a missing label": (([(X, HOLED)], NAMED), {}, "client 0 has no label in sample 3"),
    "float labels": (([(X, Y * 1.0)], HELD), {}, r"labels of type float64; .*\.astype\(int\)"),
    "labels of all kinds": (([(X, [1, "a"] * 6)], HELD), {}, "client 0 has "),
    "an unknown name": (
        ([(X, NAMES)], NAMED),
        {"class_names": ("ant", "bee", "dog")},
        "has the label 'cat' in sample 0, which is not among the classes ant, bee, dog",
    ),
    "too few names": (
        ([(X, NAMES == "cat")], (X, NAMES == "cat")),
        {},
        "labels have the 2 classes false, true but the model has 3 outputs",
    ),
    "too few class names": (([PAIR], HELD), {"class_names": ("a",)}, "class_names has 1 names for"),
    "class names as text": (([PAIR], HELD), {"class_names": "abc"}, "class_names is of type str"),
    "a text column": (([(TEXT, Y)], HELD), {}, "has the column 'diagnosis' of .* fs.read"),
    "a column twice": (([(FRAME[["age", "age"]], Y)], HELD), {}, "the column 'age' twice"),
    "no columns": (([(FRAME[[]], Y)], HELD), {}, "a table without columns"),
    "a missing value": (([(FRAME.where(FRAME.age < 1), Y)], HELD), {}, "NaN or infinite inputs"),
    "other columns": (
        ([(FRAME.rename(columns={"age": "height"}), Y)], (FRAME, Y)),
        {},
        "client 0 lacks the column 'age', which the validation set has",
    ),
    "a sparse matrix": (([(csr_matrix(X), Y)], HELD), {}, r"sparse matrix; give \.toarray"),
    "a sparse tensor": (([(torch.from_numpy(X).to_sparse(), Y)], HELD), {}, "in a sparse tensor"),
    "complex numbers": (([(X * 1j, Y)], HELD), {}, "client 0 has complex inputs"),
    "complex tensors": (([(torch.from_numpy(X * 1j), Y)], HELD), {}, "client 0 has complex inputs"),
    "ragged rows": (([([[1.0], [1.0, 2.0]], [0, 1])], HELD), {}, "inputs that are not an array of"),
    "text": (([(NAMES, Y)], HELD), {}, "client 0 has inputs that are not an array of numbers"),
    "dates": (([(X.astype("M8[s]"), Y)], HELD), {}, "inputs that are not an array of numbers"),
    "floats for tokens": (([(X, Y)], (Y[:, None], Y)), {}, "the model cannot take"),
    "no length": (([Endless()], HELD), {}, "can only be gone through in order"),
    "no items": (([Items([])], HELD), {}, "client 0 has no samples"),
    "items without labels": (
        ([Items(list(X))], HELD),
        {},
        "items must be",
    ),
    "items of two shapes": (
        ([Items([*PAIRS, (X[0, :1], 0)])], HELD),
        {},
        "item 12 of client 0 has the shape",
    ),
    "an item that fails": (
        ([Items([*PAIRS, OSError("gone")])], HELD),
        {},
        "item 12 of client 0",
    ),
    "items of text": (([Items([("a", 0)])], HELD), {}, "item 0 of client 0 holds"),
    "no label column": (([Columns.of(x=X[:, 0])], HELD), {}, "no column 'label'"),
    "columns of arrays": (
        ([Columns.of(x=list(X), z=list(X), label=Y)], HELD),
        {},
        "client 0",
    ),
    "a table's samples": (
        ([Samples("here", Table(TEXT), tuple(NAMES))], NAMED),
        {},
        "the sites have samples of fs.read but the validation set has not",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_is_one_sentence(name):
    given, named, message = WRONG[name]
    with pytest.raises(FedsiftError, match=message) as caught:
        fs.simulate(nn.Linear(2, 3), *given, **named)
    text = str(caught.value)
    assert "\n" not in text
    assert not text.endswith(".")
    assert text[0].islower() or text[0] in "'2"


def test_what_is_no_module_is_refused():
    with pytest.raises(FedsiftError, match=r"the model is a str; give an nn\.Module"):
        fs.simulate("resnet18", [PAIR], HELD)
