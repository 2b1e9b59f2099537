"""The pages of the reference that follow from the code: the command line, the keys.

The Python interface has pages in docs/reference, which mkdocstrings fills from the docstrings.
"""

from __future__ import annotations

import os
from unittest import mock

from fedsift.algorithms.registry import METHODS
from fedsift.cli.main import COMMANDS, parser
from fedsift.experiment.common_keys import COMMON
from fedsift.experiment.config import all_keys
from fedsift.keys import keys_of

TABLES = {
    "run": "What is run, for how long, where",
    "data": "A built-in dataset, and which of its labels are made wrong",
    "files": "Files of your own",
    "model": "The model and its loss",
    "federation": "Who takes part, and what is shared",
    "robustness": "Sites that send wrong updates",
    "privacy": "Differential privacy for whole sites",
    "traffic": "Compression of what travels",
    "inner": "Training of the model",
    "outer": "Weights of the samples",
    "solver": "Hypergradients",
}

KEYS = """\
# Configuration keys

A key is set by `--set key=value`, in a TOML file, or as an argument of `fs.fit`. A method refuses a
key that it does not read; `fedsift run --keys METHOD` prints those that it reads as TOML.
"""


def cli_page() -> str:
    """Return the help of every command."""
    with mock.patch.dict(os.environ, {"COLUMNS": "88", "NO_COLOR": "1"}):
        top = parser()
        (choices,) = (a.choices for a in top._actions if a.dest == "command")
        assert choices is not None
        parts = [("fedsift", top), *((f"fedsift {name}", choices[name]) for name in COMMANDS)]
        shown = [f"## {name}\n\n```text\n{one.format_help().rstrip()}\n```" for name, one in parts]
    codes = "Exit codes: 0 done, 1 the run failed, 2 bad input, 130 interrupted."
    return "\n\n".join(["# Command line", codes, *shown]) + "\n"


def keys_page() -> str:
    """Return every key of the configuration, by table."""
    keys = all_keys()
    out = [KEYS]
    head = "| key | default | meaning | read by |\n|---|---|---|---|\n"
    for table in dict.fromkeys(key.table for key in keys.values()):
        about = f"{TABLES[table]}.\n\n" if table in TABLES else ""
        out.append(f"\n## {table}\n\n{about}{head}")
        for name, key in keys.items():
            if key.table == table:
                cells = f"`{name}`", f"`{key.default!r}`", key.text, readers(name)
                out.append(f"| {' | '.join(cells)} |\n")
    return "".join(out)


def readers(name: str) -> str:
    """Return the methods that read a key; a long list is said by those that do not."""
    able = [method for method, row in METHODS.items() if row.reads(name)]
    if name in keys_of(*COMMON) or len(able) == len(METHODS):
        return "every method"
    if 2 * len(able) > len(METHODS):
        unable = (f"`{method}`" for method in METHODS if method not in able)
        return f"every method but {', '.join(unable)}"
    return ", ".join(f"`{method}`" for method in able)
