"""Label issues as files: csv, parquet, json, and tasks for Label Studio.

A Label Studio task has the fields of its documentation on pre-annotations:

    data         what the labelling configuration shows: `image`, or `row` and a `text` for each
                 long text; and the audit's columns, `id` as `sample_id`
    predictions  one: `model_version`, `score` (the confidence), `result` with the suggested choice

``labelling_config`` returns the configuration that these tasks need; it goes into a project's
Settings, Labeling Interface, before the tasks are imported. ``data.label_studio`` reads what comes
back.
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
from fedsift.data.label_studio import COMMENT, LABEL, SAMPLE_ID, UNUSABLE
from fedsift.data.samples import Content, raw_columns
from fedsift.errors import InputError
from fedsift.files import write_atomically, write_text

TO_NAME = "sample"
TEXT = 40  # characters from which a value is text to read, not a word
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
    choice = {
        "id": f"suggestion-{row['index']}",
        "from_name": LABEL,
        "to_name": TO_NAME,
        "type": "choices",
        "value": {"choices": [str(row["predicted_label"])]},
    }
    prediction = {"model_version": version, "score": row["confidence"], "result": [choice]}
    about = {SAMPLE_ID if name == "id" else name: value for name, value in row.items()}
    return {"data": {**_shown(content, row["index"]), **about}, "predictions": [prediction]}


def _shown(content: Content, index: int) -> dict[str, Any]:
    """Return what a person sees: a picture, or a text and the other fields."""
    picture, fields = content.picture(index), content.fields(index)
    if picture is not None:
        return {"image": as_uri(picture)}
    texts = {name: v for name, v in fields.items() if isinstance(v, str) and len(v) > TEXT}
    rest = {name: _plain(value) for name, value in fields.items() if name not in texts}
    return {"row": rest, "text": "\n\n".join(texts.values())}


def labelling_config(content: Content, class_names: Sequence[str]) -> str:
    """Return the labelling configuration, in Label Studio's XML."""
    shown = _shown(content, 0) if len(content) else {"row": {}, "text": ""}
    objects = {"image": "Image", "text": "Text", "row": "Table"}
    used = [kind for kind in objects if shown.get(kind)] or ["row"]
    names = [TO_NAME, *used[1:]]  # what the choices are about comes first
    drawn = "\n".join(
        f'  <{objects[kind]} name="{name}" value="${kind}"/>'
        for name, kind in zip(names, used, strict=True)
    )
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in class_names)
    return (
        f"<View>\n{drawn}\n"
        f'  <Text name="given" value="given label: $given_label, score: $label_score"/>\n'
        f'  <Choices name="{LABEL}" toName="{TO_NAME}" choice="single">\n{choices}\n'
        f'  </Choices>\n  <Choices name="{UNUSABLE}" toName="{TO_NAME}" choice="multiple">\n'
        f'    <Choice value="{UNUSABLE}"/>\n  </Choices>\n'
        f'  <TextArea name="{COMMENT}" toName="{TO_NAME}"/>'
        "\n</View>\n"
    )


def _plain(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str | type(None)) else str(value)


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows in Python's own types."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records", double_precision=15))
    return rows


def _ignore(_: object) -> None:
    """Drop what a writer returns."""
