"""The page on privacy says of every message what the server sees."""

import re
from pathlib import Path

from fedsift.client import ACTIONS
from fedsift.federation.remote import CLOSE, HELLO


def test_every_kind_of_message_has_a_row():
    page = (Path(__file__).parents[2] / "docs" / "guide" / "privacy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z-]+)`", page, flags=re.MULTILINE)
    assert sorted(rows) == sorted([*ACTIONS, HELLO, CLOSE])
