"""Accuracy and detection against counts by hand and scikit-learn."""

import pytest
import torch
from sklearn import metrics as sk
from torch import nn

from fedsift.experiment.metrics import accuracy, detection
from fedsift.problem import FlatModel
from fedsift.problem.predict import predict
from fedsift.randomness import generator
from stored import Watched

# weight:  flagged (< 0.5)   truly wrong
SAMPLES = [
    (0.0, True),  # hit
    (0.2, True),  # hit
    (0.49, False),  # false alarm
    (0.5, True),  # missed: 0.5 is not below 0.5
    (0.9, False),
    (1.0, False),
]


def test_detection_counted_by_hand():
    weights, wrong = (torch.tensor(column) for column in zip(*SAMPLES, strict=True))
    found = detection(weights, wrong)
    assert found["precision"] == pytest.approx(2 / 3)
    assert found["recall"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx(2 / 3)
    assert found["auc"] == pytest.approx(8 / 9)  # of 9 pairs only (0.5, 0.49) is out of order


def test_detection_agrees_with_sklearn():
    source = generator(0, "detection")
    weights = torch.rand(200, generator=source).round(decimals=1)  # with ties
    wrong = torch.rand(200, generator=source) < 0.3
    found, flagged = detection(weights, wrong), (weights < 0.5).numpy()
    assert found == pytest.approx(
        {
            "f1": sk.f1_score(wrong, flagged),
            "precision": sk.precision_score(wrong, flagged),
            "recall": sk.recall_score(wrong, flagged),
            "auc": sk.roc_auc_score(wrong, 1 - weights.double().numpy()),
        }
    )


@pytest.mark.parametrize(
    ("wrong", "scores"), [([False, False], (0.0, 0.0, 0.0)), ([True, True], (2 / 3, 1.0, 0.5))]
)
def test_auc_is_null_with_one_class(wrong, scores):
    found = detection(torch.tensor([0.1, 0.9]), torch.tensor(wrong))
    assert found["auc"] is None
    assert (found["f1"], found["precision"], found["recall"]) == pytest.approx(scores)


def test_nothing_flagged_scores_zero():
    found = detection(torch.ones(3), torch.tensor([True, False, False]))
    assert found == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "auc": 0.5}


def test_detection_without_truth_is_null():
    assert detection(torch.ones(3), None) == dict.fromkeys(("f1", "precision", "recall", "auc"))


def test_probabilities_do_not_depend_on_the_chunks(monkeypatch):
    model = FlatModel(nn.Linear(4, 3))
    y, inputs = model.initial(), torch.randn(10, 4, generator=generator(0, "inputs"))
    monkeypatch.setattr("fedsift.problem.predict.LARGEST", 3)
    expected = model.to_module(y)(inputs).softmax(dim=1)
    torch.testing.assert_close(predict(model, y, inputs), expected.detach())
    stored = Watched(inputs)
    assert torch.equal(predict(model, y, stored), predict(model, y, inputs))
    assert stored.largest == 3


def test_accuracy_is_the_share_of_hits():
    model = FlatModel(nn.Linear(2, 2))
    y = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0, 0.0])  # logits = inputs
    inputs = torch.tensor([[2.0, 1.0], [1.0, 2.0], [3.0, 0.0], [0.0, 3.0]])
    assert accuracy(model, y, inputs, torch.tensor([0, 1, 1, 1])) == 0.75
