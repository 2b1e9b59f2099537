"""``fedsift``: arguments in, exit codes out.

Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted. Errors are one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

from fedsift.cli import data, demo, report, run
from fedsift.errors import FedsiftError, InputError

COMMANDS = (demo, run, report, data)


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
        epilog="examples:\n  fedsift demo\n  fedsift run --dataset mnist --method iter-sketch\n"
        "  fedsift report runs/mnist-*\n\nfedsift COMMAND --help shows more.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--debug", action="store_true", help="show the traceback of an error")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    options = parser().parse_args(arguments)
    try:
        code: int = options.handler(options)
    except FedsiftError as error:
        if options.debug:
            raise
        print(f"fedsift: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except KeyboardInterrupt:
        print("fedsift: interrupted; `--resume` continues from the last round", file=sys.stderr)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
