"""What a site reads from its socket: parts that were listed, and no more."""

from __future__ import annotations

import json
from multiprocessing import Pipe

import pytest

from fedsift.errors import WireError
from fedsift.federation.encoding import LIMIT
from fedsift.site.process import receive

LIST_LIMIT = 65_536  # bytes


@pytest.fixture
def pipe():
    ours, theirs = Pipe()
    with ours, theirs:
        yield ours, theirs


def list_of(size: int) -> bytes:
    """Return a list of one empty part, so many bytes long."""
    shortest = len(json.dumps([["", 0]]))
    return json.dumps([["a" * (size - shortest), 0]]).encode()


def test_a_list_of_64_kib_is_read(pipe):
    ours, theirs = pipe
    theirs.send_bytes(list_of(LIST_LIMIT))
    theirs.send_bytes(b"")
    (part,) = receive(ours).values()
    assert part == b""


def test_a_longer_list_is_refused(pipe):
    ours, theirs = pipe
    theirs.send_bytes(list_of(LIST_LIMIT + 1))
    with pytest.raises(OSError, match="bad message length"):
        receive(ours)


@pytest.mark.parametrize(
    "listed",
    [
        *("{", "3", "[3]", '[["a"]]', '[["a", -1]]', '[["a", 1.0]]', '[["a", true]]'),
        *("[[1, 1]]", '[["a", 1], ["a", 1]]', f'[["a", {LIMIT}], ["b", 1]]'),
    ],
)
def test_what_is_not_a_list_of_parts_is_refused(pipe, listed):
    ours, theirs = pipe
    theirs.send_bytes(listed.encode())
    with pytest.raises(WireError, match="list its parts"):
        receive(ours)


def test_a_part_longer_than_listed_is_refused(pipe):
    ours, theirs = pipe
    theirs.send_bytes(b'[["a", 2]]')
    theirs.send_bytes(b"123")
    with pytest.raises(OSError, match="bad message length"):
        receive(ours)
