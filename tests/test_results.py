"""The tables in the documents are those of the files in results/."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["docs/results.md", "README.md"])
def test_tables_follow_from_the_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    fill = runpy.run_path(str(ROOT / "docs" / "make_tables.py"))["fill"]
    assert fill(text) == text
    assert "| `iter-sketch` |" in text
