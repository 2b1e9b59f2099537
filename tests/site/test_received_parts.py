"""What a site reads from its socket: parts that were listed, and no more."""

from __future__ import annotations

import json
from multiprocessing import Pipe

import pytest

from fedsift.errors import WireError
from fedsift.federation.encoding import LIMIT
from fedsift.site.process import receive

LIST_LIMIT = 65_536  # bytes


def received(*messages: bytes) -> dict[str, bytes]:
    """Read what a caller sent before it hung up: waiting for more is an error, not a wait."""
    ours, theirs = Pipe()
    with ours:
        with theirs:
            for message in messages:
                theirs.send_bytes(message)
        return receive(ours)


def list_of(size: int) -> bytes:
    """Return a list of one empty part, so many bytes long."""
    shortest = len(json.dumps([["", 0]]))
    return json.dumps([["a" * (size - shortest), 0]]).encode()


def test_a_list_of_64_kib_is_read():
    (part,) = received(list_of(LIST_LIMIT), b"").values()
    assert part == b""


def test_a_longer_list_is_refused():
    with pytest.raises(OSError, match="bad message length"):
        received(list_of(LIST_LIMIT + 1), b"")


@pytest.mark.parametrize(
    "listed",
    [
        *("{", "3", "[3]", '[["a"]]', '[["a", -1]]', '[["a", 1.0]]', '[["a", true]]'),
        *("[[1, 1]]", '[["a", 1], ["a", 1]]', f'[["a", {LIMIT}], ["b", 1]]'),
    ],
)
def test_what_is_not_a_list_of_parts_is_refused(listed):
    with pytest.raises(WireError, match="list its parts"):
        received(listed.encode(), b"1", b"1")


def test_a_part_longer_than_listed_is_refused():
    with pytest.raises(OSError, match="bad message length"):
        received(b'[["a", 2]]', b"123")
