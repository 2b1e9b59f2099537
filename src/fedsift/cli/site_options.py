"""The options of ``site`` and ``join`` that name a site's folder, data and model.

Neither torch nor the data's readers are imported: ``join`` needs none of them.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsift.cli.own import add_encoder
from fedsift.cli.reading import add_reading, arguments, reading
from fedsift.errors import InputError
from fedsift.files import absolute

if TYPE_CHECKING:
    from fedsift.client.policy import Policy
    from fedsift.site.result import Origin


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
        "--problem",
        metavar="WHAT",
        help="serve a bilevel problem of your own: module:function, called with --data",
    )
    parser.add_argument(
        "--device",
        default="auto",
        metavar="NAME",
        help="where to compute: cpu, cuda, cuda:0 ... (default: cuda where there is one)",
    )
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
            from fedsift.client.policy import FILE, read_policy  # noqa: PLC0415 - slow to import

            print(read_policy(namespace.folder and namespace.folder / FILE).to_toml(), end="")
            parser.exit()
        setattr(namespace, self.dest, values)


def site_policy(options: argparse.Namespace) -> Policy:
    """Return the policy that the options name."""
    from fedsift.client.policy import FILE, read_policy  # noqa: PLC0415 - slow to import

    path = options.folder / FILE if options.policy is None else Path(options.policy)
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
    given += [] if options.problem is None else ["--problem", options.problem]
    given += ["--device", options.device]
    given += ["--share-summary"] if options.share_summary else []
    given += [] if options.policy is None else ["--policy", absolute(options.policy)]
    given += ["--approve"] if options.approve else []
    return [*given, *arguments(options)]


def site_origin(options: argparse.Namespace) -> Origin:
    """Return what the options say of a site."""
    from fedsift.data.federated import SITE_NAME  # noqa: PLC0415 - slow to import
    from fedsift.site.result import Origin  # noqa: PLC0415

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
        problem=options.problem or "",
    )
    if not SITE_NAME.fullmatch(origin.name):
        raise InputError(
            f"--name is {origin.name!r}; use up to 64 letters, digits, spaces, '-', '_' and '.'"
        )
    return origin
