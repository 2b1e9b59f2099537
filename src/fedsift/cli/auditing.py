"""What ``fedsift audit`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from fedsift.audit import SUFFIXES, SiteAudit, write_issues
from fedsift.errors import InputError
from fedsift.experiment.auditing import open_audit
from fedsift.experiment.run_folder import RunFolder


def handle(options: argparse.Namespace) -> int:
    """Write the issues and print a summary per site."""
    if options.validation:
        return _validation(options.run)
    sys.path.insert(0, str(Path.cwd()))  # for samples of module:function
    run = open_audit(options.run)
    sites = run.sites if options.client is None else [options.client]
    audits = [run.audit(site) for site in sites or ["0"]]
    files = []
    for audit in audits:
        folder = options.out or options.run / "clients" / audit.site
        name = f"issues{'' if options.out is None else f'-{audit.site}'}"
        path = folder / f"{name}{SUFFIXES[options.format]}"
        files += _write(audit, path, options.format)
    _print(audits)
    for file in files:
        print(file)
    return 0


def _write(audit: SiteAudit, path: Path, form: str) -> list[Path]:
    """Write the issues; without the samples' own columns where the samples are not there."""
    try:
        return write_issues(audit, path, form)
    except InputError as error:
        print(f"note: the samples' own columns are left out: {error}", file=sys.stderr)
        return write_issues(audit, path, form, raw=False)


def _print(audits: list[SiteAudit]) -> None:
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("site")
    for title in ("samples", "issues", "wrong, estimated", "effective samples"):
        table.add_column(title, justify="right")
    table.add_column("most confused (label: truth)", overflow="fold")
    for audit in audits:
        summary = audit.summary
        share = summary.wrong
        pairs = [f"{p.label}: {p.truth} ({p.expected:.0f})" for p in summary.confused[:3]]
        table.add_row(
            audit.site,
            str(summary.samples),
            str(summary.flagged),
            f"{100 * share.estimate:.1f} % ({100 * share.low:.0f} to {100 * share.high:.0f})",
            f"{summary.effective_samples:.0f}",
            ", ".join(pairs) or "–",
        )
    console = Console(highlight=False, markup=False)
    console.print(table)
    for audit in audits:
        if audit.summary.unjudged:
            names = ", ".join(audit.summary.unjudged)
            print(f"site {audit.site}: labels of {names} cannot be judged; the clean set has none")
    for basis in dict.fromkeys(audit.summary.basis for audit in audits):
        if basis:
            console.print(f"{basis[0].upper()}{basis[1:]}.", soft_wrap=True)


def _validation(folder: Path) -> int:
    """List the clean samples that something contradicts."""
    path = RunFolder(folder).summary
    if not path.exists():
        raise InputError(f"{folder} has no summary; the run has not ended, or is none")
    found = json.loads(path.read_text(encoding="utf-8")).get("clean_set", {})
    suspects, rows = found.get("suspects", []), found.get("contradicted", [])
    for position in suspects:
        print(f"position {position}: looks wrong to models that have not seen it")
    for row in rows:
        print(
            f"position {row['position']}: labelled '{row['given']}', the model of all sites says "
            f"'{row['predicted']}' ({row['probability']:.0%})"
        )
    print(f"{len({*suspects, *(row['position'] for row in rows)})} clean samples to check")
    return 0
