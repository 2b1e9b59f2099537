"""The clean set against the trained model, and what a person sees of it."""

import dataclasses
import json

import pytest
import torch

from fedsift.cli.main import main
from fedsift.experiment.clean_watch import watch
from fedsift.experiment.config import Config
from fedsift.experiment.setup import from_config, from_data, load_data
from fedsift.problem.networks import build_model
from tiny import tiny_config


def test_contradicted_clean_samples_are_listed_with_their_own_positions():
    setup = from_config(tiny_config("fedavg", {}).resolve())
    state = setup.initial_state()
    y = torch.zeros_like(state.y)
    y[-setup.data.classes] = 50.0  # the bias of the first class: the model is sure of it
    found, said = watch(setup, type(state)(y))
    labels = setup.data.validation[1]
    assert {row["position"] for row in found["contradicted"]} == set(
        (labels != 0).nonzero().flatten().tolist()
    )
    assert "contradicts" in said[0]
    untrained, quiet = watch(setup, type(state)(torch.zeros_like(state.y)))
    assert (untrained, quiet) == ({"contradicted": []}, [])


@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_wrong_clean_labels_are_warned_of_before_training(share):
    """F1 with 0, 10, 20 and 40 % is in docs/guide/audit.md (benchmarks/wrong_clean_set.py)."""
    config = Config.of(dataset="digits", clients=3, samples_per_client=40, method="fedavg")
    config = config.resolve()
    data = load_data(config)
    inputs, labels = data.validation
    count = round(share * len(labels))
    wrong = torch.cat([(labels[:count] + 1) % data.classes, labels[count:]])

    def notes(clean):
        changed = dataclasses.replace(data, validation=(inputs, clean))
        module = build_model("linear", data.shape, data.classes, 0)
        return from_data(config, changed, module).of_own_data(None).notes

    assert any("wrong" in note for note in notes(wrong))
    assert not any("wrong" in note for note in notes(labels))


def test_audit_lists_them(tmp_path, capsys):
    row = {"position": 4, "given": "cat", "predicted": "dog", "probability": 0.9}
    clean = {"suspects": [2, 4], "contradicted": [row]}
    (tmp_path / "summary.json").write_text(json.dumps({"clean_set": clean}))
    assert main(["audit", str(tmp_path), "--validation"]) == 0
    out = capsys.readouterr().out
    assert "position 2: looks wrong" in out
    assert "position 4: labelled 'cat', the model of all sites says 'dog' (90%)" in out
    assert "2 clean samples to check" in out
    assert main(["audit", str(tmp_path / "none"), "--validation"]) == 2
