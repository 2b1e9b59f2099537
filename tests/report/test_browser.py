"""The report in a real Chromium: at a desk and on a phone, without any script."""

from __future__ import annotations

import pytest

from fedsift.report import write_report
from report.test_sites import WEIGHTS, write_audit


@pytest.mark.parametrize("kind", ["pictures", "rows"])
@pytest.mark.parametrize("width", [1280, 375])
def test_labels_open_and_wide_tables_scroll(make_run, tmp_path, chromium, kind, width):
    folder = make_run("single-loop", 0.9, weights=[WEIGHTS, WEIGHTS])
    fields = {"age": "41.5", "note": "long " * 50} if kind == "rows" else None
    for client in range(2):
        write_audit(folder, client, fields=fields)
    report = write_report([folder], tmp_path / "report.html")
    page = chromium.new_page(viewport={"width": width, "height": 740})
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.goto(report.as_uri())
    assert page.inner_text("header").index("probably wrong") < page.inner_text("header").index(
        "test accuracy"
    )
    command = page.locator("code", has_text="--sample").first
    assert not command.is_visible()
    page.locator(".gallery summary").first.focus()
    page.keyboard.press("Enter")
    assert "fedsift review" in command.inner_text()
    wide = page.evaluate(
        "[document.documentElement.scrollWidth, ...[...document.querySelectorAll('.scroll')]"
        ".map(e => e.scrollWidth > e.clientWidth)]"
    )
    assert wide[0] == width  # the page itself never scrolls sideways
    if width == 375:
        assert wide[1] is True
        assert page.locator(".hint").first.is_visible()
        shade = "getComputedStyle(document.querySelector('.scroll')).backgroundImage"
        assert "linear-gradient" in page.evaluate(shade)
    assert not faults
    page.close()
