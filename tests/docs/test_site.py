"""The documents as a site: built as ``make docs`` builds it, offline, a warning being an error."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the docs extra is not installed")

ROOT = Path(__file__).parents[2]
ANSWERS = {  # what a reader looks for: the page that has it, linked from the first one
    "guide/clean-samples.html": "5 to 10 of every class",
    "guide/audit.html": "probability that the label is right",
    "guide/privacy.html": "No message contains a sample, a label or a sample weight",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(out)]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        build, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def open_browser(chromium):
    """Return a function that opens a window of some width."""
    opened = []

    def open_(width: int):
        opened.append(chromium.new_context(viewport={"width": width, "height": 800}))
        opened[-1].set_default_timeout(60_000)
        return opened[-1].new_page()

    yield open_
    for context in opened:
        context.close()


def pages(site: Path) -> dict[str, str]:
    found = (path for path in site.rglob("*.html") if path.name != "404.html")
    return {p.relative_to(site).as_posix(): p.read_text(encoding="utf-8") for p in found}


def test_nothing_is_loaded_from_elsewhere(site):
    loaded = re.compile(r"<(?:script|img|iframe|source)[^>]*src=[\"']?(https?:|//)")
    styled = re.compile(
        r"<link[^>]*rel=[\"']?(?:stylesheet|preconnect|icon)[^>]*href=[\"']?https?:"
    )
    for name, html in pages(site).items():
        assert not loaded.search(html), name
        assert not styled.search(html), name
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:|//)", style.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ANSWERS)
def test_a_reader_finds_the_answer_from_the_first_page(site, page):
    first = (site / "index.html").read_text(encoding="utf-8")
    body = first[first.index("<article") : first.index("</article>")]
    assert f'href="{page}' in body
    words = re.sub(r"<[^>]+>", "", (site / page).read_text(encoding="utf-8"))
    assert ANSWERS[page] in " ".join(words.split())


def test_the_reference_has_every_public_name(site):
    import fedsift  # noqa: PLC0415 - the site is built without it

    shown = "".join(html for name, html in pages(site).items() if name.startswith("reference/"))
    assert [n for n in fedsift.__all__ if f'id="fedsift.{n}"' not in shown] == []
    settings = (site / "reference/settings.html").read_text(encoding="utf-8")
    assert 'id="fedsift.FitSettings.local_steps"' in settings


def test_the_reference_has_every_command_and_key(site):
    from fedsift.cli.main import COMMANDS  # noqa: PLC0415
    from fedsift.experiment.config import all_keys  # noqa: PLC0415

    commands = (site / "reference/cli.html").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"usage: fedsift {name}" not in commands] == []
    keys = (site / "reference/keys.html").read_text(encoding="utf-8")
    assert [name for name in all_keys() if f"<code>{name}</code>" not in keys] == []


def test_a_line_of_the_paper_leads_to_its_code(site):
    html = (site / "paper.html").read_text(encoding="utf-8")
    path, line = re.search(r'href="(source/[^"]*sgd\.py\.html)#(__span-0-\d+)"', html).groups()
    code = (site / path).read_text(encoding="utf-8")
    start = code.index(f'id="{line}"')
    assert "local_sgd" in re.sub(r"<[^>]+>", "", code[start : start + 600])


def test_badges_follow_from_the_project(site):
    script = runpy.run_path(str(ROOT / "docs" / "dev" / "make_badges.py"))
    for name, text in script["badges"]().items():
        assert (site / "images" / name).read_text(encoding="utf-8") == text


def test_pages_fit_a_phone_and_a_desk(site, open_browser):
    names = ("index.html", "guide/index.html", "paper.html", "reference/python.html")
    asked: list[str] = []
    for width in (375, 1280):
        page = open_browser(width)
        page.on("request", lambda request: asked.append(request.url))
        for name in names:
            page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []


def test_search_works_from_disk(site, open_browser):
    page = open_browser(1280)
    page.goto((site / "index.html").as_uri())
    page.click("input[name=query]")
    page.keyboard.type("clean samples")
    page.wait_for_selector(".md-search-result__link", timeout=20_000)
    found = page.locator(".md-search-result__link").evaluate_all("all => all.map(a => a.href)")
    assert any("clean-samples.html" in link for link in found)
