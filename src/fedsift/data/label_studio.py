"""Labels that people gave in Label Studio, from its exports JSON and JSON-MIN.

| export   | a task                                                                           |
|----------|----------------------------------------------------------------------------------|
| JSON     | ``data``, and ``annotations`` with ``result``, ``completed_by``, ``updated_at``   |
| JSON-MIN | the fields of ``data``, a field per control with its value, ``annotator``         |

``fedsift audit --format label-studio`` wrote the tasks: ``data`` has `site`, `index` and
`sample_id`, and the controls are `label`, `unusable` and `comment` (``audit.exports``). A task that
nobody has annotated, or that was skipped, says nothing. Of several annotations the one marked as
ground truth counts; if there is none, they must agree.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fedsift.errors import DataError

LABEL, UNUSABLE, COMMENT = "label", "unusable", "comment"  # names of the controls
SAMPLE_ID = "sample_id"  # not "id": JSON-MIN puts the task's number there
VALUES = {"choices": "choices", "textarea": "text"}


def read_label_studio(path: Path) -> pd.DataFrame:
    """Return a row per annotated sample: site, index, id, label, unusable, comment, by, when."""
    try:
        tasks = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        tasks = None
    if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
        raise DataError(f"{path} is not a list of tasks; export JSON or JSON-MIN in Label Studio")
    rows = []
    for number, task in enumerate(tasks, start=1):
        where = f"task {number} of {path}"
        data = task.get("data", task)
        if not isinstance(data, dict) or "index" not in data or "site" not in data:
            raise DataError(
                f"{where} has no site and index; import the tasks of `fedsift audit --format "
                "label-studio` and annotate those"
            )
        if said := _settled(list(_annotations(task)), where):
            name = data.get(SAMPLE_ID, data["index"])
            rows.append({"site": data["site"], "index": data["index"], "id": name, **said})
    columns = ("site", "index", "id", "label", "unusable", "comment", "by", "when")
    return pd.DataFrame(rows, columns=list(columns))


def _annotations(task: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return what each annotation of a task says."""
    if "annotations" not in task:  # JSON-MIN
        if said := _row(task, task.get("annotator"), task.get("updated_at")):
            yield said
        return
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            continue
        controls: dict[str, Any] = {}
        for result in annotation.get("result", ()):
            values = result.get("value", {}).get(VALUES.get(result.get("type"), ""))
            if values:
                controls[str(result.get("from_name"))] = values[0]
        by = annotation.get("completed_by")
        by = by.get("email", by.get("id")) if isinstance(by, Mapping) else by
        if said := _row(controls, by, annotation.get("updated_at")):
            yield {**said, "truth": bool(annotation.get("ground_truth"))}


def _row(controls: Mapping[str, Any], by: Any, when: Any) -> dict[str, Any] | None:
    label, unusable = controls.get(LABEL), bool(controls.get(UNUSABLE))
    if label is None and not unusable:
        return None
    comment = controls.get(COMMENT) or ""
    who = "" if by is None else str(by)
    return {
        "label": None if label is None else str(label),
        "unusable": unusable,
        "comment": str(comment),
        "by": who,
        "when": str(when or ""),
    }


def _settled(said: list[dict[str, Any]], where: str) -> dict[str, Any] | None:
    """Return the annotation that counts."""
    truths = [one for one in said if one.get("truth")]
    chosen = truths or said
    if not chosen:
        return None
    if len({(one["label"], one["unusable"]) for one in chosen}) > 1:
        raise DataError(
            f"{where} has annotations that differ; mark one as ground truth, or delete the others"
        )
    return {name: value for name, value in chosen[-1].items() if name != "truth"}
