"""Label issues as files: csv, parquet, json, and tasks for Label Studio.

A Label Studio task has the fields of its documentation on pre-annotations:

    data         what the labelling configuration shows: `image` or `row`, and the audit's columns
    predictions  one: `model_version`, `score` (the confidence), `result` with the suggested choice

``labelling_config`` returns the configuration that these tasks need; it goes into a project's
Settings, Labeling Interface, before the tasks are imported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import pandas as pd

from fedsift.audit.site import SiteAudit
from fedsift.data.images import as_uri
from fedsift.data.samples import Content, raw_columns
from fedsift.errors import InputError
from fedsift.files import write_atomically, write_text

FROM_NAME, TO_NAME = "label", "sample"
SUFFIXES = {
    "csv": ".csv",
    "parquet": ".parquet",
    "json": ".json",
    "label-studio": ".label-studio.json",
}


def write_issues(
    audit: SiteAudit, path: Path, form: str, *, raw: bool = True, version: str = "fedsift"
) -> list[Path]:
    """Write a site's issues in one of the formats; return the files.

    With ``raw`` the columns of a table follow, as they were read.
    """
    table = with_columns(audit) if raw and form != "label-studio" else audit.table
    if form == "label-studio":
        flagged = table[table["is_label_issue"]]
        tasks = [label_studio_task(row, audit.content, version) for row in _records(flagged)]
        write_text(path, json.dumps(tasks, ensure_ascii=False, indent=1) + "\n")
        config = path.with_name(path.name.removesuffix(".json") + ".xml")
        write_text(config, labelling_config(audit.content, audit.class_names))
        return [path, config]
    writers: dict[str, Callable[[Path], object]] = {
        "csv": partial(table.to_csv, index=False),
        "parquet": partial(table.to_parquet, index=False),
        "json": partial(table.to_json, orient="records", indent=1, double_precision=15),
    }
    if form not in writers:
        raise InputError(f"there is no format {form!r}; choose one of {', '.join(SUFFIXES)}")
    write_atomically(path, lambda temporary: _ignore(writers[form](temporary)))
    return [path]


def with_columns(audit: SiteAudit) -> pd.DataFrame:
    """Return the table of issues, followed by the columns of the samples' own table."""
    raw = raw_columns(audit.content, audit.table["index"].tolist())
    if raw is None:
        return audit.table
    names = {str(name): f"{name} (data)" for name in raw if str(name) in audit.table}
    return pd.concat([audit.table, raw.rename(columns=str).rename(columns=names)], axis=1)


def label_studio_task(row: dict[str, Any], content: Content, version: str) -> dict[str, Any]:
    """Return one task with its prediction."""
    picture = content.picture(row["index"])
    shown: dict[str, Any] = (
        {"row": content.fields(row["index"])} if picture is None else {"image": as_uri(picture)}
    )
    choice = {
        "id": f"suggestion-{row['index']}",
        "from_name": FROM_NAME,
        "to_name": TO_NAME,
        "type": "choices",
        "value": {"choices": [str(row["predicted_label"])]},
    }
    prediction = {"model_version": version, "score": row["confidence"], "result": [choice]}
    return {"data": {**shown, **row}, "predictions": [prediction]}


def labelling_config(content: Content, class_names: Sequence[str]) -> str:
    """Return the labelling configuration, in Label Studio's XML."""
    drawn = len(content) > 0 and content.picture(0) is not None
    tag, value = ("Image", "$image") if drawn else ("Table", "$row")
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        f'<View>\n  <{tag} name="{TO_NAME}" value="{value}"/>\n'
        f'  <Text name="given" value="given label: $given_label, score: $label_score"/>\n'
        f'  <Choices name="{FROM_NAME}" toName="{TO_NAME}" choice="single">\n{choices}\n'
        "  </Choices>\n</View>\n"
    )


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows in Python's own types."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows


def _ignore(_: object) -> None:
    """Drop what a writer returns."""
