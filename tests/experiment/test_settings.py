"""The settings that ``fit`` shows to editors and ``help`` are the keys of the tables."""

from __future__ import annotations

import inspect
import pydoc
import runpy
from pathlib import Path

import fedsift as fs
from fedsift.experiment.common_keys import NOT_SETTINGS
from fedsift.experiment.config import all_keys

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "dev" / "make_settings.py"))


def test_the_file_follows_from_the_tables():
    again = "run python docs/dev/make_settings.py"
    assert SCRIPT["TARGET"].read_text(encoding="utf-8") == SCRIPT["written"](), again


def test_every_key_of_a_method_is_a_setting():
    assert set(fs.FitSettings.__annotations__) == set(all_keys()) - NOT_SETTINGS


def test_help_and_notebooks_show_every_key_with_its_default():
    parameters = inspect.signature(fs.fit).parameters
    for name in fs.FitSettings.__annotations__:
        assert parameters[name].default == all_keys()[name].default
    shown = pydoc.render_doc(fs.fit, renderer=pydoc.plaintext)
    assert "local_steps: int = 5" in shown
    assert "Literal['auto', 'identity', 'topk', 'count-sketch']" in shown.replace('"', "'")
    assert "**settings" not in shown.split(") -> ")[0]
