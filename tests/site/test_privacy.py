"""The page on privacy says of every message what the server sees."""

import re
from pathlib import Path

from fedsift.client import ACTIONS
from fedsift.federation.remote import CLOSE, HELLO


def test_every_kind_of_message_has_a_row():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "privacy.md").read_text(encoding="utf-8")
    table = re.search(r"(?:^\|.*\n)+", page, flags=re.MULTILINE)[0]  # the first of the page
    rows = re.findall(r"^\| `([a-z-]+)`", table, flags=re.MULTILINE)
    assert sorted(rows) == sorted([*ACTIONS, HELLO, CLOSE])
