"""``--config FILE.toml``: the options of ``join`` and ``server`` in a file, each by its name.

The file's options are put before those of the command line, which therefore win; a list there
replaces the one in the file. Paths are relative to the file, so that it means the same wherever the
command is started: for a service, a container, a person. A switch is true or false. What
``module:function`` names is still looked for where the command is started.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedsift.errors import ConfigError
from fedsift.files import read_toml
from fedsift.keys import hint

OPTION = "--config"
PATHS = {"FILE", "DIR", "PATH"}  # what an option of a path shows in the help
NOT_HERE = {"help", "config", "debug"}


def add_option_file(parser: argparse.ArgumentParser) -> None:
    """Let a command's options come from a file."""
    parser.add_argument(
        OPTION,
        type=Path,
        metavar="FILE.toml",
        help="options by name, in TOML, paths relative to the file; those typed here win",
    )


def with_file(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[str]:
    """Return a command's words, those of its option file first; without one they stay."""
    path = _file(words)
    return list(words) if path is None else [*_words(parser, path, words), *words]


def _file(words: Sequence[str]) -> Path | None:
    """Return the file that is given, also by the beginning of the option's name."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if len(name) > len("--co") and OPTION.startswith(name) and (sign or following):
            return Path(value if sign else following)
    return None


def _words(parser: argparse.ArgumentParser, path: Path, given: Sequence[str]) -> list[str]:
    """Return the file's options as they are typed, without those that are given."""
    options = {
        name.removeprefix("--"): action
        for action in parser._actions  # there is no public list of them
        for name in action.option_strings
        if name.startswith("--") and name.removeprefix("--") not in NOT_HERE
    }
    typed = {word.partition("=")[0] for word in given if word.startswith("--")}
    words: list[str] = []
    for key, value in read_toml(path).items():
        name = key.replace("_", "-")
        if name not in options:
            raise ConfigError(f"{path}: there is no option '{key}'{hint(name, list(options))}")
        if not any(f"--{name}".startswith(word) for word in typed):
            words += _typed(path, name, options[name], value)
    return words


def _typed(path: Path, name: str, action: argparse.Action, value: Any) -> list[str]:
    """Return one option as it is typed."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ConfigError(f"{path}: {name} is a switch; it must be true or false")
        return [f"--{name}"] if value else []
    values = value if isinstance(value, list) else [value]
    single = not isinstance(action.default, list) and name != "classes"
    plain = all(isinstance(v, str | int | float) and not isinstance(v, bool) for v in values)
    if not plain or (single and isinstance(value, list)):
        many = "" if single else ", or a list of them"
        raise ConfigError(f"{path}: {name} must be a text or a number{many}")
    shown = [_resolved(path.parent, action, str(v)) for v in values]
    if name == "classes":
        shown = [",".join(shown)]
    return [f"--{name}={text}" for text in shown]


def _resolved(folder: Path, action: argparse.Action, text: str) -> str:
    """Return a path relative to the file's folder; everything else as it is."""
    data = action.dest in {"data", "validation", "test", "encoder"} and ":" not in text
    return str((folder / text).absolute()) if action.metavar in PATHS or data else text
