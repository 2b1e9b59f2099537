"""``simulate``, ``fit`` and ``solve`` as a user calls them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor, nn

import fedsift as fs
from fedsift.errors import ConfigError, DataError, InputError
from fedsift.randomness import generator

QUICK: dict[str, Any] = {"rounds": 3, "local_steps": 2, "batch_size": 0}


def blobs(name: str, count: int, noise: float = 0.0) -> tuple[Tensor, Tensor, Tensor]:
    """Three well separated classes in the plane: inputs, labels, true labels."""
    source = generator(0, name)
    true = torch.randint(3, (count,), generator=source)
    centres = torch.tensor([[4.0, 0.0], [-4.0, 3.0], [-4.0, -3.0]])
    inputs = centres[true] + torch.randn(count, 2, generator=source)
    wrong = torch.rand(count, generator=source) < noise
    shift = torch.randint(1, 3, (count,), generator=source)
    return inputs, torch.where(wrong, (true + shift) % 3, true), true


CLIENTS = [blobs(f"client {m}", 30 + m, noise=0.3) for m in range(2)]
PAIRS = [(inputs, labels) for inputs, labels, _ in CLIENTS]
TRUTHS = [true for _, _, true in CLIENTS]
HELD = blobs("validation", 24)[:2]


def linear() -> nn.Module:
    layer = nn.Linear(2, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(3, 2, generator=generator(0, "layer")))
        layer.bias.zero_()
    return layer


def federation(model: nn.Module | None = None, **changes: Any) -> fs.Simulation:
    given: dict[str, Any] = {"clients": PAIRS, "validation": HELD}
    return fs.simulate(model or linear(), **{**given, **changes})


def weight(result: fs.Result) -> Tensor:
    return result.model.weight


def test_history_has_a_row_per_round():
    seen: list[int] = []
    result = fs.fit(federation(), **QUICK, observe=lambda record: seen.append(record["round"]))
    assert result.history["round"].tolist() == seen == [1, 2, 3]


@pytest.mark.parametrize("method", ["fedavg", "iter-sketch", "iter-topk"])
def test_same_seed_gives_the_same_bits(method):
    keys = {"rounds": 3, "local_steps": 2, "batch_size": 8}
    one, two, other = (fs.fit(federation(), method, seed=seed, **keys) for seed in (0, 0, 1))
    assert torch.equal(weight(one), weight(two))
    assert not torch.equal(weight(one), weight(other))
    if method != "fedavg":
        assert torch.equal(one.weights(1), two.weights(1))
        assert not torch.equal(one.weights(1), other.weights(1))


def test_model_is_trained():
    held = federation(true_labels=TRUTHS)
    result = fs.fit(held, "oracle", rounds=20, local_steps=5, batch_size=0)
    inputs, labels = HELD
    before = sk.accuracy_score(labels, held.model(inputs).argmax(1))
    after = sk.accuracy_score(labels, result.model(inputs).argmax(1))
    assert before < 0.7
    assert after > 0.95
    assert result.history["validation_accuracy"].iloc[-1] == after


@pytest.mark.parametrize(
    "settings", [{}, {"method": "single-loop", "rate": 1, "sketch_rows": 1}], ids=["auto", "sketch"]
)
def test_wrong_labels_are_found(settings):
    result = fs.fit(federation(), rounds=30, local_steps=5, batch_size=0, **settings)
    for client, (_, labels, true) in enumerate(CLIENTS):
        issues = result.label_issues(client).set_index("index").sort_index()
        wrong = (labels != true).numpy()
        assert sk.f1_score(wrong, issues["is_label_issue"]) > 0.8
        assert (issues["predicted_label"].to_numpy()[wrong] == true.numpy()[wrong]).mean() > 0.8


def test_label_issues_are_the_samples_worst_first():
    result = fs.fit(federation(), **QUICK)
    table = result.label_issues(client=1)
    inputs, labels = PAIRS[1]
    probabilities = result.model(inputs).softmax(dim=1).detach()
    assert list(table.columns) == [
        *("site", "index", "id", "given_label", "predicted_label"),
        *("label_score", "is_label_issue", "confidence", "weight"),
    ]
    assert table["label_score"].is_monotonic_increasing
    assert sorted(table["index"]) == list(range(31))
    order = torch.tensor(table["index"].tolist())
    assert table["given_label"].tolist() == labels[order].tolist()
    assert table["weight"].tolist() == result.weights(1)[order].tolist()
    favourite = probabilities[order].argmax(dim=1)
    flagged = table["is_label_issue"].to_numpy()
    assert flagged.tolist() == (table["label_score"] < 0.5).tolist()
    assert (table["predicted_label"] != table["given_label"])[flagged].all()
    assert (table["predicted_label"] == table["given_label"])[~flagged].all()
    agreed = flagged & (favourite != labels[order]).numpy()
    assert (table["predicted_label"].to_numpy() == favourite.numpy())[agreed].all()


def test_names_and_ids_appear_in_the_issues():
    ids = [[f"{m}-{n}.png" for n in range(len(y))] for m, (_, y) in enumerate(PAIRS)]
    names = ("ant", "bee", "cow")
    result = fs.fit(federation(class_names=names, ids=ids), **QUICK)
    table = result.label_issues(client=1).set_index("index").sort_index()
    assert table["id"].tolist() == ids[1]
    assert table["given_label"].tolist() == [names[c] for c in PAIRS[1][1].tolist()]
    assert result.site_summary(client=1).samples == len(ids[1])


class Own(nn.Module):
    """What a user might bring: dropout, group normalisation, a buffer, a frozen layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 8), nn.GroupNorm(2, 8), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 3)
        self.register_buffer("scale", torch.tensor(0.5))
        self.body[0].requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.scale * self.head(self.body(inputs))


