"""What ``fedsift review`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
import getpass
import importlib.util
import sys
import webbrowser
from pathlib import Path

from fedsift.audit.review import Decisions, Reviewed, ReviewSamples, export
from fedsift.errors import InputError
from fedsift.experiment.auditing import open_audit


def handle(options: argparse.Namespace) -> int:
    """Serve the page until interrupted, or export."""
    sys.path.insert(0, str(Path.cwd()))  # for samples of module:function
    run = open_audit(options.run)
    audit = run.audit(options.client)
    folder = options.run / "clients" / audit.site
    samples = ReviewSamples.of(audit)
    decisions = Decisions(folder / "decisions.jsonl", len(samples.table))
    try:
        own, earlier = run.own_file(audit.site), run.earlier(audit.site)
        site = Reviewed(samples, decisions, folder, own, earlier)
        if options.export is not None:
            return _export(site, options)
        return _serve(site, options, audit.summary.flagged)
    finally:
        decisions.close()


def _serve(site: Reviewed, options: argparse.Namespace, flagged: int) -> int:
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"the review needs the package {package}; run pip install 'fedsift[review]'"
            )
    from fedsift.audit.review.app import Start  # noqa: PLC0415 - of the extra
    from fedsift.audit.review.server import serve  # noqa: PLC0415

    def announce(address: str) -> None:
        print(f"{flagged} suspicious labels; stop with Ctrl-C\n{address}", flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    start = Start(options.name or _account(), _position(site, options.sample), options.blind)
    try:
        serve(site, options.port, start, announce)
    except KeyboardInterrupt:
        print("stopped; all decisions are saved")
    return 0


def _export(site: Reviewed, options: argparse.Namespace) -> int:
    written = export(site, options.export, options.out)
    print(
        f"{written.path}: {written.changed} labels changed, {written.unusable} unusable, "
        f"{written.decided} decided\nuse it with {written.use}"
    )
    return 0


def _position(site: Reviewed, name: str | None) -> int | None:
    if name is None:
        return None
    found = site.samples.table.loc[site.samples.table["id"] == name, "index"]
    if found.empty:
        raise InputError(f"site {site.samples.site} has no sample with the id {name}")
    return int(found.iloc[0])


def _account() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return ""
