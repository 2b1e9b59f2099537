"""A person at the review page: real Chromium, keys only unless said otherwise."""

from __future__ import annotations

from urllib.parse import urlparse

import pandas as pd
import pytest

from audit.review.conftest import many, served
from fedsift.audit.review import ReviewSamples

pytestmark = pytest.mark.timeout(180)


def text(page, selector):
    return page.inner_text(selector)


def press(page, key, *, saved=True):
    """Press a key; a decision is done when the server has answered."""
    if not saved:
        return page.keyboard.press(key)
    with page.expect_response(lambda answer: "/api/" in answer.url):
        page.keyboard.press(key)
    page.wait_for_timeout(50)
    return None


def test_decide_undo_reopen_and_export(images, tmp_path, open_page):
    samples = ReviewSamples.of(images)
    order = images.table["index"].tolist()
    with served(samples, tmp_path) as place:
        page = open_page(place)
        assert "token" not in page.url
        assert text(page, "#shown") == "4 of 8 samples"
        press(page, "a")
        press(page, "k")
        press(page, "1")
        press(page, "x")
        press(page, "u")
        assert text(page, "#progress-text") == "3 of 4 suspicious labels decided"
        assert not page.faults
        page.close()
    with served(samples, tmp_path) as place:  # closed and opened again
        page = open_page(place)
        assert text(page, "#progress-text") == "3 of 4 suspicious labels decided"
        assert text(page, "#position") == "4 of 4"  # the first undecided
        with page.expect_response("**/api/export"):
            page.click("#export")
        page.wait_for_selector("#toast.on")
        assert "2 labels changed" in text(page, "#toast")
    table = pd.read_parquet(tmp_path / "corrected.parquet").set_index("index")
    suggested = images.table.set_index("index")["predicted_label"]
    assert table["decision"][order[:4]].tolist() == ["accept", "keep", "relabel", "none"]
    assert table["label"][order[0]] == suggested[order[0]]
    assert table["class"][order[2]] == 1


def test_filters(site, open_page):
    page = open_page(site)
    page.select_option("#filter-label", "0")
    assert text(page, "#shown") == "2 of 8 samples"
    page.select_option("#filter-label", "")
    page.fill("#filter-high", "1")
    assert text(page, "#shown") == "8 of 8 samples"
    page.fill("#filter-low", "0.5")
    assert text(page, "#shown") == "4 of 8 samples"
    page.fill("#filter-low", "0")
    page.keyboard.press("Escape")
    press(page, "k")
    page.check("#filter-undecided")
    assert text(page, "#shown") == "7 of 8 samples"


def test_two_tabs_do_not_overwrite_each_other(site, open_page):
    one, two = open_page(site), open_page(site)
    two.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
    one.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
    press(one, "a")
    first = one.evaluate("fetch('/api/samples').then(r => r.json()).then(j => j.decisions)")
    press(two, "x")  # still shows the sample as undecided
    assert "another tab" in text(two, "#toast")
    assert text(two, "#state").startswith("now ")
    again = two.evaluate("fetch('/api/samples').then(r => r.json()).then(j => j.decisions)")
    assert again == first
    press(two, "x")  # now that it was seen, it may be changed
    assert text(two, "#progress-text") == "1 of 4 suspicious labels decided"


def test_tabs_are_synchronised(site, open_page):
    one, two = open_page(site), open_page(site)
    press(one, "a")
    two.locator("#progress-text", has_text="1 of 4").wait_for()


def test_markup_in_names_is_shown_as_text(site, images, open_page):
    page = open_page(site)
    worst = images.table.iloc[0]
    assert worst["id"] in text(page, "#name")
    assert page.locator("main b").count() == 0
    assert page.locator("option b").count() == 0
    assert page.locator("#main img").count() == 1  # the sample alone
    press(page, "g", saved=False)
    page.wait_for_selector(".card")
    assert "<b>dog</b>" in text(page, "#grid")
    assert not page.faults


def test_grid_by_keys(site, open_page):
    page = open_page(site)
    press(page, "g", saved=False)
    page.wait_for_selector(".card:focus")
    press(page, "ArrowRight", saved=False)
    press(page, "x")
    state = page.eval_on_selector_all(".card", "cards => cards.map(c => c.dataset.state)")
    assert state == ["none", "unusable", "none", "none"]
    assert page.evaluate("document.activeElement === document.querySelectorAll('.card')[2]")
    press(page, "Enter", saved=False)
    assert text(page, "#position") == "3 of 4"


def test_every_control_has_a_name_and_shows_its_focus(site, open_page):
    page = open_page(site)
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const e = document.activeElement;
            if (e === document.body) return null;
            const name = e.getAttribute('aria-label') || e.labels?.[0]?.innerText || e.innerText;
            return [e.id || name, name.trim(), getComputedStyle(e).outlineStyle] }"""
        )
        if found is None:
            break
        names.append(found)
    assert {"export", "filter-label", "filter-high", "undo", "choose"} <= {n[0] for n in names}
    assert all(name for _, name, _ in names)
    assert all(outline == "solid" for _, _, outline in names)


CONTRAST = """() => {
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (c) => { canvas.fillStyle = c; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3); };
  const light = (c) => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= 0.04045 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e)
    .backgroundColor; if (!c.endsWith(', 0)')) return c; } return 'white'; };
  return [...document.querySelectorAll('body *')].filter(e => e.checkVisibility() &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.tagName + '#' + e.id + ' ' + e.innerText]; }) }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrast_meets_aa(site, open_page, scheme):
    page = open_page(site)
    page.emulate_media(color_scheme=scheme)
    for action in ("keep", "accept", "relabel", "unusable"):
        page.evaluate(
            "a => { const s = document.getElementById('state');"
            " s.dataset.state = a; s.textContent = a; }",
            action,
        )
        measured = page.evaluate(CONTRAST)
        assert len(measured) > 20
        assert min(measured)[0] >= 4.5, min(measured)


def test_ten_thousand_samples_are_drawn_as_one_scrolls(tmp_path, open_page):
    with served(many(10_000), tmp_path) as place:
        page = open_page(place)
        press(page, "g", saved=False)
        page.wait_for_selector(".card img")
        page.wait_for_timeout(500)
        first = page.locator(".card").count()
        asked = sum("/image/" in url for url in page.requested)
        assert 0 < asked <= first < 1000
        page.mouse.wheel(0, 100_000)
        page.locator(".card").nth(first).wait_for(state="attached")
        assert page.locator(".card").count() < 3000
        hosts = {urlparse(url).hostname for url in page.requested}
        assert hosts == {"127.0.0.1"}
        assert not page.faults
