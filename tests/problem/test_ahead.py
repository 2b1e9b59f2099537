from __future__ import annotations

import threading

import pytest
import torch

from fedsift.problem.ahead import at_once, one_ahead


@pytest.fixture(params=[1, 3])
def threads(request, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: request.param)
    return request.param


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_is_read_ahead_comes_in_order(count):
    assert list(one_ahead(lambda key: key * key, range(count))) == [n * n for n in range(count)]


def test_the_next_is_read_while_the_last_is_used(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    read = [threading.Event() for _ in range(3)]
    values = one_ahead(lambda key: read[key].set() or key, range(3))
    assert next(values) == 0
    assert read[1].wait(10)


def test_no_more_than_one_is_read_ahead(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    read = []
    values = one_ahead(lambda key: read.append(key) or key, range(10))
    next(values)
    values.close()
    assert len(read) <= 2


@pytest.mark.parametrize("count", [0, 3, 100])
def test_all_work_is_done_once(threads, count):
    done = []
    at_once(done.append, count)
    assert sorted(done) == list(range(count))


@pytest.mark.usefixtures("threads")
def test_errors_are_raised():
    def broken(key: int) -> int:
        raise ValueError(f"file {key}")

    with pytest.raises(ValueError, match="file"):
        at_once(broken, 50)
    with pytest.raises(ValueError, match="file 0"):
        list(one_ahead(broken, range(3)))
