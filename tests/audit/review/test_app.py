"""The web application over real sockets: who is let in, what is answered, what is refused."""

from __future__ import annotations

import http.client
import io
import json
import socket

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from audit.review.conftest import LIMIT, TOKEN, served, site_of
from fedsift.audit.review import ReviewSamples, guard
from fedsift.audit.review.server import listen

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


@pytest.mark.parametrize(
    "path", ["/", "/api/samples", "/image/0", "/static/review.js", "/sample/0", "/pixels/0"]
)
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
    body = {"samples": [[0, 0]], "action": "keep"}
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
        "/sample/99",
        f"/sample/{'9' * 5000}",
        "/pixels/8",
    ],
)
def test_paths_outside_are_refused(site, path):
    assert ask(site, "GET", path)[0] == 404


def test_an_image_is_the_sample(site, images):
    status, headers, content = ask(site, "GET", "/image/3")
    assert (status, headers["Content-Type"]) == (200, "image/png")
    drawn = np.asarray(Image.open(io.BytesIO(content)), dtype=float)
    assert np.corrcoef(drawn.ravel(), images.content.inputs[3].numpy().ravel())[0, 1] > 0.999


def test_a_scan_keeps_its_size_and_its_values(tmp_path):
    audit = site_of("scan", 2)
    own = audit.content.own_pixels(5)
    with served(ReviewSamples.of(audit), tmp_path) as place:
        whole = Image.open(io.BytesIO(ask(place, "GET", "/image/5")[2]))
        small = Image.open(io.BytesIO(ask(place, "GET", "/image/5?small")[2]))
        _, headers, values = ask(place, "GET", "/pixels/5")
    assert (whole.size, small.size) == ((512, 512), (128, 128))
    assert (headers["X-Width"], headers["X-Channels"], headers["X-Type"]) == ("512", "1", "uint16")
    np.testing.assert_array_equal(np.frombuffer(values, "<u2").reshape(512, 512), own)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [1],
        {"samples": [[0, 0]]},
        {"samples": [], "action": "keep"},
        {"samples": [0], "action": "keep"},
        {"samples": [["0", 0]], "action": "keep"},
        {"samples": [[8, 0]], "action": "keep"},
        {"samples": [[0, 0], [0, 0]], "action": "keep"},
        {"samples": [[0, 0]], "action": "relabel", "label": 3},
        {"samples": [[0, 0]], "action": "relabel", "label": True},
        {"samples": [[0, 0]], "action": "drop"},
        {"samples": [[0, 0]], "action": "keep", "comment": 1},
        {"samples": [[0, 0]], "action": "keep", "comment": "x" * 3000},
        {"samples": [[0, 0]], "action": "keep", "comment": "\ud800"},
        {"samples": [[0, 0]], "action": "keep", "by": "\ud800"},
        {"samples": [[0, 0]], "action": "keep", "tab": "x" * 2_100_000},
    ],
)
def test_bad_decisions_are_refused(site, body):
    status, _, content = ask(site, "POST", "/api/decide", body=body)
    assert status == 400
    assert json.loads(content)["error"]
    assert not (site.folder / "decisions.jsonl").read_bytes()


def chunked(site, path, parts):
    """Send a body whose length is not said before."""
    host = site.origin.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=LIMIT)
    cookie = {k: v.format(port=host.rpartition(":")[2]) for k, v in COOKIE.items()}
    connection.request("POST", path, iter(parts), cookie, encode_chunked=True)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


@pytest.mark.parametrize(
    "parts", [[b"[" * 100_000], [b'{"tab": "', *[b"x" * 50_000] * 41, b'"}'], [b"9" * 5000]]
)
def test_bodies_that_are_deep_or_long_are_refused(site, parts):
    status, content = chunked(site, "/api/undo", parts)
    assert status == 400
    assert json.loads(content)["error"]


def test_a_very_long_number_is_no_number(site):
    assert ask(site, "GET", f"/api/changes?since={'9' * 5000}")[0] == 200


def decide(site, samples, action, label=None, **more):
    body = {"samples": samples, "action": action, "label": label, "tab": "t", "by": "ana", **more}
    status, _, content = ask(site, "POST", "/api/decide", body=body)
    return status, json.loads(content)


def post_in_chunks(site, body):
    """Send a body that states no length."""
    host = site.origin.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=LIMIT)
    cookie = {k: v.format(port=host.rpartition(":")[2]) for k, v in COOKIE.items()}
    parts = (body[n : n + 100_000] for n in range(0, len(body), 100_000))
    connection.request("POST", "/api/decide", parts, cookie, encode_chunked=True)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content


