"""``fedsift review``."""

from __future__ import annotations

import argparse
import getpass
import importlib.util
import sys
import webbrowser
from pathlib import Path
from typing import Any

from fedsift.audit.review import EXPORTS, Decisions, Reviewed, ReviewSamples, export
from fedsift.errors import InputError
from fedsift.experiment.auditing import open_audit

EXAMPLES = """\
examples:
  fedsift review runs/digits-auto-0 --client 3
  fedsift review runs/own --client north --name reviewer --sample P0012
  fedsift review runs/own --client north --export own --out patients-corrected.csv

The page is served on this machine only, to a browser that has the token in the address. Decisions
are saved at once in RUN/clients/NAME/decisions.jsonl, with who made them and when. `Export` on the
page, or --export, writes the corrected labels; `fedsift run` and `fedsift join` train on them with
--labels RUN/clients/NAME/corrected.parquet. Needs the extra: pip install 'fedsift[review]'.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "review",
        description="Go through the suspicious labels of a site on a local web page, and export "
        "the corrected ones.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--client", required=True, metavar="NAME", help="the site")
    parser.add_argument(
        "--name", metavar="WHO", help="who decides (default: the name of your account)"
    )
    parser.add_argument("--sample", metavar="ID", help="begin with this sample")
    parser.add_argument(
        "--blind", action="store_true", help="hide label and suggestion until a class is chosen"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port (default: any free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.add_argument(
        "--export",
        choices=tuple(EXPORTS),
        metavar="FORM",
        help=f"write the corrected labels and stop: {', '.join(EXPORTS)}",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="where --export writes")
    parser.set_defaults(handler=handle)


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
