"""Rounds: their numbers, their traffic, what is measured when."""

import pytest
import torch
from sklearn import metrics as sk

from fedsift.experiment.loop import evaluate, rounds
from fedsift.experiment.setup import from_config


def test_record_a_round(tiny):
    setup = from_config(tiny(rounds=3).resolve())
    records = [done.record for done in rounds(setup, setup.initial_state(), 0)]
    assert [record["round"] for record in records] == [1, 2, 3]


def test_traffic_of_the_records_adds_up(tiny):
    setup = from_config(tiny(rounds=3).resolve())
    records = [done.record for done in rounds(setup, setup.initial_state(), 0)]
    assert {
        key: sum(record[key] for record in records)
        for key in ("bytes_up", "bytes_down", "exchanges")
    } == vars(setup.federation.traffic)


def test_evaluation_every_other_round_and_at_the_end(tiny):
    setup = from_config(tiny(rounds=5, eval_every=2).resolve())
    records = [done.record for done in rounds(setup, setup.initial_state(), 0)]
    assert [r["round"] for r in records if "test_accuracy" in r] == [2, 4, 5]
    assert [r["round"] for r in records if "weights_f1" in r] == [2, 4, 5]


def test_evaluation_changes_nothing(tiny):
    last = []
    for every in (1, 3):
        setup = from_config(tiny(rounds=3, eval_every=every).resolve())
        last.append([done.state.y for done in rounds(setup, setup.initial_state(), 0)][-1])
    assert torch.equal(*last)


def test_evaluation_against_plain_torch_and_sklearn(tiny):
    setup = from_config(tiny(rounds=2, initial_weight=0.5).resolve())
    state = [done.state for done in rounds(setup, setup.initial_state(), 0)][-1]
    module, (inputs, labels) = setup.model.to_module(state.y), setup.data.test
    weights = torch.cat([setup.federation.states[m].average for m in range(2)])
    found = evaluate(setup, state)
    held, held_labels = setup.data.validation
    loss = torch.nn.functional.cross_entropy(module(held), held_labels)
    assert found["test_accuracy"] == sk.accuracy_score(labels, module(inputs).argmax(1))
    assert found["validation_loss"] == pytest.approx(loss.item())
    assert found["weights_f1"] == pytest.approx(sk.f1_score(setup.wrong(), weights < 0.5))
    assert 0 < found["weights_f1"] < 1


@pytest.mark.parametrize("method", ["fedavg", "oracle"])
def test_detection_is_not_measured_without_weights(tiny, method):
    setup = from_config(tiny(method, rounds=1).resolve())
    (done,) = rounds(setup, setup.initial_state(), 0)
    assert not [name for name in done.record if name.startswith("weights_")]
