"""Write src/fedsift/cli/listed.py: what the help lists, from the tables.

python docs/dev/make_listed.py
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedsift.algorithms.registry import METHODS
from fedsift.audit import SUFFIXES
from fedsift.audit.review import EXPORTS
from fedsift.data import DATASETS
from fedsift.data.sources import formats
from fedsift.experiment.paper_grid import FIGURES, SCALES, TERMS
from fedsift.experiment.presets import PRESETS
from fedsift.experiment.theory import PARTS

TARGET = Path(__file__).parents[2] / "src" / "fedsift" / "cli" / "listed.py"
HEAD = '''"""What the help lists, so that it need not import torch.

``python docs/dev/make_listed.py`` writes this file from the tables; a test compares them.
"""

from __future__ import annotations
'''


def written() -> str:
    """Return the file's text."""
    methods = {name: method.text for name, method in METHODS.items()}
    return (
        HEAD
        + f"\nMETHODS = {_mapping(methods)}"
        + f"DATASETS = {_tuple(DATASETS)}"
        + f"AUDIT_FORMATS = {_tuple(SUFFIXES)}"
        + f"FORMATS = {_mapping(formats())}"
        + f"EXPORTS = {_tuple(EXPORTS)}"
        + f"PRESETS = {_tuple(PRESETS)}"
        + f"FIGURES = {_tuple(FIGURES)}"
        + f"SCALES = {_tuple(SCALES)}"
        + f"TERMS = {_tuple(TERMS)}"
        + f"THEORY = {_tuple(PARTS)}"
    )


def _mapping(entries: dict[str, str]) -> str:
    lines = "".join(f"    {_text(name)}: {_text(text)},\n" for name, text in entries.items())
    return "{\n" + lines + "}\n"


def _tuple(names: Mapping[str, object]) -> str:
    return f"({', '.join(map(_text, names))})\n"


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
