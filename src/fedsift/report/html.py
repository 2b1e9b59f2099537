"""Write the report: one HTML file that needs no other file.

All that comes from a run folder is text to the template, which escapes it; the only markup passed
in is the SVG of `figures.py`.
"""

from __future__ import annotations

import importlib.resources
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from fedsift.errors import InputError
from fedsift.files import write_text
from fedsift.report.compare import Setting, settings
from fedsift.report.figures import Chart, charts
from fedsift.report.headline import headline
from fedsift.report.palette import css
from fedsift.report.runs import Run, load_run
from fedsift.report.sites import RunSites, review_command, run_sites, traffic
from fedsift.report.verdict import percent, verdict

MISSING = "–"
TEST = ("test_accuracy", "best_test_accuracy")
CLEAN = ("validation_accuracy", "judged_accuracy")  # by the model; by models that had not seen it
SHOWN_ROUNDS = 12


@dataclass(frozen=True)
class Event:
    """Something that happened to the solver, and the rounds in which it did."""

    run: str
    text: str
    rounds: str


@dataclass(frozen=True)
class Section:
    """The report's part on one setting."""

    setting: Setting
    headline: str
    verdict: str
    charts: Sequence[Chart]
    events: Sequence[Event]
    sites: Sequence[RunSites]
    traffic: str
    chosen: Sequence[str]


def write_report(folders: Iterable[str | Path], out: str | Path) -> Path:
    """Read run folders and write the report on them to `out`."""
    unique = dict.fromkeys(Path(folder).resolve() for folder in folders)
    if not unique:
        raise InputError("there is nothing to report on; give at least one run folder")
    out = Path(out)
    if out.is_dir():
        raise InputError(f"{out} is a folder; give the name of an HTML file to write")
    page = render([load_run(folder) for folder in unique])
    write_text(out, page)
    return out


def render(runs: Sequence[Run]) -> str:
    """Return the HTML text of the report on `runs`."""
    found = settings(runs)
    sections = [
        Section(
            setting,
            headline(setting),
            verdict(setting),
            charts(setting, f"s{number}"),
            _events(setting),
            run_sites(setting),
            traffic(setting),
            _chosen(setting),
        )
        for number, setting in enumerate(found)
    ]
    return _template().render(
        title=f"fedsift report: {', '.join(dict.fromkeys(s.dataset for s in found))}",
        sections=sections,
        count=len(runs),
        noise=_noise(runs),
        versions=_versions(found),
    )


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.globals.update(css=css, row=_row, review_command=review_command)
    environment.filters.update(
        config_tables=_config_tables, unbroken=_unbroken, shown=_shown, percent=percent
    )
    source = importlib.resources.files(__package__).joinpath("template.html")
    return environment.from_string(source.read_text(encoding="utf-8"))


def _row(run: Run) -> list[str]:
    """Return the cells of a run's row after its dataset, in the order of the table's head."""

    def cell(key: str, form: str, scale: float = 1.0) -> str:
        value = run.number(key)
        return MISSING if value is None else format(scale * value, form)

    return [
        run.seed,
        str(run.rounds_done),
        *(cell(key, ".1f", 100) for key in TEST + CLEAN),
        *(cell(key, ".2f") for key in ("f1", "precision", "recall", "auc")),
        *(cell(key, ",.2f", 1e-6) for key in ("bytes_up", "bytes_down")),
        cell("exchanges", ",.0f"),
        cell("seconds", ",.1f"),
    ]


def _noise(runs: Sequence[Run]) -> str:
    rates = [rate for run in runs if (rate := run.number("noise_rate")) is not None]
    if not rates:
        return ""
    low, high = f"{100 * min(rates):.1f}", percent(max(rates))
    span = high if high.startswith(f"{low} ") else f"{low} to {high}"
    return f"{span} of the training labels are wrong"


def _events(setting: Setting) -> list[Event]:
    """Group events by run and sentence, one line each; what was said at the end comes last."""
    rounds: dict[tuple[str, str], list[str]] = {}
    for name, _, run in setting.runs:
        for number, texts in zip(run.rounds["round"], run.rounds["events"], strict=True):
            for text in texts:
                rounds.setdefault((name, text), []).append(f"{number:g}")
    found = [Event(name, text, _listed(numbers)) for (name, text), numbers in rounds.items()]
    for name, _, run in setting.runs:
        said = (run.summary or {}).get("notices")
        found += [Event(name, str(text), "at the end") for text in (said or ())]
    return found


def _listed(numbers: Sequence[str]) -> str:
    more = len(numbers) - SHOWN_ROUNDS
    shown = ", ".join(numbers[:SHOWN_ROUNDS]) + (f" and {more} more" if more > 0 else "")
    return f"round{'' if len(numbers) == 1 else 's'} {shown}"


def _chosen(setting: Setting) -> list[str]:
    """Return why a method was chosen that the user did not name, a sentence per method."""
    found = [(run.method, (run.summary or {}).get("chosen")) for _, _, run in setting.runs]
    chosen = [(method, c) for method, c in found if isinstance(c, Mapping)]
    sentences = [f"{c.get('by')} chose {method}: {c.get('why')}." for method, c in chosen]
    return list(dict.fromkeys(sentences))


def _versions(found: Sequence[Setting]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each set of versions with the runs that it belongs to."""
    groups: list[tuple[list[str], Mapping[str, Any]]] = []
    for setting in found:
        for name, _, run in setting.runs:
            versions = (run.summary or {}).get("versions")
            if not isinstance(versions, Mapping) or not versions:
                continue
            full = name if len(found) == 1 else f"{setting.name}, {name}"
            known = next((names for names, group in groups if group == versions), None)
            if known is None:
                groups.append(([full], versions))
            else:
                known.append(full)
    return [("; ".join(names) if len(groups) > 1 else "", group) for names, group in groups]


def _config_tables(config: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return `(table, [(key, value), ...])`, top-level keys first."""
    top = [(key, value) for key, value in config.items() if not isinstance(value, Mapping)]
    tables = [(k, list(v.items())) for k, v in config.items() if isinstance(v, Mapping)]
    return [("", top), *tables] if top else tables


def _shown(value: Any) -> str:
    """Return a value of a JSON or TOML file as text."""
    match value:
        case None:
            text = MISSING
        case bool():
            text = "true" if value else "false"
        case float():
            text = f"{value:.6g}"
        case list():
            text = ", ".join(_shown(item) for item in value)
        case Mapping():
            text = ", ".join(f"{key} = {_shown(item)}" for key, item in value.items())
        case _:
            text = str(value)
    return text or "(empty)"


def _unbroken(text: str) -> str:
    """Keep a number on one line with its unit and its name."""
    text = re.sub(r"\b(F1|precision|recall) (?=\d)", "\\1\N{NO-BREAK SPACE}", text)
    return text.replace(" %", "\N{NO-BREAK SPACE}%")
