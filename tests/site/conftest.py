"""A small site, the requests of a real single-loop run, and the replies to them in process."""

from __future__ import annotations

import pytest

from site_case import made


@pytest.fixture
def case(tmp_path):
    return made(tmp_path)
