"""What was broken on purpose, and how often: kept by ``--record FILE`` while the tests run.

A test is marked with the fault and with what must come of it; one call may count for many trials,
as said here or by a parameter of the test named `trials`:

    @pytest.mark.fault("a bit flipped in a checkpoint", "refused", trials=200)

The file has one entry per fault, and in it one per test, with its date and whether it passed;
`docs/dev/make_tables.py` makes the table of docs/guide/reliability.md of it. A test that is run
again replaces its own entry, so the file can be filled in several runs.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest


def pytest_addoption(parser):
    parser.addoption(
        "--record", type=Path, metavar="FILE", help="keep the faults that were tried in this file"
    )


def pytest_configure(config):
    marker = "fault(what, outcome, trials=1): what is broken, what must come of it, how often"
    config.addinivalue_line("markers", marker)


@pytest.fixture(autouse=True)
def _fault(request, record_property):
    """Put the marker and its file where the report of the test has them."""
    if (mark := request.node.get_closest_marker("fault")) is not None:
        what, outcome = mark.args
        deep = request.node.get_closest_marker("deep") is not None
        path = request.node.path.relative_to(request.config.rootpath)
        record_property("fault", what)
        record_property("outcome", outcome)
        given = getattr(request.node, "callspec", None)
        trials = mark.kwargs.get("trials", 1)
        record_property("trials", trials if given is None else given.params.get("trials", trials))
        record_property("command", f"pytest {'-m deep ' if deep else ''}{path}")


class Recorder:
    """Writes the entries as the tests end."""

    def __init__(self, path):
        self.path = path

    def pytest_runtest_logreport(self, report):
        found = dict(report.user_properties)
        if report.when != "call" or "fault" not in found or report.skipped:
            return
        kept = json.loads(self.path.read_text()) if self.path.exists() else {}
        rows = kept.setdefault(found.pop("fault"), {"tests": {}})
        rows["outcome"] = found.pop("outcome")
        day = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}"
        test = report.nodeid.partition("::")[2]
        rows["tests"][test] = {"passed": report.passed, "date": day, **found}
        self.path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def pytest_sessionstart(session):
    path = session.config.getoption("--record")
    if path is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Recorder(path))
