"""The central reference: out of fold means out of fold, and its figures are sklearn's."""

import json

import pytest
import torch
from sklearn import metrics as sk

pytest.importorskip("cleanlab")

from benchmarks.central_cleanlab import FILTERS, cross_validate, main, score

from fedsift.experiment.config import Config
from fedsift.experiment.setup import from_config
from fedsift.problem import LabelledBatch
from fedsift.randomness import generator

SMALL = {"clients": 2, "samples_per_client": 60, "validation_size": 50, "test_size": 10}


def pooled_case():
    setup = from_config(Config.of(method="fedavg", model="linear", inner_lr=0.1, **SMALL).resolve())
    clients = setup.data.clients
    inputs = torch.cat([c.inputs for c in clients])
    return setup, LabelledBatch.of(inputs, torch.cat([c.labels for c in clients]))


def test_own_label_has_no_say_in_the_probabilities():
    setup, pooled = pooled_case()
    before = cross_validate(setup, pooled, folds=4, epochs=3).probabilities
    held = torch.randperm(120, generator=generator(0, "folds"))[:30]  # the first fold
    labels = pooled.labels.clone()
    labels[held] = (labels[held] + 1) % 10
    after = cross_validate(setup, LabelledBatch.of(pooled.inputs, labels), folds=4, epochs=3)
    changed = (after.probabilities != before).any(dim=1)
    assert not changed[held].any()
    assert int(changed.sum()) == 90


def test_more_epochs_never_make_the_chosen_validation_loss_higher():
    setup, pooled = pooled_case()
    few = cross_validate(setup, pooled, folds=2, epochs=2)
    many = cross_validate(setup, pooled, folds=2, epochs=12)
    for short, long, epoch in zip(few.losses, many.losses, many.epochs, strict=True):
        assert long < short
        assert 2 < epoch <= 12


def test_figures_are_those_of_sklearn():
    source = generator(1, "cleanlab")
    truth = torch.randint(4, (200,), generator=source)
    wrong = torch.rand(200, generator=source) < 0.3
    labels = torch.where(wrong, (truth + 1) % 4, truth)
    logits = torch.randn(200, 4, generator=source)
    logits[torch.arange(200), truth] += 2.0
    p = logits.softmax(dim=1)
    rows = score(labels, p, wrong)
    assert set(rows) == {*FILTERS, "disagreement"}
    said = p.argmax(dim=1) != labels
    row = rows["disagreement"]
    assert row["f1"] == pytest.approx(sk.f1_score(wrong, said))
    assert row["suspects"] == int(said.sum())
    own = p[torch.arange(200), labels]
    expected = sk.roc_auc_score(wrong, -own)
    assert rows["prune_by_noise_rate"]["auc"] == pytest.approx(expected, abs=1e-3)
    assert all(0.5 < row["f1"] < 1 for row in rows.values())


def test_command_writes_what_it_measured(tmp_path, capsys):
    settings = [f"--set={key}={value}" for key, value in {**SMALL, "model": "linear"}.items()]
    main(["--epochs=5", "--folds=3", *settings, "--out", str(tmp_path / "found.json")])
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["samples"], found["folds"], len(found["chosen_epochs"])) == (120, 3, 3)
    assert found["noise_rate"] == pytest.approx(0.4, abs=0.02)
    shown = capsys.readouterr().out
    for name, row in found["found"].items():
        assert 0 <= row["f1"] <= 1
        assert name in shown
