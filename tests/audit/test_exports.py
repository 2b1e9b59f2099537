"""Exports read back: as the table, and Label Studio's tasks by its documented fields."""

import json
import xml.etree.ElementTree as ET

import pandas as pd
import pytest
import torch

from audit.conftest import audited
from fedsift.audit import Calibration, SiteRecord, audit_site, write_issues
from fedsift.data.corrected import correct_samples
from fedsift.data.images import as_uri
from fedsift.data.samples import Samples, Table
from fedsift.errors import InputError


@pytest.mark.parametrize("form", ["csv", "parquet", "json"])
def test_round_trip(form, images, tmp_path):
    path = tmp_path / f"issues.{form}"
    assert write_issues(images, path, form) == [path]
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "json": pd.read_json}[form](path)
    pd.testing.assert_frame_equal(read, images.table, check_dtype=False, rtol=1e-6)


def test_label_studio_tasks_have_the_documented_fields(images, tmp_path):
    path = tmp_path / "issues.label-studio.json"
    tasks_file, config_file = write_issues(images, path, "label-studio")
    tasks = json.loads(tasks_file.read_text())
    view = ET.parse(config_file).getroot()
    choices = view.find("Choices[@name='label']")
    allowed = {choice.get("value") for choice in choices}
    flagged = images.table[images.table["is_label_issue"]]
    assert len(tasks) == len(flagged) == 4
    for task, row in zip(tasks, flagged.to_dict("records"), strict=True):
        assert set(task) == {"data", "predictions"}
        shown = view.find("Image")
        picture = images.content.picture(row["index"])
        assert task["data"][shown.get("value").removeprefix("$")] == as_uri(picture)
        (prediction,) = task["predictions"]
        assert isinstance(prediction["model_version"], str)
        assert prediction["score"] == pytest.approx(row["confidence"])
        (result,) = prediction["result"]
        assert set(result) == {"id", "from_name", "to_name", "type", "value"}
        assert (result["from_name"], result["to_name"]) == (choices.get("name"), shown.get("name"))
        assert choices.get("toName") == result["to_name"]
        assert result["type"] == "choices"
        assert result["value"] == {"choices": [row["predicted_label"]]}
        assert row["predicted_label"] in allowed


def test_rows_of_fields_become_a_table(tmp_path):
    inputs = torch.tensor([[1.0, 2.5], [3.0, 4.0]])
    probabilities = torch.tensor([[0.01, 0.99], [0.01, 0.99]])
    record = SiteRecord("0", torch.tensor([0, 1]), torch.ones(2), probabilities)
    audit = audited(inputs, record, ("no", "yes"))
    path = tmp_path / "tasks.label-studio.json"
    tasks, config = write_issues(audit, path, "label-studio")
    (task,) = json.loads(tasks.read_text())
    assert task["data"]["row"] == {"field 0": 1.0, "field 1": 2.5}
    assert ET.parse(config).find("Table").get("value") == "$row"
    assert ET.parse(config).find("Text").get("name") == "given"


def test_text_is_shown_as_text(tmp_path):
    frame = pd.DataFrame(
        {"text": ["The card was charged twice, please refund it." * 2] * 2, "x": 1}
    )
    probabilities = torch.tensor([[0.01, 0.99], [0.01, 0.99]])
    record = SiteRecord("0", torch.tensor([0, 1]), torch.ones(2), probabilities)
    audit = audit_site(record, Calibration(), ("no", "yes"), lambda: Table(frame))
    tasks, config = write_issues(audit, tmp_path / "t.json", "label-studio")
    (task,) = json.loads(tasks.read_text())
    assert task["data"]["text"] == frame["text"][0]
    assert task["data"]["row"] == {"x": 1}
    view = ET.parse(config).getroot()
    assert [(e.tag, e.get("name"), e.get("value")) for e in view[:2]] == [
        ("Text", "sample", "$text"),
        ("Table", "row", "$row"),
    ]


def annotate(task, number, label):
    """Answer a task as Label Studio's JSON export has it."""
    result = {"value": {"choices": [label]}, "id": "x", "from_name": "label", "to_name": "sample"}
    annotation = {
        "id": number,
        "completed_by": 1,
        "result": [{**result, "type": "choices", "origin": "manual"}],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": "2026-11-18T10:00:00.0Z",
        "updated_at": "2026-11-18T10:00:00.0Z",
        "lead_time": 1.0,
    }
    return {**task, "id": number, "annotations": [annotation]}


def test_label_studio_there_and_back(images, tmp_path):
    """Only the labels that were changed differ; rows and their order do not."""
    tasks, _ = write_issues(images, tmp_path / "t.json", "label-studio")
    done = [annotate(t, n, "emu") for n, t in enumerate(json.loads(tasks.read_text()))]
    (tmp_path / "export.json").write_text(json.dumps(done))
    given = tuple(images.class_names[n] for n in images.record.labels)
    samples = Samples("here", images.content, given, images.record.ids)
    back = correct_samples(samples, "north", tmp_path / "export.json")
    flagged = set(images.table["index"][images.table["is_label_issue"]])
    assert back.ids == samples.ids
    assert back.labels == tuple("emu" if n in flagged else g for n, g in enumerate(given))


def test_unknown_format(images, tmp_path):
    with pytest.raises(InputError, match="no format 'xls'"):
        write_issues(images, tmp_path / "x", "xls")
