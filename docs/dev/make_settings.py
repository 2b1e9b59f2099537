"""Write src/fedsift/experiment/settings.py, the settings of ``fit``, from the tables of keys.

python docs/dev/make_settings.py
"""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from reference_pages import readers

from fedsift.experiment.common_keys import NOT_SETTINGS
from fedsift.experiment.config import all_keys
from fedsift.keys import Key

TARGET = Path(__file__).parents[2] / "src" / "fedsift" / "experiment" / "settings.py"
HEAD = '''"""The settings of ``fit``, for editors, type checkers and ``help``.

``python docs/dev/make_settings.py`` writes this file from the tables of keys; a test compares them.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class FitSettings(TypedDict, total=False):
    """What ``fs.fit`` takes by name besides its own arguments, such as ``local_steps=10``.

    A method refuses a key that it does not read; ``fedsift run --keys METHOD`` lists those that it
    reads. A key that only one of the methods behind ``auto`` reads needs that method by name.
    """
'''


def written() -> str:
    """Return the file's text."""
    keys = {name: key for name, key in all_keys().items() if name not in NOT_SETTINGS}
    return HEAD + "".join(_entry(key) for key in keys.values())


def _entry(key: Key) -> str:
    lines = (f"{key.text}.", f"Default: {key.default!r}.", f"Read by {readers(key.name)}.")
    text = " ".join(line[0].upper() + line[1:] if line[0].isascii() else line for line in lines)
    if len(text) <= 88:
        return f'\n    {key.name}: {_type(key)}\n    """{text}"""\n'
    wrapped = textwrap.fill(text, 94, initial_indent="    ", subsequent_indent="    ")
    return f'\n    {key.name}: {_type(key)}\n    """{wrapped[4:]}\n    """\n'


def _type(key: Key) -> str:
    allowed = key.allowed()
    if allowed is not None:
        return f"Literal[{', '.join(map(json.dumps, allowed))}]"
    return 'float | Literal["auto"]' if key.kind == "Auto" else key.kind


if __name__ == "__main__":
    TARGET.write_text(written(), encoding="utf-8")
