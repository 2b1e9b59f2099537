"""``fedsift``: arguments in, exit codes out.

Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted. Errors are one line on stderr.
A command is a module of this package; only the one that is called is imported, so that help comes
at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any, NoReturn

from fedsift.cli.option_file import OPTION, with_file
from fedsift.errors import FedsiftError, InputError

COMMANDS = {
    "demo": "a comparison of four methods on 10 sites with 40 %% wrong labels",
    "run": "train with one method and write a run folder",
    "report": "figures and tables from run folders, as one HTML file",
    "audit": "the labels that are probably wrong, with a score and a suggestion",
    "review": "go through the suspicious labels of a site on a local web page",
    "reproduce": "the paper's experiments: runs, figures, tables",
    "data": "the built-in datasets, and what your own file would be read as",
    "keys": "a development CA, the server's certificate, a key per site",
    "server": "the server of a real federation, with TLS and authentication of the sites",
    "join": "take part in a real federation with a site's own data",
    "status": "which sites are connected, and how far the runs are",
    "submit": "start a run on a real federation and fetch its run folder",
    "site": "the process that holds a site's data and replies to requests",
}
EXAMPLES = """\
examples:
  fedsift demo
  fedsift run --dataset mnist
  fedsift report runs/mnist-*

fedsift COMMAND --help shows more.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Read the options of `--config` first, for a command that has it."""
        if OPTION in self._option_string_actions:
            try:
                args = with_file(self, args)
            except InputError as error:
                self.error(str(error))
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Print what is wrong and stop with code 2."""
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def parser(loaded: Collection[str] = tuple(COMMANDS)) -> Parser:
    """Return the parser, with the options of the commands to be loaded."""
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
    for name, text in COMMANDS.items():
        if name in loaded:
            import_module(f"fedsift.cli.{name}").add(commands)
        else:
            commands.add_parser(name, help=text)
    for command in commands.choices.values():  # no default: it would undo the one before COMMAND
        command.add_argument("--debug", default=argparse.SUPPRESS, **debug)  # type: ignore[arg-type]
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    options = parser([word for word in given if word in COMMANDS][:1]).parse_args(given)
    options.given = list(given)  # for processes that are started with the same
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
    """Return one line on what went wrong; an unforeseen error is shown with its type."""
    text = " ".join(str(error).split())
    if isinstance(error, FedsiftError):
        return text
    return f"{type(error).__name__}: {text} (`fedsift --debug ...` shows where)"


if __name__ == "__main__":
    sys.exit(main())
