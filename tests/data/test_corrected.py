"""Corrected labels against the table that they come from."""

import json
from dataclasses import replace

import pandas as pd
import pytest
import torch

import fedsift as fs
from fedsift.data import ClientData, FederatedData, apply_corrections
from fedsift.data.corrected import correct_samples
from fedsift.data.samples import Arrays, Pictures, Samples, Table
from fedsift.errors import DataError
from fedsift.problem.inputs import whole
from stored import Watched

COLUMNS = ["site", "index", "label", "unusable"]


@pytest.fixture
def data():
    def client(labels):
        labels = torch.tensor(labels)
        inputs = torch.arange(len(labels)).float()[:, None]
        return ClientData(inputs, labels, torch.zeros_like(labels), torch.arange(len(labels)) + 10)

    held = (torch.zeros(2, 1), torch.tensor([0, 1]))
    clients = [client([0, 1, 1]), client([1, 0])]
    return FederatedData("own", clients, held, held, ("a", "b", "c"), noise_rate=0.6)


def table(*rows):
    return pd.DataFrame(rows, columns=COLUMNS)


def write(path, *rows):
    table(*rows).to_parquet(path)
    return path


def test_labels_are_replaced_and_unusable_samples_left_out(data, tmp_path):
    path = write(tmp_path / "c.parquet", (0, 2, "a", False), (0, 1, "b", True))
    new = apply_corrections(data, path)
    assert new.clients[0].labels.tolist() == [0, 0]
    assert new.clients[0].inputs.flatten().tolist() == [0, 2]
    assert new.clients[0].ids.tolist() == [10, 12]
    assert new.clients[1].labels.tolist() == [1, 0]  # not in the file
    assert new.noise_rate == pytest.approx(1 / 4)
    assert data.clients[0].labels.tolist() == [0, 1, 1]  # the given data stay as they are


def test_samples_are_found_by_id_where_there_is_one(data):
    given = pd.DataFrame({"site": "0", "id": ["12", "10"], "index": [0, 1], "label": ["c", None]})
    new = apply_corrections(data, given).clients[0]
    assert new.labels.tolist() == [0, 1, 2]


def test_a_second_review_is_right_although_the_first_left_samples_out(data):
    """Positions have moved by then; ids have not."""
    first = pd.DataFrame({"site": ["0"], "id": ["10"], "unusable": [True]})
    again = apply_corrections(data, first).clients[0]
    assert again.sample_names == ("11", "12")
    second = pd.DataFrame({"site": "0", "id": [again.sample_names[0]], "label": ["c"]})
    assert apply_corrections(data, second).clients[0].labels.tolist() == [0, 2, 1]


def test_stored_samples_are_left_out_unread(data, tmp_path):
    stored = Watched(data.clients[0].inputs)
    data = replace(data, clients=[replace(data.clients[0], inputs=stored), data.clients[1]])
    path = write(tmp_path / "c.parquet", (0, 1, "b", True))
    new = apply_corrections(data, path).clients[0]
    assert not torch.is_tensor(new.inputs)
    assert whole(new.inputs).flatten().tolist() == [0, 2]


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_folder_is_all_its_files(data, tmp_path, form):
    for site in range(2):
        given = table((site, 0, "c", False))
        path = tmp_path / f"{site}.{form}"
        given.to_csv(path, index=False) if form == "csv" else given.to_parquet(path)
    new = apply_corrections(data, tmp_path)
    assert [c.labels[0].item() for c in new.clients] == [2, 2]


def test_a_run_folder_is_what_was_reviewed_in_it(data, tmp_path):
    place = tmp_path / "run" / "clients" / "1"
    place.mkdir(parents=True)
    write(place / "corrected.parquet", (1, 0, "c", False))
    pd.DataFrame({"index": [0]}).to_parquet(place / "weights.parquet")
    assert apply_corrections(data, str(tmp_path / "run")).clients[1].labels.tolist() == [2, 0]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(2, 0, "a", False)], "has the site 2"),
        ([(0, 3, "a", False)], "has an index above 2"),
        ([(0, -1, "a", False)], "below 0"),
        ([(0, 0, "d", False)], "the label 'd', which is no class"),
        ([(0, 0, "b", False), (0, 0, "c", False)], "a sample twice"),
        ([(1, 0, "a", True), (1, 1, "a", True)], "no usable sample"),
    ],
)
def test_what_does_not_fit_is_refused(data, tmp_path, rows, said):
    with pytest.raises(DataError, match=said):
        apply_corrections(data, write(tmp_path / "c.parquet", *rows))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"site": ["0"], "id": ["99"], "label": ["a"]}, "the id '99', which no sample has"),
        ({"site": ["0"] * 2, "id": ["10"] * 2, "label": ["a", "b"]}, "the id '10' 2 times"),
        ({"id": ["10"], "label": ["a"]}, "no column 'site'"),
        ({"site": ["0"], "label": ["a"]}, "no column 'id' or 'index'"),
        ({"site": ["0"], "id": ["10"]}, "no column 'label'"),
    ],
)
def test_tables_that_do_not_fit(data, given, said):
    with pytest.raises(DataError, match=said):
        apply_corrections(data, pd.DataFrame(given))


