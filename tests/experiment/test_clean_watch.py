"""The clean set against the trained model, and what a person sees of it."""

import json

import torch

from fedsift.cli.main import main
from fedsift.experiment.clean_watch import watch
from fedsift.experiment.setup import from_config
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