@pytest.fixture
def own() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Own().train()


def test_own_module_is_not_modified(own):
    before = copy.deepcopy(own)
    result = fs.fit(federation(own), **QUICK)
    for name, value in own.state_dict().items():
        assert torch.equal(value, before.state_dict()[name])
    assert own.training
    assert [p.requires_grad for p in own.parameters()] == [
        p.requires_grad for p in before.parameters()
    ]
    assert all(p.grad is None for p in own.parameters())
    assert type(result.model) is Own
    assert not torch.equal(result.model.head.weight, own.head.weight)
    assert torch.equal(result.model.body[0].weight, own.body[0].weight)


def test_global_random_state_is_not_touched(own):
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fs.fit(federation(own), "iter-topk", **QUICK)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002


def test_arrays_frames_and_lists_are_taken_as_tensors_are():
    (x0, y0), (x1, y1) = PAIRS
    clients = [(x0.numpy(), pd.Series(y0.numpy())), (x1.tolist(), y1.tolist())]
    validation = (pd.DataFrame(HELD[0].numpy()), HELD[1].numpy().astype("uint8"))
    other = fs.fit(federation(clients=clients, validation=validation), **QUICK)
    assert torch.equal(weight(other), weight(fs.fit(federation(), **QUICK)))


def test_truth_is_measured_where_it_is_given():
    result = fs.fit(federation(true_labels=TRUTHS), "single-loop", **QUICK, initial_weight=0.5)
    wrong = torch.cat([labels != true for _, labels, true in CLIENTS])
    flagged = torch.cat([result.weights(m) for m in range(2)]) < 0.5
    assert result.history["weights_f1"].iloc[-1] == pytest.approx(sk.f1_score(wrong, flagged))
    assert fs.fit(federation(), **QUICK).history["weights_f1"].isna().all()