def test_a_body_in_chunks_is_limited_too(site):
    """As long as is allowed is read, and is no decision; one byte more is not read."""
    status, content = post_in_chunks(site, b" " * guard.BODY_LIMIT)
    assert (status, "is not a JSON object" in content) == (400, True)
    status, content = post_in_chunks(site, b" " * (guard.BODY_LIMIT + 1))
    assert (status, "is longer than" in content) == (400, True)


@pytest.mark.parametrize("body", [b"[" * 500_000, b'{"a":' * 300_000, b"\xff\xfe", b""])
def test_what_is_no_json_is_a_sentence(site, body):
    status, content = post_in_chunks(site, body)
    assert (status, "is not a JSON object" in content) == (400, True)


def test_an_address_that_is_printed_is_listened_to():
    """A browser that opens it at once waits for the server; it is not refused."""
    with listen(0) as listening, socket.create_connection(listening.getsockname(), timeout=5):
        pass


def test_decisions_come_out_as_corrected_labels(site, images):
    decide(site, [[0, 0]], "accept")
    decide(site, [[1, 0]], "relabel", 0, comment="a cat")
    decide(site, [[2, 0], [3, 0]], "unusable")
    decide(site, [[4, 0]], "keep")
    decide(site, [[5, 0]], "skip")
    written = json.loads(ask(site, "POST", "/api/export", body={"form": "csv"})[2])
    path = site.folder / "corrected.csv"
    assert written == {
        "path": str(path),
        "use": f"--labels {path}",
        "decided": 5,
        "changed": 2,
        "unusable": 2,
    }
    table = pd.read_csv(path, keep_default_na=False)
    given = [images.class_names[c] for c in images.record.labels]
    assert table["label"].tolist() == ["<b>dog</b>", "cat", *given[2:]]
    assert table["given_label"].tolist() == given
    assert table["unusable"].tolist() == [False, False, True, True, *[False] * 4]
    decisions = ["accept", "relabel", "unusable", "unusable", "keep", "skip", "", ""]
    assert table["decision"].tolist() == decisions
    assert table["comment"][1] == "a cat"
    assert table["by"].tolist() == [*["ana"] * 6, "", ""]
    assert pd.to_datetime(table["when"][:6]).notna().all()
    assert table["id"].tolist() == list(images.record.ids)


@pytest.mark.parametrize(("label", "action"), [(1, "accept"), (0, "keep"), (2, "relabel")])
def test_a_class_means_the_same_however_it_was_chosen(site, label, action):
    """Sample 0 has the label 0, and 1 is suggested."""
    _, value = decide(site, [[0, 0]], "relabel", label)
    assert [(d["action"], d["label"]) for d in value["decisions"]] == [(action, label)]


def test_two_people_are_merged_and_neither_overwrites_the_other(site):
    decide(site, [[0, 0]], "accept")
    status, value = decide(site, [[0, 0]], "unusable", by="ben", tab="b")
    assert (status, value["stale"]) == (409, [0])
    assert [(d["action"], d["by"]) for d in value["decisions"]] == [("accept", "ana")]
    status, value = decide(site, [[0, 0], [1, 0]], "unusable", by="ben", tab="b")
    assert (status, value["saved"], value["stale"]) == (200, [1], [0])
    changes = json.loads(ask(site, "GET", "/api/changes?since=1")[2])
    assert [(d["index"], d["by"]) for d in changes["decisions"]] == [(1, "ben")]


@pytest.mark.parametrize("form", ["own", "images", "pdf"])
def test_exports_that_do_not_fit_are_refused(site, form):
    assert ask(site, "POST", "/api/export", body={"form": form})[0] == 400


def test_neighbours_are_sure_samples_of_the_suggested_class(tmp_path):
    audit = site_of("image", 10)
    scores = audit.table.set_index("index")["label_score"]
    with served(ReviewSamples.of(audit), tmp_path) as place:
        found = json.loads(ask(place, "GET", "/sample/2")[2])
    near = [n["index"] for n in found["neighbours"]]
    assert near  # the truth of sample 2 is class 2, and so it is that of its neighbours
    assert all(n % 6 == 2 and audit.record.labels[n] == 2 and scores[n] >= 0.8 for n in near)
    assert found["probable"][0][0] == 2


def test_fields_have_names_and_raw_values(tmp_path):
    audit = site_of("table", 2)
    with served(ReviewSamples.of(audit), tmp_path) as place:
        cards = json.loads(ask(place, "GET", "/api/cards?at=0,1,99,x")[2])
    assert set(cards) == {"0", "1"}
    row = audit.content.frame.iloc[0]
    shown = {name: text for name, _, text in cards["0"]}
    assert shown["age"] == str(row["age"])
    assert shown["mean radius"] == str(row["mean radius"])
    assert shown["stage"] == row["stage"]
