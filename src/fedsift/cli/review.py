"""``fedsift review``."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import webbrowser
from pathlib import Path
from typing import Any

from fedsift.audit.review import ReviewSamples
from fedsift.errors import InputError
from fedsift.experiment.auditing import open_audit

EXAMPLES = """\
examples:
  fedsift review runs/digits-auto-0 --client 3
  fedsift review runs/digits-auto-0 --client 3 --port 8123 --no-browser

The page is served on this machine only, to a browser that has the token in the address. Decisions
are saved at once in RUN/clients/NAME/decisions.jsonl; `Export labels` writes corrected.parquet
there, and `fedsift run --labels RUN/clients/NAME/corrected.parquet` trains on it.
Needs the extra: pip install 'fedsift[review]'.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "review",
        description="Go through the suspicious labels of a site on a local web page.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder")
    parser.add_argument("--client", required=True, metavar="NAME", help="the site")
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port (default: any free one)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(handler=handle)


def handle(options: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"the review needs the package {package}; run pip install 'fedsift[review]'"
            )
    from fedsift.audit.review.server import serve  # noqa: PLC0415 - of the extra

    sys.path.insert(0, str(Path.cwd()))  # for samples of module:function
    audit = open_audit(options.run).audit(options.client)
    folder = options.run / "clients" / audit.site

    def announce(address: str) -> None:
        print(f"{audit.summary.flagged} suspicious labels; stop with Ctrl-C\n{address}", flush=True)
        if not options.no_browser:
            webbrowser.open(address)

    try:
        serve(ReviewSamples.of(audit), folder, options.port, announce)
    except KeyboardInterrupt:
        print("stopped; all decisions are saved")
    return 0
