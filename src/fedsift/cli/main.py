"""``fedsift``: arguments in, exit codes out.

Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted. Errors are one line on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from fedsift.cli import (
    audit,
    data,
    demo,
    join,
    keys,
    report,
    reproduce,
    review,
    run,
    server,
    site,
    submit,
)
from fedsift.errors import FedsiftError, InputError

COMMANDS = (demo, run, report, audit, review, reproduce, data, keys, server, join, submit, site)
EXAMPLES = """\
examples:
  fedsift demo
  fedsift run --dataset mnist
  fedsift report runs/mnist-*

fedsift COMMAND --help shows more.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and stop with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser() -> Parser:
    """Return the parser of all commands."""
    top = Parser(
        prog="fedsift",
        description="Train one model across sites whose labels cannot all be trusted, and list "
        "the labels to review.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"fedsift {version('fedsift')}")
    debug = {"action": "store_true", "help": "show the traceback of an error"}
    top.add_argument("--debug", **debug)  # type: ignore[arg-type]
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    for command in commands.choices.values():  # no default: it would undo the one before COMMAND
        command.add_argument("--debug", default=argparse.SUPPRESS, **debug)  # type: ignore[arg-type]
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.handler(options)
        sys.stdout.flush()  # a closed pipe shows here, not after the end
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        print("fedsift: interrupted; `fedsift run --resume` continues a run", file=sys.stderr)
        return 130
    except Exception as error:
        if options.debug:
            raise
        print(f"fedsift: {_sentence(error)}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return code


def _sentence(error: Exception) -> str:
    """Return one line on what went wrong; what we did not foresee comes with its type."""
    text = " ".join(str(error).split())
    if isinstance(error, FedsiftError):
        return text
    return f"{type(error).__name__}: {text} (`fedsift --debug ...` shows where)"


if __name__ == "__main__":
    sys.exit(main())
