"""``fedsift report``."""

from pathlib import Path


def test_report_on_two_runs(fedsift, tiny):
    for method in ("fedavg", "iter-topk"):
        fedsift("run", tiny, "--method", method, "--set", "rounds=1", "--out", method)
    ended = fedsift("report", "fedavg", "iter-topk")
    assert (ended.code, ended.out) == (0, "report.html\n")
    page = Path("report.html").read_text()
    assert "fedavg" in page
    assert "iter-topk" in page


def test_report_goes_where_it_is_sent(fedsift, tiny):
    fedsift("run", tiny, "--method", "fedavg", "--set", "rounds=1", "--out", "run")
    assert fedsift("report", "run", "--out", "a/b.html").out == "a/b.html\n"
    assert Path("a/b.html").read_bytes() == Path("run/report.html").read_bytes()
