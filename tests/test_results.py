"""The tables in the documents are those of the files in results/."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


SCRIPT = runpy.run_path(str(ROOT / "docs" / "dev" / "make_tables.py"))


@pytest.mark.parametrize("page", SCRIPT["PAGES"])
def test_tables_follow_from_the_files(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    assert SCRIPT["fill"](text) == text
    assert "\n| " in text


def test_a_changed_number_is_noticed():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert SCRIPT["fill"](text.replace("| 0.9", "| 0.8")) == text