X, Y = PAIRS[0]
HOLE = X.clone()
HOLE[3, 1] = torch.nan
BY_BATCH = nn.BatchNorm1d(4, track_running_stats=False)
NORMALISED = nn.Sequential(nn.Linear(2, 4), BY_BATCH, nn.Linear(4, 3))


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"clients": []}, DataError, "there is no client; give at least one"),
        ({"clients": [(X, Y), (X[:0], Y[:0])]}, DataError, "client 1 has no samples"),
        ({"clients": [([], [])]}, DataError, "client 0 has no samples"),
        ({"clients": [(HOLE, Y)]}, DataError, "client 0 has NaN or infinite inputs in sample 3"),
        ({"clients": [(X, Y + 1)]}, DataError, r"client 0 has the label 3 .* between 0 and 2"),
        ({"clients": [(X, Y - 1)]}, DataError, "client 0 has the label -1"),
        ({"clients": [(X, Y.float())]}, DataError, r"type torch\.float32; labels must be integers"),
        ({"clients": [(X, Y == 1)]}, DataError, "client 0 has names or booleans as labels but"),
        ({"clients": [(X, Y[:-1])]}, DataError, "30 inputs but 29 labels"),
        ({"clients": [(X, Y[:, None])]}, DataError, "one label per input"),
        ({"clients": [(X, 1)]}, DataError, "one label per input"),
        ({"clients": [(X, Y), (X[:, :1], Y)]}, DataError, r"client 1 has inputs of shape \[1\]"),
        ({"clients": [(X, [{}] * 30)]}, DataError, "client 0 has labels that are not an array"),
        (
            {"clients": [([[1.0], [1.0, 2.0]], [0, 1])]},
            DataError,
            "client 0 has inputs that are not an array",
        ),
        ({"clients": [X]}, DataError, r"client 0 must be a pair \(inputs, labels\)"),
        ({"validation": HELD[0]}, DataError, r"the validation set must be a pair"),
        ({"validation": None}, DataError, r"the validation set must be a pair"),
        ({"validation": (HELD[0][:, :1], HELD[1])}, DataError, "the model cannot take"),
        ({"validation": (HELD[0].long(), HELD[1])}, DataError, "check the inputs' shape and type"),
        ({"test": (X, Y, Y)}, DataError, "the test set must be a pair"),
        ({"true_labels": TRUTHS[:1]}, DataError, "true_labels has 1 arrays for 2 clients"),
        (
            {"true_labels": [None, None]},
            DataError,
            r"true_labels\[0\] has labels that are not an array",
        ),
        ({"model": NORMALISED}, InputError, "layer '1' is batch normalisation without running"),
        ({"model": nn.Flatten(0)}, InputError, "no trainable parameter"),
        ({"model": nn.Sequential(nn.Linear(2, 3), nn.Flatten(0))}, DataError, "return logits of"),
    ],
)
def test_bad_data_is_named(changes, error, message):
    with pytest.raises(error, match=message) as caught:
        federation(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"method": "fedsgd"}, ConfigError, "fit: method is 'fedsgd'; it must be one of "),
        ({"raet": 5}, ConfigError, "fit has no setting 'raet'; auto takes l2, coh"),
        ({"dataset": "mnist"}, ConfigError, "fit has no setting 'dataset'"),
        (
            {"method": "fedavg", "self_paced": 5},
            ConfigError,
            "fit: fedavg does not read the key 'self_paced'; methods that read it: single-loop",
        ),
        ({"l2": -1}, ConfigError, "fit: l2 is -1.0; it must be at least 0"),
        (
            {"rate": 5},
            ConfigError,
            "fit: auto does not read the key 'rate'; methods that read it: single-loop, .*; choose",
        ),
        ({"rounds": 0}, ConfigError, "rounds is 0; it must be at least 1"),
        ({"method": "oracle"}, DataError, "the oracle needs the true labels"),
        (
            {"method": "single-loop", "compressor": "count-sketch", "heavy": 10},
            InputError,
            "heavy is 10; give at most the length 9",
        ),
        ({"cohort": 3}, ConfigError, "cohort is 3 but there are 2 clients"),
        ({"device": "tpu"}, ConfigError, "device is 'tpu'"),
    ],
)
def test_bad_setting_is_named(settings, error, message):
    with pytest.raises(error, match=message):
        fs.fit(federation(), **settings)


def test_weights_of_a_method_that_learns_none_are_refused():
    result = fs.fit(federation(), "fedavg", rounds=1)
    with pytest.raises(DataError, match=r"fedavg learns no weights; fit with one of .*iter-sketch"):
        result.label_issues(0)


@pytest.mark.parametrize("client", [-1, 2, "2", True, 0.0])
def test_an_unknown_site_is_refused(client):
    result = fs.fit(federation(), **QUICK)
    with pytest.raises(DataError, match=rf"there is no site {client!r}; it must be one of 0, 1"):
        result.label_issues(client)


def test_a_site_has_a_name_and_a_position():
    result = fs.fit(federation(), **QUICK)
    assert result.label_issues("1").equals(result.label_issues(1))


def test_one_table_over_all_sites():
    result = fs.fit(federation(), **QUICK)
    table = result.label_issues()
    assert table["label_score"].is_monotonic_increasing
    for site in result.sites:
        own = table[table["site"] == site].reset_index(drop=True)
        pd.testing.assert_frame_equal(own, result.label_issues(site))


def test_probabilities_are_the_model_s():
    result = fs.fit(federation(), "single-loop", **QUICK)
    expected = result.model(PAIRS[1][0]).softmax(dim=1)
    torch.testing.assert_close(result.pred_probs(1), expected, rtol=1e-5, atol=1e-6)


def test_a_result_is_shown_in_five_lines():
    text = repr(fs.fit(federation(), "single-loop", **QUICK))
    assert text.startswith("Result of single-loop after 3 rounds\n")
    assert text.count("\n") == 4
    chosen = repr(fs.fit(federation(), **QUICK))
    assert chosen.startswith("Result of out-of-fold, which auto chose, after 3 rounds\n")
    assert chosen.count("\n") == 4
    assert repr(fs.fit(federation(), "fedavg", rounds=1)).count("\n") == 2
