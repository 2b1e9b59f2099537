"""Take the documents' screenshots of the report and the review page with Debian's Chromium.

    fedsift demo --out runs/demo && python docs/dev/make_screenshots.py runs/demo

The review runs on a copy of one site's folder, so the demo's own decisions stay as they are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parents[1] / "images"
METHOD, CLIENT = "auto", "0"
DESK, PHONE = {"width": 1100, "height": 760}, {"width": 390, "height": 780}


def main(demo: Path) -> None:
    """Write the pictures."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("there is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as place:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        report = (demo / "report.html").absolute().as_uri()
        for name, size in (("report", DESK), ("report-phone", PHONE)):
            page = browser.new_page(viewport=size)  # type: ignore[arg-type]
            page.goto(report)
            page.screenshot(path=IMAGES / f"{name}.png")
            if name == "report" and page.locator(".gallery").count():
                page.locator("section:has(.gallery)").screenshot(path=IMAGES / "report-sites.png")
        copy = Path(shutil.copytree(demo / METHOD, Path(place) / METHOD))
        (copy / "clients" / CLIENT / "decisions.jsonl").unlink(missing_ok=True)
        command = [
            sys.executable,
            "-m",
            "fedsift",
            "review",
            str(copy),
            "--client",
            CLIENT,
            "--name",
            "reviewer",
        ]
        with subprocess.Popen(
            [*command, "--no-browser"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                address = _address(server)
                for scheme in ("light", "dark"):
                    page = browser.new_page(viewport=DESK, color_scheme=scheme)  # type: ignore[arg-type]
                    page.goto(address)
                    _review(page, scheme)
            finally:
                server.terminate()
        browser.close()


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("http"):
            return line.strip()
    sys.exit("the review did not start")


def _review(page: Page, scheme: str) -> None:
    page.wait_for_selector("body[data-ready]")
    if scheme == "light":
        for key in "akaxa":
            with page.expect_response("**/api/decide"):
                page.keyboard.press(key)
            page.wait_for_timeout(100)
        page.screenshot(path=IMAGES / "review-single.png")
    else:
        page.keyboard.press("g")
        page.wait_for_timeout(500)
        page.screenshot(path=IMAGES / "review-grid.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
