"""Flower's non-public parts are used in one module, with the versions that were tested."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

from fedsift.errors import InputError
from fedsift.flower.compat import TESTED, check_version

ROOT = Path(__file__).parents[2]
PUBLIC = {"flwr.app", "flwr.clientapp", "flwr.serverapp"}


def _imports(text):
    """Return the modules that a source imports, wherever the statement is."""
    nodes = list(ast.walk(ast.parse(text)))
    plain = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    return plain | {n.module for n in nodes if isinstance(n, ast.ImportFrom) and n.module}


def _private(text):
    """Return the modules of Flower that a source imports and that are not public."""
    return {m for m in _imports(text) if re.match(r"flwr\b", m)} - PUBLIC


def test_only_compat_imports_what_is_not_public():
    sources = {p.name: p.read_text() for p in (ROOT / "src").rglob("*.py")}
    assert {name for name, text in sources.items() if _private(text)} == {"compat.py"}


@pytest.mark.parametrize("bad", ["import flwr.proto", "def f():\n    from flwr.common import x"])
def test_the_search_finds_a_private_import(bad):
    assert _private(bad)
    assert not _private("from flwr.app import Message")


@pytest.mark.parametrize("version", ["1.39.0", "1.43.0", "2.41.0", "1.4"])
def test_an_untested_version_is_refused_in_a_sentence(version):
    with pytest.raises(InputError, match=f"Flower {version} is installed but fedsift was tested"):
        check_version(version)


def test_pyproject_allows_exactly_what_was_tested():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (spec,) = (s for s in project["optional-dependencies"]["flower"] if s.startswith("flwr"))
    minors = [int(version.removeprefix("1.")) for version in TESTED]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert spec == f"flwr>=1.{minors[0]},<1.{minors[-1] + 1}"


def test_the_pinned_version_was_tested():
    pins = (ROOT / "constraints.txt").read_text()
    check_version(re.search(r"^flwr==(.+)$", pins, re.MULTILINE)[1])
