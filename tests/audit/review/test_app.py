"""The web application over real sockets: who is let in, what is answered, what is refused."""

from __future__ import annotations

import http.client
import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from audit.review.conftest import LIMIT, TOKEN

pytestmark = pytest.mark.timeout(120)

COOKIE = {"Cookie": "fedsift_review_{port}=" + TOKEN}


def ask(site, method, path, headers=None, body=None):
    host = site.origin.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=LIMIT)
    port = host.rpartition(":")[2]
    sent = {k: v.format(port=port) for k, v in (COOKIE if headers is None else headers).items()}
    connection.putrequest(method, path, skip_host="Host" in sent)
    data = None if body is None else json.dumps(body).encode()
    for name, value in sent.items():
        connection.putheader(name, value)
    if data is not None:
        connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers, content


@pytest.mark.parametrize("path", ["/", "/api/samples", "/image/0", "/static/review.js"])
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Cookie": "fedsift_review_{port}=wrong"},
        {"Cookie": "fedsift_review_1=" + TOKEN},
    ],
)
def test_nothing_without_the_token(site, path, headers):
    status, _, content = ask(site, "GET", path, headers)
    assert status == 403
    assert b"cat" not in content


@pytest.mark.parametrize("path", ["/api/decide", "/api/undo", "/api/export"])
def test_nothing_is_changed_without_the_token(site, path):
    body = {"index": 0, "version": 0, "action": "keep"}
    assert ask(site, "POST", path, {}, body)[0] == 403
    assert not (site.folder / "corrected.parquet").exists()
    assert not (site.folder / "decisions.jsonl").read_bytes()


def test_the_token_becomes_a_strict_cookie(site):
    status, headers, _ = ask(site, "GET", f"/?token={TOKEN}", {})
    assert (status, headers["Location"]) == (303, "/")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=strict" in headers["Set-Cookie"]


@pytest.mark.parametrize(
    ("token", "headers", "status"),
    [
        (TOKEN, {}, 200),
        (TOKEN, {"Host": "localhost:{port}"}, 200),
        (TOKEN, {"Host": "[::1]:{port}"}, 200),
        (TOKEN, {"Host": "evil.example:{port}"}, 403),
        (TOKEN, {"Host": "127.0.0.1.evil.example:{port}"}, 403),
        (TOKEN, {"Host": ""}, 403),
        (TOKEN, {"Origin": "http://127.0.0.1:{port}"}, 200),
        (TOKEN, {"Origin": "http://evil.example"}, 403),
        (TOKEN, {"Origin": "http://127.0.0.1:1"}, 403),
        ("wrong", {}, 403),
        (TOKEN[:-1], {}, 403),
        ("", {}, 403),
    ],
)
def test_token_host_and_origin_each_refuse_alone(site, token, headers, status):
    """The token is in the address: a cookie is looked up by the Host header's port."""
    assert ask(site, "GET", f"/api/samples?token={token}", headers)[0] == status


def test_answers_forbid_everything_from_elsewhere(site):
    _, headers, _ = ask(site, "GET", "/")
    policy = dict(part.split(maxsplit=1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/image/../../decisions.jsonl",
        "/image/..%2f..%2fdecisions.jsonl",
        "/image/8",
        "/image/-1",
        "/fields/99",
    ],
)
def test_paths_outside_are_refused(site, path):
    assert ask(site, "GET", path)[0] == 404


def test_an_image_is_the_sample(site, images):
    status, headers, content = ask(site, "GET", "/image/3")
    assert (status, headers["Content-Type"]) == (200, "image/png")
    drawn = np.asarray(Image.open(io.BytesIO(content)), dtype=float)
    assert np.corrcoef(drawn.ravel(), images.content.inputs[3].numpy().ravel())[0, 1] > 0.999


@pytest.mark.parametrize(
    "body",
    [
        None,
        [1],
        {"index": 0},
        {"index": "0", "version": 0, "action": "keep"},
        {"index": 8, "version": 0, "action": "keep"},
        {"index": 0, "version": 0, "action": "relabel", "label": 3},
        {"index": 0, "version": 0, "action": "relabel", "label": True},
        {"index": 0, "version": 0, "action": "drop"},
        {"index": 0, "version": 0, "action": "keep", "tab": "x" * 20_000},
    ],
)
def test_bad_decisions_are_refused(site, body):
    status, _, content = ask(site, "POST", "/api/decide", body=body)
    assert status == 400
    assert json.loads(content)["error"]
    assert not (site.folder / "decisions.jsonl").read_bytes()


def test_decisions_come_out_as_corrected_labels(site, images):
    asked = [(0, "accept", None), (1, "relabel", 0), (2, "unusable", None), (4, "keep", None)]
    for index, action, label in asked:
        body = {"index": index, "version": 0, "action": action, "label": label, "tab": "t"}
        assert ask(site, "POST", "/api/decide", body=body)[0] == 200
    written = json.loads(ask(site, "POST", "/api/export", body={})[2])
    assert written == {
        "path": str(site.folder / "corrected.parquet"),
        "decided": 4,
        "changed": 2,
        "unusable": 1,
    }
    table = pd.read_parquet(site.folder / "corrected.parquet")
    given = images.record.labels.tolist()
    assert table["class"].tolist() == [1, 0, *given[2:]]
    assert table["label"].tolist() == [images.class_names[c] for c in table["class"]]
    assert table["unusable"].tolist() == [False, False, True, *[False] * 5]
    assert table["site"].tolist() == ["north"] * 8
    assert table["index"].tolist() == list(range(8))
