"""``simulate``: the forms in which people have their data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import fedsift as fs
from fedsift.data.samples import Arrays, Samples
from fedsift.problem.inputs import StoredInputs, whole
from given import FRAME, HELD, NAMED, NAMES, SITES, Columns, Items, N, X, Y
from stored import Watched

QUICK: dict[str, Any] = {"rounds": 2, "local_steps": 1, "batch_size": 4}


def model(outputs: int = 3) -> nn.Module:
    return nn.Linear(2, outputs)


def texts(values: Any) -> tuple[str, ...]:
    return tuple(map(str, values))


def ids(federation: fs.Simulation) -> list[tuple[str, ...]]:
    return [client.sample_names for client in federation.data.clients]


def simulate(clients: Any, *more: Any, **named: Any) -> fs.Simulation:
    return fs.simulate(model(), clients, *more, **named)


def contents(federation: fs.Simulation, client: int = 0) -> tuple[Any, Any]:
    data = federation.data.clients[client]
    return whole(data.inputs).numpy(), data.labels.numpy()


def mapped(path: Any) -> Any:
    np.save(path / "x.npy", X)
    return np.load(path / "x.npy", mmap_mode="r")


FORMS = {
    "tensors": lambda path: (torch.from_numpy(X), torch.from_numpy(Y)),
    "lists": lambda path: (X.tolist(), Y.tolist()),
    "small types": lambda path: (X.astype(np.float64), Y.astype(np.uint8)),
    "table": lambda path: (FRAME, pd.Series(Y)),
    "mapped": lambda path: (mapped(path), Y),
    "view of mapped": lambda path: (np.asarray(mapped(path)), Y),
    "stored": lambda path: (Watched(torch.from_numpy(X)), Y),
    "items": lambda path: Items([(x, int(y)) for x, y in zip(X, Y, strict=True)]),
    "tensor dataset": lambda path: TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)),
    "column": lambda path: Columns.of(inputs=list(X), label=Y),
    "samples": lambda path: Samples("here", Arrays(torch.from_numpy(X)), tuple(map(str, Y))),
}
STORED = {"mapped", "view of mapped", "stored", "items", "column"}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_samples(tmp_path, form):
    value = FORMS[form](tmp_path)
    federation = simulate([value], value)
    inputs, labels = contents(federation)
    np.testing.assert_array_equal(inputs, X)
    np.testing.assert_array_equal(labels, Y)
    assert inputs.dtype == np.float32
    kept = federation.data.clients[0].inputs
    assert (not torch.is_tensor(kept) and isinstance(kept, StoredInputs)) == (form in STORED)
    assert torch.is_tensor(federation.data.validation[0])


@pytest.mark.parametrize("form", FORMS)
def test_every_form_can_be_trained_on(tmp_path, form):
    value = FORMS[form](tmp_path)
    result = fs.fit(simulate([value, value], value, test=value), **QUICK)
    assert len(result.label_issues(client=1)) == N


def test_columns_of_a_dataset_are_a_table_that_the_clean_set_standardises():
    table = Columns.of(a=X[:, 0], b=X[:, 1], label=Y)
    inputs, labels = contents(simulate([table], table))
    np.testing.assert_allclose(inputs, (X - X.mean(0)) / X.std(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(labels, Y)


def test_what_was_made_is_shown_in_a_line():
    pair = fs.read((X, Y))
    assert repr(pair) == "Samples(12 of the tuple, kind array, 3 classes)"
    assert repr(simulate([(X, Y)] * 2, HELD)) == "Simulation(2 sites, 24 samples, 3 classes)"


def test_sites_have_names():
    federation = simulate({"north": (X, Y), "St. Mary-2": (X[:5], Y[:5])}, HELD)
    assert federation.names == federation.data.site_names == ("north", "St. Mary-2")
    assert simulate([(X, Y)], HELD).names == ("0",)


def test_a_table_is_cut_into_sites_by_its_groups():
    federation = simulate(X, Y, groups=SITES, validation=HELD)
    assert federation.names == ("north", "south")
    for client, name in enumerate(federation.names):
        inputs, labels = contents(federation, client)
        np.testing.assert_array_equal(inputs, X[name == SITES])
        np.testing.assert_array_equal(labels, Y[name == SITES])
        assert ids(federation)[client] == texts(np.flatnonzero(name == SITES))


def test_rows_of_a_grouped_table_keep_their_ids_and_true_labels():
    table = FRAME.set_axis([f"p{n}" for n in range(N)])
    federation = simulate(table, NAMES, groups=SITES, validation=NAMED, true_labels=NAMES[::-1])
    south = SITES == "south"
    assert ids(federation)[1] == texts(table.index[south])
    assert federation.data.clients[1].true_labels.tolist() == [
        ["ant", "bee", "cat"].index(name) for name in NAMES[::-1][south]
    ]


def test_a_grouped_mapped_table_stays_on_disk(tmp_path):
    federation = simulate(mapped(tmp_path), Y, groups=SITES, validation=HELD)
    assert not torch.is_tensor(federation.data.clients[1].inputs)
    np.testing.assert_array_equal(contents(federation, 1)[0], X[SITES == "south"])


@pytest.mark.parametrize(
    "labels",
    [
        NAMES,
        NAMES.tolist(),
        NAMES.astype(object),
        pd.Series(NAMES),
        pd.Series(NAMES, dtype="category"),
        pd.Categorical(NAMES),
    ],
)
def test_labels_may_be_names(labels):
    federation = simulate([(X, labels)], (X, NAMES))
    assert federation.data.class_names == ("ant", "bee", "cat")
    assert contents(federation)[1].tolist() == [(2, 0, 1)[y] for y in Y]


def test_names_reach_the_label_issues():
    result = fs.fit(simulate([(X, NAMES)], NAMED), **QUICK)
    table = result.label_issues(client=0).set_index("index").sort_index()
    assert table["given_label"].tolist() == NAMES.tolist()


def test_class_names_say_the_order():
    order = ("cat", "bee", "ant")
    federation = simulate([(X, NAMES)], NAMED, class_names=order)
    assert federation.data.class_names == order
    assert [order[label] for label in contents(federation)[1]] == NAMES.tolist()


def test_a_class_that_one_site_alone_has_is_a_class_everywhere():
    few = NAMES != "cat"
    federation = simulate([(X[few], NAMES[few]), (X, NAMES)], (X[few], NAMES[few]))
    assert federation.data.class_names == ("ant", "bee", "cat")


def test_booleans_are_names_and_numbers_as_text_count_up():
    federation = fs.simulate(model(2), [(X, Y == 1)], (X, Y == 1))
    assert federation.data.class_names == ("false", "true")
    assert contents(federation)[1].tolist() == (Y == 1).astype(int).tolist()
    text = [str(9 + y) for y in Y]
    assert simulate([(X, text)], (X, text)).data.class_names == ("9", "10", "11")


def test_columns_are_kept_and_put_into_one_order():
    federation = simulate([(FRAME[["weight", "age"]], Y)], (FRAME, Y))
    assert list(federation.data.clients[0].content.fields(0)) == ["age", "weight"]
    np.testing.assert_array_equal(contents(federation)[0], X)


def test_an_index_of_a_table_gives_the_ids():
    named = FRAME.set_axis([f"p{n}" for n in range(N)])
    federation = simulate([(named, Y), (FRAME, Y)], (FRAME, Y))
    assert ids(federation) == [texts(named.index), texts(range(N))]
    assert simulate([(FRAME, Y)], HELD).data.clients[0].names is None
    assert ids(simulate([(named, Y)], HELD, ids=[range(N)])) == [texts(range(N))]


@pytest.mark.parametrize(
    "inputs", [X > 0, torch.from_numpy(X > 0), FRAME > 0, (X > 0).astype("f2"), (X > 0).astype(int)]
)
def test_other_numbers_become_the_type_of_the_model(inputs):
    federation = simulate([(inputs, Y)], HELD)
    found, _ = contents(federation)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X > 0)


def test_whole_numbers_stay_whole_for_an_embedding():
    net = nn.Sequential(nn.Embedding(3, 4), nn.Flatten(), nn.Linear(8, 3))
    tokens = (np.arange(2 * N) % 3).reshape(N, 2).astype(np.uint16)
    federation = fs.simulate(net, [(tokens, Y)], (tokens, Y))
    assert contents(federation)[0].dtype == np.int32


def test_arguments_by_place_are_as_in_the_signature():
    given = [[f"p{n}" for n in range(N)]]
    federation = simulate([(X, Y)], HELD, (X, Y), [Y[::-1].copy()], ("a", "b", "c"), given)
    assert len(federation.data.test[1]) == N
    assert federation.data.clients[0].true_labels.tolist() == Y[::-1].tolist()
    assert federation.data.class_names == ("a", "b", "c")
    assert ids(federation) == [texts(given[0])]
