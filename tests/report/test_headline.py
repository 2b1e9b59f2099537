"""The audit's sentence at the head of the report."""

from __future__ import annotations

from fedsift.report.compare import settings
from fedsift.report.headline import headline
from fedsift.report.html import render
from fedsift.report.runs import load_run
from report.test_sites import WEIGHTS, write_audit


def said(*folders):
    (setting,) = settings([load_run(folder) for folder in folders])
    return headline(setting)


def test_it_counts_what_the_audits_flag_and_estimates_what_is_wrong(make_run):
    folder = make_run("single-loop", 0.9, weights=[WEIGHTS, WEIGHTS])
    write_audit(folder, 0)
    write_audit(folder, 1)
    sentence = said(make_run("fedavg", 0.8), folder)
    assert sentence == (
        "2 of 4 labels at 2 sites are probably wrong and worth a review; the audit estimates "
        "40.0 % wrong labels (95 % intervals of the sites: 30 to 50 %)."
    )
    page = render([load_run(folder)]).replace("\N{NO-BREAK SPACE}", " ")
    assert page.index("2 of 4 labels") < page.index("90.0 % test accuracy")


def test_a_server_says_where_the_audits_are(make_run):
    sentence = (
        "The audits are at the sites: each site lists its own with `fedsift audit FOLDER/RUN`."
    )
    assert said(make_run("single-loop", 0.9)) == sentence


def test_a_server_adds_up_what_sites_share(make_run):
    shared = {"north": {"samples": 60, "flagged": 13}, "south": {"samples": 40, "flagged": 2}}
    sentence = said(make_run("single-loop", 0.9, sites=shared))
    assert sentence.startswith("15 of 100 labels at 2 sites are probably wrong, by the counts")


def test_without_an_audit_there_is_none(make_run):
    assert said(make_run("fedavg", 0.9)) == ""
    assert said(make_run("single-loop", 0.9, finished=False)) == ""
