"""Site audits in the report: read from files, shown as text, left out where there are none."""

from __future__ import annotations

import html
import json

import pytest

from fedsift.errors import InputError
from fedsift.report.compare import settings
from fedsift.report.html import render
from fedsift.report.runs import load_run
from fedsift.report.sites import run_sites, traffic

PICTURE = "data:image/png;base64,AAAA"
WEIGHTS = {"index": [0, 1], "label": [0, 1], "weight": [0.1, 0.9], "true_label": [1, 1]}


def write_audit(folder, client, label="cat", image=PICTURE, score=0.1, name="p 7", fields=None):
    shares = {"estimate": 0.4, "low": 0.3, "high": 0.5}
    suspect = {"index": 0, "given_label": label, "predicted_label": "dog", "label_score": score}
    seen = {"image": image} if fields is None else {"fields": fields}
    audit = {
        "summary": {"samples": 2, "flagged": 1, "wrong": shares},
        "gallery": [{**suspect, "id": name, "confidence": 0.9, **seen}],
    }
    (folder / "clients" / str(client) / "audit.json").write_text(json.dumps(audit))


@pytest.fixture
def run(make_run):
    folder = make_run("single-loop", 0.9, weights=[WEIGHTS, WEIGHTS])
    write_audit(folder, 0, score=0.2)
    write_audit(folder, 1, label="<i>cow</i>", score=0.1)
    return folder


def test_rows_have_estimate_and_truth(run):
    (audit,) = run_sites(settings([load_run(run)])[0])
    assert [(r.site, r.samples, r.flagged) for r in audit.rows] == [("0", 2, 1), ("1", 2, 1)]
    assert {(r.share, r.low, r.high, r.truth) for r in audit.rows} == {(0.4, 0.3, 0.5, 0.5)}
    assert [s.site for s in audit.suspects] == ["1", "0"]  # the lowest score first


def test_names_are_text_and_pictures_are_png(run):
    write_audit(run, 0, image="data:text/html,<script>alert(1)</script>")
    page = render([load_run(run)])
    assert "&lt;i&gt;cow&lt;/i&gt; → dog" in page
    assert "<i>cow" not in page
    assert "alert(1)" not in page
    assert page.count(PICTURE) == 1


def test_a_label_opens_and_says_how_to_review_it(run):
    page = html.unescape(render([load_run(run)]))
    assert page.count("<details>\n<summary><img") == 2
    assert f"fedsift review {run} --client 1 --sample 'p 7'</code>" in page
    assert f"fedsift review {run} --client 1</code>" in page


def test_rows_of_a_table_are_listed_too(run):
    for client in range(2):
        write_audit(run, client, fields={"age": "41.5", "<b>x</b>": ""})
    page = render([load_run(run)])
    assert '<ul class="gallery rows">' in page
    assert page.count("<dt>age</dt><dd>41.5</dd>") == 2
    assert page.count("<dt>&lt;b&gt;x&lt;/b&gt;</dt><dd>–</dd>") == 2


def test_runs_without_audits_have_no_sites(make_run):
    assert "<h2>Sites" not in render([load_run(make_run("fedavg", 0.8))])


def test_a_broken_audit_is_named(run):
    (run / "clients" / "0" / "audit.json").write_text("{}")
    with pytest.raises(InputError, match=r"audit\.json is not an audit"):
        render([load_run(run)])


def test_traffic_is_compared_per_round(make_run):
    fedavg = make_run("fedavg", 0.8, bytes_up=100, bytes_down=100, exchanges=1)
    sent = {"bytes_up": 300, "bytes_down": 100, "exchanges": 4}
    sifted = make_run("single-loop", 0.8, 0.9, **sent)
    (setting,) = settings([load_run(fedavg), load_run(sifted)])
    assert traffic(setting) == (
        "Per round, against fedavg: single-loop sends 1.00 times the bytes in 2.00 times the "
        "exchanges."
    )
