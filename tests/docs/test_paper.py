"""docs/paper.md: every file and every name that it gives for a line of the paper exists."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\[`([\w.]+)`\]\(\.\./(src/[\w/]+\.py)#([\w.]+)\)", TEXT)
SITE = ROOT / "docs" / "dev" / "site.py"


@pytest.fixture(scope="module")
def line_of():
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    return runpy.run_path(str(SITE))["line_of"]


@pytest.mark.parametrize(("shown", "path", "name"), sorted(set(LINKS)))
def test_a_named_definition_exists(shown, path, name, line_of):
    assert shown == name
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    found = lines[line_of(ROOT / path, name) - 1]
    assert re.match(rf"\s*(class|def) {name.rpartition('.')[2]}\b", found)


def test_a_missing_name_is_noticed(line_of):
    with pytest.raises(LookupError, match=r"has no CommFedBiO\.nothing"):
        line_of(ROOT / "src/fedsift/algorithms/comm_fedbio.py", "CommFedBiO.nothing")


def test_every_link_to_code_names_a_definition():
    assert TEXT.count("../src/") == len(LINKS) > 40


@pytest.mark.parametrize(
    ("title", "last"), [("Algorithm 1", 13), ("Algorithm 2", 12), ("Algorithm 3", 7)]
)
def test_every_line_of_a_listing_is_there(title, last):
    part = TEXT[TEXT.index(f"## {title}") :].split("\n## ")[0]
    given = set()
    for first, _, end in re.findall(r"^\| (\d+)(-(\d+))? \|", part, flags=re.M):
        given |= set(range(int(first), int(end or first) + 1))
    loops = {"Algorithm 1": {1}, "Algorithm 2": {1, 11}, "Algorithm 3": {1, 3, 5}}[title]
    assert given == set(range(1, last + 1)) - loops  # 1 is the input, the rest begin or end a loop


def test_every_equation_is_there():
    part = TEXT[TEXT.index("## Equations") : TEXT.index("## Algorithm 1")]
    numbers = re.findall(r"^\| Eq\. ([\d, ]+) \|", part, flags=re.M)
    given = [int(n) for row in numbers for n in row.split(", ")]
    assert sorted(given) == list(range(1, 15))
