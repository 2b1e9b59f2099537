"""``fedsift site``: the process that holds a site's data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import jvp

from fedsift.cli.own import add_encoder
from fedsift.cli.reading import add_reading, arguments, reading
from fedsift.client.policy import FILE as POLICY
from fedsift.client.policy import Policy, read_policy
from fedsift.data.federated import SITE_NAME
from fedsift.errors import InputError
from fedsift.experiment.config import from_mapping, read_toml
from fedsift.experiment.own_data import absolute
from fedsift.experiment.setup import load_data
from fedsift.federation.encoding import Parts
from fedsift.files import write_atomically
from fedsift.problem.inputs import whole
from fedsift.site.host import Host
from fedsift.site.ledger import Ledger
from fedsift.site.process import serve
from fedsift.site.question_log import QuestionLog
from fedsift.site.result import Origin
from fedsift.site.run import SiteData

EXAMPLES = """\
examples:
  fedsift site --split digits.toml --folder sites     sites/0.npz ...: data for a trial
  fedsift site --folder site-0 --client 0 --data sites/0.npz
  fedsift site log --folder site-0                    every question, with its time and sizes
  fedsift site approve --folder site-0                runs that wait for the owner
  fedsift site approve RUN --folder site-0            say yes to one

`fedsift join` starts this process by itself; it is a command of its own so that it can run as
another user, or alone for a test.
"""


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "site",
        description="Load a site's data and model once, and reply on a socket in the site's "
        "folder that only its owner can open.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=("log", "approve"),
        help="log: show what was asked; approve: show the runs that wait, or say yes to one",
    )
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run to approve")
    add_site_data(parser, required=False)
    parser.add_argument(
        "--split",
        type=Path,
        metavar="CONFIG.toml",
        help="write the data of every client of this configuration, and stop",
    )
    parser.set_defaults(handler=handle)


def add_site_data(parser: argparse.ArgumentParser, *, required: bool) -> None:
    """Add the options that name a site's folder, data and model."""
    parser.add_argument(
        "--folder", type=Path, required=True, metavar="DIR", help="the site's own folder"
    )
    parser.add_argument(
        "--client", type=int, required=required, metavar="N", help="the site's number, from 0"
    )
    parser.add_argument(
        "--name", metavar="NAME", help="what people call the site (default: its number)"
    )
    parser.add_argument(
        "--data", required=required, metavar="WHAT", help="a file, a folder, or module:function"
    )
    add_reading(parser)
    parser.add_argument(
        "--labels",
        metavar="PATH",
        help="train on corrected labels, from `fedsift review` or Label Studio",
    )
    parser.add_argument(
        "--model",
        default="auto",
        metavar="WHAT",
        help="auto: the server's model; or a model's name, or module:function",
    )
    add_encoder(parser)
    parser.add_argument(
        "--share-summary",
        action="store_true",
        help="let the server know how many labels are suspicious, if it asks",
    )

    parser.add_argument(
        "--policy",
        action=_PolicyAction,
        metavar="FILE",
        help="what a server may ask (default: policy.toml in --folder, else a strict one); show: "
        "print it, that of a --folder given before it, and stop",
    )
    parser.add_argument(
        "--approve",
        action="store_true",
        help="no run starts before `fedsift site approve RUN`",
    )


class _PolicyAction(argparse.Action):
    """Keep the file's name; `show` prints the policy and ends, as `--help` does."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,  # noqa: ARG002
    ) -> None:
        if values == "show":
            print(read_policy(namespace.folder and namespace.folder / POLICY).to_toml(), end="")
            parser.exit()
        setattr(namespace, self.dest, values)


def site_policy(options: argparse.Namespace) -> Policy:
    """Return the policy that the options name."""
    path = options.folder / POLICY if options.policy is None else Path(options.policy)
    if options.policy is not None and not path.exists():
        raise InputError(f"there is no file {path}; `fedsift join --policy show` prints one")
    policy = read_policy(path)
    return replace(policy, approve=True) if options.approve else policy


def site_arguments(options: argparse.Namespace) -> list[str]:
    """Return these options as they are typed after `fedsift site`."""
    given = ["--client", str(options.client), "--data", options.data, "--model", options.model]
    given += [] if options.name is None else ["--name", options.name]
    given += [] if options.encoder is None else ["--encoder", options.encoder]
    given += [] if options.labels is None else ["--labels", absolute(options.labels)]
    given += ["--share-summary"] if options.share_summary else []
    given += [] if options.policy is None else ["--policy", absolute(options.policy)]
    given += ["--approve"] if options.approve else []
    return [*given, *arguments(options)]


def handle(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    if options.split is not None:
        return _split(options.split, options.folder)
    if options.what == "log":
        print(*QuestionLog(options.folder).lines(), sep="\n")
        return 0
    if options.what == "approve":
        return _approve(Ledger(options.folder), options.run)
    if options.client is None or options.data is None:
        raise InputError("--client or --data is missing; give both")
    folder = options.folder.absolute()

    def load() -> Callable[[Parts], Parts]:
        jvp(
            torch.sin, (torch.ones(1),), (torch.ones(1),)
        )  # the first call loads much of torch: not within a request
        host = Host(load_site(options, folder))
        print(f"site {host.data.origin.name}: {len(host.data.samples)} samples", flush=True)
        for note in host.data.samples.notes:
            print(f"  {note}", flush=True)
        return host.handle

    serve(folder, load)
    return 0


def load_site(options: argparse.Namespace, folder: Path) -> SiteData:
    """Load a site's samples."""
    origin = site_origin(options)
    policy = site_policy(options)
    return SiteData(options.client, origin.samples(), folder, origin, options.share_summary, policy)


def site_origin(options: argparse.Namespace) -> Origin:
    """Return what the options say of a site."""
    if options.client < 0:
        raise InputError(f"--client is {options.client}; it must be 0 or more")
    origin = Origin(
        name=options.name or str(options.client),
        data=absolute(options.data),
        reading=reading(options),
        model=options.model,
        encoder=options.encoder or "",
        cwd=str(Path.cwd()),
        labels=absolute(options.labels or ""),
    )
    if not SITE_NAME.fullmatch(origin.name):
        raise InputError(
            f"--name is {origin.name!r}; use up to 64 letters, digits, spaces, '-', '_' and '.'"
        )
    return origin


def _approve(ledger: Ledger, run: str | None) -> int:
    """Show the runs that wait for the owner, or say yes to one."""
    if run is not None:
        ledger.approve(run)
        print(f"{run} may start at this site")
        return 0
    waiting = ledger.proposals()
    for name, settings in waiting.items():
        shown = {k: v for k, v in settings.items() if k != "schema"}
        print(f"{name}: " + ", ".join(f"{k} = {v}" for k, v in shown.items()))
    print(f"{len(waiting)} runs wait for approval")
    return 0


def _split(path: Path, folder: Path) -> int:
    config = from_mapping(read_toml(path), str(path)).resolve()
    for m, client in enumerate(load_data(config).clients):
        arrays = {"inputs": whole(client.inputs).numpy(), "labels": client.labels.numpy()}
        target = folder / f"{m}.npz"
        write_atomically(target, lambda temporary, a=arrays: _save(temporary, a))  # type: ignore[misc]
        print(f"{target}: {len(client)} samples")
    return 0


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