def test_files_that_are_none(data, tmp_path):
    with pytest.raises(DataError, match="no corrected labels at"):
        apply_corrections(data, tmp_path / "none.parquet")
    (tmp_path / "x.parquet").write_text("no parquet")
    with pytest.raises(DataError, match="cannot be read"):
        apply_corrections(data, tmp_path / "x.parquet")
    (tmp_path / "x.xls").write_text("?")
    with pytest.raises(DataError, match=r"x\.xls is not \.parquet"):
        apply_corrections(data, tmp_path / "x.xls")


CONTENTS = {
    "table": Table(pd.DataFrame({"x": [1.0, 2.0, 3.0]})),
    "array": Arrays(torch.tensor([[1.0], [2.0], [3.0]]), ("x",)),
    "image": Pictures(
        *(3, 1, 1, 1, "uint8"),
        pixels=lambda n: torch.tensor([[n + 1]]).numpy(),
        about=lambda n: {"x": n + 1.0},
        original=lambda n: torch.tensor([[n + 1]]).numpy(),
    ),
}


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_site_corrects_its_own_samples(kind):
    samples = Samples("here", CONTENTS[kind], ("a", "b", "a"), ("p", "q", "r"))
    given = pd.DataFrame(
        {"site": "n", "id": ["r", "p"], "label": ["b", "a"], "unusable": [False, True]}
    )
    new = correct_samples(samples, "n", given)
    assert (new.labels, new.ids) == (("b", "b"), ("q", "r"))
    assert new.content.kind == kind
    assert [new.content.fields(n)["x"] for n in range(2)] == [2.0, 3.0]
    if kind == "image":
        assert [new.content.own_pixels(n).item() for n in range(2)] == [2, 3]
    with pytest.raises(DataError, match="has the site n and not m"):
        correct_samples(samples, "m", given)


def task(number, *annotations, site="0"):
    return {
        "id": 100 + number,
        "data": {"site": site, "index": number, "sample_id": str(10 + number), "image": "..."},
        "annotations": list(annotations),
    }


def annotation(label=None, unusable=False, **more):
    choice = {"from_name": "label", "to_name": "sample", "type": "choices"}
    result = [] if label is None else [{**choice, "value": {"choices": [label]}}]
    if unusable:
        result += [{**choice, "from_name": "unusable", "value": {"choices": ["unusable"]}}]
    return {"result": result, "completed_by": 1, "was_cancelled": False, **more}


def exported(path, *tasks):
    path.write_text(json.dumps(tasks))
    return path


def test_label_studio_says_what_people_chose(data, tmp_path):
    path = exported(
        tmp_path / "export.json",
        task(0, annotation("c")),
        task(1, annotation(unusable=True)),
        task(2, annotation("c", was_cancelled=True)),
        task(0, site="1"),
    )
    new = apply_corrections(data, path)
    assert [c.labels.tolist() for c in new.clients] == [[2, 1], [1, 0]]


def test_label_studio_min(data, tmp_path):
    """Its `id` is the task's own number."""
    flat = {"site": "0", "index": 2, "sample_id": "12", "id": 7, "label": "c", "annotator": 1}
    path = exported(tmp_path / "min.json", flat, {**flat, "index": 0, "sample_id": "10"})
    assert apply_corrections(data, path).clients[0].labels.tolist() == [2, 1, 2]


def test_label_studio_annotators_must_agree_or_one_is_the_truth(data, tmp_path):
    two = annotation("b"), annotation("c")
    path = exported(tmp_path / "export.json", task(0, *two))
    with pytest.raises(DataError, match=r"task 1 of .* has annotations that differ"):
        apply_corrections(data, path)
    exported(path, task(0, *two, annotation("c", ground_truth=True)))
    assert apply_corrections(data, path).clients[0].labels[0] == 2


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"data": {"text": "x"}}]'])
def test_what_is_no_export_of_label_studio(data, tmp_path, text):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(DataError, match=r"Label Studio|label-studio"):
        apply_corrections(data, tmp_path / "x.json")


def test_simulate_takes_corrected_labels():
    X, y = torch.randn(6, 2), ["no", "yes"] * 3
    given = pd.DataFrame({"id": ["b"], "label": ["no"], "unusable": [False]})
    federation = fs.simulate(
        torch.nn.Linear(2, 2), [(X, y)], (X, y), ids=[list("abcdef")], labels=given
    )
    assert federation.data.clients[0].labels.tolist() == [0, 0, 0, 1, 0, 1]
