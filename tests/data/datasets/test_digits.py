from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from fedsift.data import load
from fedsift.errors import DataError


def rows_of(split: str) -> list[tuple[int, ...]]:
    source = load("digits", split)
    standard = source.inputs(torch.arange(len(source))).reshape(len(source), 64)
    pixels = ((standard * 0.3761 + 0.3053) * 16).round()
    return [
        (*map(int, image), label)
        for image, label in zip(pixels.tolist(), source.labels.tolist(), strict=True)
    ]


def test_train_and_test_together_are_the_digits_of_scikit_learn():
    images, labels = load_digits(return_X_y=True)
    original = np.column_stack([images, labels]).astype(int).tolist()
    train, test = rows_of("train"), rows_of("test")
    assert (len(train), len(test)) == (1297, 500)
    assert sorted(train + test) == sorted(map(tuple, original))


def test_inputs_are_standardised_over_all_images():
    inputs = torch.cat([load("digits", s).inputs(torch.arange(500)) for s in ("train", "test")])
    assert abs(float(inputs.mean())) < 0.02
    assert abs(float(inputs.std()) - 1) < 0.02


def test_inputs_keep_the_order_that_was_asked_for():
    source = load("digits", "train")
    everything = source.inputs(torch.arange(len(source)))
    some = source.inputs(torch.tensor([9, 3, 3]))
    assert torch.equal(some, everything[[9, 3, 3]])
    assert (some.dtype, tuple(some.shape)) == (torch.float32, (3, *source.shape))


def test_every_class_is_in_both_splits():
    for split in ("train", "test"):
        assert set(load("digits", split).labels.tolist()) == set(range(10))


@pytest.mark.parametrize("rows", [[-1], [1297]])
def test_rows_that_do_not_exist_are_refused(rows):
    with pytest.raises(DataError, match="rows 0 to 1296"):
        load("digits", "train").inputs(torch.tensor(rows))
