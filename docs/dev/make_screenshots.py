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

from playwright.sync_api import Browser, Page, sync_playwright

from fedsift.report import write_report

IMAGES = Path(__file__).parents[1] / "images"
METHOD, CLIENT = "auto", "0"
DESK, WIDE, PHONE = (1100, 760), (1280, 800), (390, 780)


def main(demo: Path) -> None:
    """Write the pictures."""
    browser_path = shutil.which("chromium")
    if browser_path is None:
        sys.exit("there is no Chromium; on Debian: apt-get install chromium")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as place:
        browser = driver.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        alone = write_report([demo / METHOD], Path(place) / "report.html")
        _report(browser, (demo / "report.html").absolute().as_uri(), alone.as_uri())
        copy = Path(shutil.copytree(demo / METHOD, Path(place) / METHOD))
        (copy / "clients" / CLIENT / "decisions.jsonl").unlink(missing_ok=True)
        command = [sys.executable, "-m", "fedsift", "review", str(copy), "--client", CLIENT]
        with subprocess.Popen(
            [*command, "--name", "reviewer", "--no-browser"], stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                _review(browser, _address(server))
            finally:
                server.terminate()
        browser.close()


def _page(browser: Browser, size: tuple[int, int], scheme: str = "light") -> Page:
    viewport = {"width": size[0], "height": size[1]}
    return browser.new_page(viewport=viewport, color_scheme=scheme)  # type: ignore[arg-type]


def _report(browser: Browser, address: str, alone: str) -> None:
    for name, size in (("report", DESK), ("report-phone", PHONE)):
        page = _page(browser, size)
        page.goto(address)
        page.screenshot(path=IMAGES / f"{name}.png")
    page = _page(browser, DESK)
    page.goto(alone)
    page.locator(".gallery summary").first.click()
    page.locator("section:has(.gallery)").screenshot(path=IMAGES / "report-sites.png")


def _address(server: subprocess.Popen[str]) -> str:
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("http"):
            return line.strip()
    sys.exit("the review did not start")


def _review(browser: Browser, address: str) -> None:
    page = _page(browser, WIDE)
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    for key in "akaxa":
        with page.expect_response("**/api/decide"):
            page.keyboard.press(key)
        page.wait_for_timeout(100)
    page.wait_for_selector("#near-list img")
    page.wait_for_timeout(300)
    page.screenshot(path=IMAGES / "review-single.png")
    page = _page(browser, WIDE, "dark")
    page.goto(address)
    page.wait_for_selector("body[data-ready]")
    page.keyboard.press("g")
    for _ in range(4):
        page.keyboard.press("Space")
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(500)
    page.screenshot(path=IMAGES / "review-grid.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
