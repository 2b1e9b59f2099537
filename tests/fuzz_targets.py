"""What bytes from elsewhere reach, each as a function of bytes; guided by coverage, with atheris.

python tests/fuzz_targets.py wire CORPUS -runs=100000        libFuzzer's options follow

Only fedsift's own errors may come out; anything else ends the process, and libFuzzer writes the
bytes to a file. `tests/test_fuzz_guided.py` runs every target for a while.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fedsift"]):
    from fedsift.audit.review import Decisions, Reviewed
    from fedsift.audit.review.app import Review, application
    from fedsift.compress import wire
    from fedsift.data.sources import ReadOptions, read
    from fedsift.errors import FedsiftError
    from fedsift.experiment.config import from_mapping
    from fedsift.federation.encoding import decode_reply
    from fedsift.files import read_toml
    from fedsift.site.host import Host

from site_case import made

COOKIE = b"fedsift_review_1=token; fedsift_review=token"


def wires(folder):
    """The decoder of payloads."""
    case = made(folder)
    seeds = [data for parts in (case.hello(), case.step(0)) for data in parts.values()]
    return wire.decode, seeds


def config(folder):
    """A configuration file."""
    path = folder / "c.toml"

    def read_it(data):
        path.write_bytes(data)
        from_mapping(read_toml(path), "c.toml")

    return read_it, [b'dataset = "digits"\nrounds = 5\nrho = [0.1, 0.4]\n[solver]\nrate = 2.5\n']


def table(folder):
    """A site's table."""
    path = folder / "t.csv"

    def read_it(data):
        path.write_bytes(data)
        read(str(path), ReadOptions(id_column="id"))

    return read_it, [b"id,age,kind,label\n1,2.5,a,yes\n2,,b,no\n", b'id,label\n"x\ny",\xff\n']


def request(folder):
    """A request to a site: one part of a real one is replaced."""
    case = made(folder)
    host = Host(case.site_data)
    host.handle(case.hello())
    whole = [case.hello(), case.step(0), case.step(1), case.close()]

    def ask(data):
        if len(data) < 2:
            return
        parts = dict(whole[data[0] % len(whole)])
        parts[sorted(parts)[data[1] % len(parts)]] = data[2:]
        error = decode_reply(host.handle(parts)).error
        assert error is None or not error.startswith("the site failed"), error

    seeds = [
        bytes([n, k]) + part
        for n, parts in enumerate(whole)
        for k, (_, part) in enumerate(sorted(parts.items()))
    ]
    return ask, seeds


def review(folder):
    """A request to the review page by someone who is let in: method, path, body."""
    from audit.review.conftest import many  # noqa: PLC0415 - imports a browser's driver

    decisions = Decisions(folder / "decisions.jsonl", 20)
    page = application(Review(Reviewed(many(20), decisions, folder, None), "token"))
    headers = [(b"host", b"127.0.0.1:1"), (b"cookie", COOKIE)]
    loop = asyncio.new_event_loop()

    def ask(data):
        path, _, body = data.partition(b"\n")
        path, _, query = path.decode("latin-1").partition("?")
        scope = {"type": "http", "method": "POST" if body else "GET", "path": "/" + path}
        scope |= {"query_string": query.encode(), "headers": headers, "raw_path": path.encode()}
        scope |= {"http_version": "1.1", "scheme": "http", "root_path": ""}
        status, sent = [], [{"type": "http.request", "body": body, "more_body": False}]

        async def receive():
            return sent.pop() if sent else {"type": "http.disconnect"}

        async def send(message):
            status.append(message.get("status"))

        loop.run_until_complete(page(scope, receive, send))
        return status[0]

    def serve(data):
        assert ask(data) < 500

    assert ask(b"api/samples") == 200  # the cookie lets in
    decide = {"action": "relabel", "label": 1, "samples": [[0, 0]], "since": 0, "tab": "t"}
    seeds = [b"api/decide\n" + json.dumps(decide).encode(), b'api/undo\n{"tab": "t"}']
    return serve, [
        *seeds,
        b"api/changes?since=1",
        b"api/cards?at=1,2",
        b"sample/3",
        b"image/3?small",
    ]


TARGETS = {f.__name__: f for f in (wires, config, table, request, review)}


def main():
    """Fuzz one target."""
    name, corpus, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        target, seeds = TARGETS[name](Path(folder))
        Path(corpus).mkdir(parents=True, exist_ok=True)
        for n, seed in enumerate(seeds):
            (Path(corpus) / f"seed-{n}").write_bytes(seed)

        def one(data):
            try:
                target(data)
            except FedsiftError:
                return

        atheris.Setup([sys.argv[0], corpus, *options], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
