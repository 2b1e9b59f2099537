"""People at the review page: real Chromium, by keys alone and by touch alone."""

from __future__ import annotations

import json
from urllib.parse import urlparse

import pandas as pd
import pytest

from audit.review.conftest import CLASSES, DESK, PHONE, WRONG, many, served, site_of
from fedsift.audit.review import ReviewSamples
from fedsift.audit.review.app import Start

pytestmark = pytest.mark.timeout(180)
CASES = [("table", 2), ("image", 10), ("text", 2), ("image", 62), ("table", 62), ("text", 10)]


def text(page, selector):
    return page.inner_text(selector)


def settled(page, act):
    """Do something that decides; it is done when the page has drawn the server's answer."""
    with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
        act()
    seen = answered.value.json()["sequence"]
    page.wait_for_selector(f"body[data-sequence='{seen}']", state="attached")
    page.wait_for_timeout(50)


def press(page, key, *, saved=True):
    """Press a key."""
    if not saved:
        return page.keyboard.press(key)
    return settled(page, lambda: page.keyboard.press(key))


def tap(page, selector, *, saved=True):
    if not saved:
        return page.tap(selector)
    return settled(page, lambda: page.tap(selector))


def stored(folder):
    """Return what is on disk: (index, action, label) of every line."""
    lines = (folder / "decisions.jsonl").read_text().splitlines()
    return [(e["index"], e["action"], e["label"]) for e in map(json.loads, lines)]


def in_view(page, selector):
    return page.evaluate(
        """s => [...document.querySelectorAll(s)].filter(e => e.checkVisibility()).every(e => {
        const b = e.getBoundingClientRect(), w = document.documentElement.clientWidth;
        return b.width > 0 && b.top >= 0 && b.left >= 0 && b.bottom <= innerHeight && b.right <= w
          && e.contains(document.elementFromPoint((b.left + b.right) / 2, (b.top + b.bottom) / 2))
        })""",
        selector,
    )


@pytest.mark.parametrize(("kind", "classes"), CASES)
@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_by_keys_alone(tmp_path, open_page, kind, classes, size):
    audit = site_of(kind, classes)
    order = audit.table["index"].tolist()
    number = {name: n for n, name in enumerate(CLASSES[classes])}
    given = [number[str(name)] for name in audit.table["given_label"]]
    names = CLASSES[classes]
    with served(ReviewSamples.of(audit), tmp_path) as place:
        page = open_page(place, size)
        assert text(page, "#name") == f"P{order[0]:04d}"
        assert text(page, "#given") == names[given[0]]
        press(page, "k")
        press(page, "a")
        press(page, "c", saved=False)  # the picker: nothing is stored before Enter
        page.keyboard.type(names[-1])
        page.keyboard.press("Escape")
        press(page, "c", saved=False)
        page.keyboard.press("Enter")  # nothing was chosen
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("Escape")
        assert len(stored(tmp_path)) == 2
        assert text(page, "#position").startswith("3 of")
        press(page, "c", saved=False)
        page.keyboard.type(names[-1])
        press(page, "Enter")
        press(page, "x")
        press(page, "s")
        press(page, "s")
        press(page, "u")
        press(page, "n", saved=False)
        page.keyboard.type("k: no decision")
        press(page, "Control+Enter")
        found = [(index, action) for index, action, _ in stored(tmp_path)]
        actions = ["keep", "accept", None, "unusable", "skip", "skip", "none", "none"]
        assert [index for index, _ in found[:6]] == order[:6]
        assert all(said in {action, None} for (_, action), said in zip(found, actions, strict=True))
        assert stored(tmp_path)[2][2] == classes - 1
        assert text(page, "#progress-text") == f"4 of {WRONG} suspicious labels decided, 1 skipped"
        assert not page.faults


@pytest.mark.parametrize(("kind", "classes"), CASES)
def test_by_touch_on_a_phone(tmp_path, open_page, kind, classes):
    audit = site_of(kind, classes)
    with served(ReviewSamples.of(audit), tmp_path) as place:
        page = open_page(place, PHONE, touch=True)
        page.wait_for_selector("#sample > *")
        for _ in range(2):  # the actions are in view whatever the sample is and wherever one reads
            assert in_view(page, "#bar button")
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert page.evaluate("document.documentElement.scrollWidth") == PHONE[0]
        tap(page, "[data-action=accept]")
        tap(page, "#choose", saved=False)
        tap(page, "#picker-close", saved=False)
        tap(page, "#choose", saved=False)
        tap(page, f"#picker-list li:has-text('{CLASSES[classes][1]}') >> nth=0")
        tap(page, "[data-action=unusable]")
        tap(page, "#undo")
        tap(page, "#view-grid", saved=False)
        tap(page, ".card >> nth=4", saved=False)
        tap(page, ".card >> nth=5", saved=False)
        assert in_view(page, "#bar button")
        tap(page, "[data-action=skip]", saved=False)
        tap(page, "#confirm-no", saved=False)
        assert len(stored(tmp_path)) == 4
        tap(page, "[data-action=skip]", saved=False)
        tap(page, "#confirm-yes")
        actions = [action for _, action, _ in stored(tmp_path)]
        assert (actions[0], actions[2:]) == ("accept", ["unusable", "none", "skip", "skip"])
        assert stored(tmp_path)[1][2] == 1
        assert not page.faults


def test_a_picker_of_62_classes_stores_what_was_meant(tmp_path, open_page):
    """`C` and `k` once stored the capital, `C` and the arrow class 0."""
    with served(ReviewSamples.of(site_of("image", 62)), tmp_path) as place:
        page = open_page(place, DESK)
        for typed, index in (("k", 46), ("K", 20), ("7", 7)):
            press(page, "c", saved=False)
            page.keyboard.type(typed)
            press(page, "Enter")
            assert stored(tmp_path)[-1][2] == index
        press(page, "c", saved=False)
        listed = page.eval_on_selector_all("#picker-list li", "all => all.map(e => e.innerText)")
        assert "suggestion" in listed[0]  # probable ones first, then recent ones, then all
        recent = [line.split()[0] for line in listed if "recent" in line]
        assert set(recent) == {"k", "K", "7"}
        assert len(listed) == 62
        page.keyboard.press("Escape")
        press(page, "5", saved=False)  # there is no key for one of 62 classes
        assert len(stored(tmp_path)) == 3


def test_digits_choose_one_of_ten_classes(tmp_path, open_page):
    with served(ReviewSamples.of(site_of("image", 10)), tmp_path) as place:
        page = open_page(place, DESK)
        press(page, "7")
        assert stored(tmp_path) == [(0, "relabel", 7)]


def test_decide_undo_reopen_and_export(images, tmp_path, open_page):
    samples = ReviewSamples.of(images)
    order = images.table["index"].tolist()
    with served(samples, tmp_path) as place:
        page = open_page(place)
        assert "token" not in page.url
        assert text(page, "#shown") == "4 of 8 samples"
        press(page, "n", saved=False)
        page.keyboard.type("sure")
        page.keyboard.press("Escape")
        press(page, "a")  # the comment goes with the decision
        press(page, "k")
        press(page, "1")
        press(page, "x")
        press(page, "u")
        assert text(page, "#progress-text") == "3 of 4 suspicious labels decided"
        assert not page.faults
        page.close()
    with served(samples, tmp_path, Start("ben")) as place:  # closed and opened again
        page = open_page(place)
        assert text(page, "#progress-text") == "3 of 4 suspicious labels decided"
        assert text(page, "#position").startswith("4 of 4")  # the first undecided
        page.click("#export-open")
        with page.expect_response("**/api/export"):
            page.click("[data-form=parquet]")
        page.locator("#exported", has_text="2 labels changed").wait_for()
        page.keyboard.press("Escape")
        page.select_option("#filter-decision", "comment")
        assert text(page, "#shown") == "1 of 8 samples"
        assert "ana" in text(page, "#state")
        assert page.input_value("#comment") == "sure"
    table = pd.read_parquet(tmp_path / "corrected.parquet").set_index("index")
    suggested = images.table.set_index("index")["predicted_label"]
    assert table["decision"][order[:4]].tolist() == ["accept", "keep", "relabel", ""]
    assert table["label"][order[0]] == suggested[order[0]]
    assert table["label"][order[2]] == images.class_names[1]
    assert table["comment"][order[0]] == "sure"


def test_search_sort_and_filters(site, open_page):
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
    press(page, "s")
    for decision, count in (("none", 6), ("keep", 1), ("skip", 1), ("decided", 1), ("", 8)):
        page.select_option("#filter-decision", decision)
        assert text(page, "#shown") == f"{count} of 8 samples"
    page.select_option("#sort", "index")
    page.keyboard.press("Escape")
    press(page, "g", saved=False)
    page.wait_for_selector(".card")
    order = page.eval_on_selector_all(".card", "all => all.map(c => Number(c.dataset.index))")
    assert order == list(range(8))
    press(page, "/", saved=False)
    page.keyboard.type("alert(7)")
    assert text(page, "#shown") == "1 of 8 samples"
    assert not page.faults


def test_two_tabs_do_not_overwrite_each_other(site, open_page):
    one, two = open_page(site), open_page(site)
    for page in (one, two):
        page.evaluate("BroadcastChannel.prototype.postMessage = () => {}")
    press(one, "a")
    first = stored(site.folder)
    press(two, "x")  # still shows the sample as undecided
    two.locator("#toast", has_text="another tab").wait_for()
    assert text(two, "#state").startswith("now ")
    assert stored(site.folder) == first
    press(two, "x")  # now that it was seen, it may be changed
    assert text(two, "#progress-text") == "1 of 4 suspicious labels decided"


def test_tabs_are_synchronised(site, open_page):
    one, two = open_page(site), open_page(site)
    press(one, "a")
    two.locator("#progress-text", has_text="1 of 4").wait_for()


def test_two_people_see_what_the_other_decided(site, open_page):
    ana, ben = open_page(site), open_page(site, person="ben")
    ben.click("#who")
    ben.fill("#naming-name", "ben")
    ben.keyboard.press("Enter")
    assert text(ben, "#who") == "as ben"
    press(ana, "a")
    press(ben, "ArrowRight", saved=False)
    press(ben, "x")  # another sample: both are kept, and each hears of the other's
    assert text(ben, "#progress-text") == "2 of 4 suspicious labels decided"
    press(ben, "ArrowLeft", saved=False)
    press(ben, "ArrowLeft", saved=False)
    assert "ana" in text(ben, "#state")
    press(ben, "u")
    assert text(ben, "#progress-text") == "1 of 4 suspicious labels decided"
    ben.keyboard.press("u")
    ben.locator("#toast", has_text="nothing of yours").wait_for()


def test_blind_mode_shows_nothing_before_a_choice(tmp_path, open_page):
    with served(ReviewSamples.of(site_of("table", 2)), tmp_path, Start("ana", blind=True)) as place:
        page = open_page(place, DESK)
        page.wait_for_selector("#sample td")
        shown = text(page, "main")
        assert "malignant" not in shown.replace("malignant 1", "")  # only the button for a class
        assert not page.is_visible("#given")
        assert page.locator("[data-action=accept]").is_hidden()
        press(page, "a", saved=False)
        press(page, "k", saved=False)
        press(page, "c", saved=False)
        assert "%" not in text(page, "#picker-list")
        assert stored(tmp_path) == []
        page.keyboard.type("benign")
        press(page, "Enter")
        assert text(page, "#given") == "malignant"  # now both are shown, and the page stays
        assert text(page, "#suggestion") == "benign"
        assert stored(tmp_path) == [(0, "accept", 0)]
        press(page, "ArrowRight", saved=False)
        assert not page.is_visible("#given")
        press(page, "g", saved=False)
        page.wait_for_selector(".card")
        assert "→" not in text(page, "#grid")


def test_select_and_decide_many(tmp_path, open_page):
    audit = site_of("image", 10)
    with served(ReviewSamples.of(audit), tmp_path) as place:
        page = open_page(place, DESK)
        press(page, "g", saved=False)
        page.wait_for_selector(".card:focus")
        press(page, "Space", saved=False)
        for _ in range(3):
            press(page, "ArrowRight", saved=False)
        press(page, "Shift+Space", saved=False)
        assert text(page, "#picked") == "4 selected"
        press(page, "a", saved=False)
        assert text(page, "#confirm-text") == "Accept the suggestions for 4 samples?"
        page.keyboard.press("Escape")
        assert stored(tmp_path) == []
        press(page, "a", saved=False)
        press(page, "Enter")
        assert [action for _, action, _ in stored(tmp_path)] == ["accept"] * 4
        assert text(page, "#picked") == ""
        press(page, "u")  # together, as they were decided
        assert text(page, "#progress-text") == f"0 of {WRONG} suspicious labels decided"
        press(page, "Control+a", saved=False)
        assert text(page, "#picked") == f"{WRONG} selected"
        press(page, "c", saved=False)
        page.keyboard.type("9")
        page.keyboard.press("Enter")
        press(page, "Enter")
        assert [label for _, _, label in stored(tmp_path)[-WRONG:]] == [9] * WRONG


def test_zoom_and_window(tmp_path, open_page):
    with served(ReviewSamples.of(site_of("scan", 2)), tmp_path) as place:
        page = open_page(place, DESK)
        page.locator(".tools", has_text="512 × 512").wait_for()
        natural = page.evaluate("document.querySelector('.stage img').naturalWidth")
        assert natural == 512
        press(page, "+", saved=False)
        press(page, "+", saved=False)
        width = page.evaluate("document.querySelector('.stage img').getBoundingClientRect().width")
        assert width == 2 * 512
        page.click(".window summary")
        page.locator(".window input >> nth=1").fill("100")
        page.wait_for_selector(".stage canvas")
        pixels = page.evaluate(
            """() => { const c = document.querySelector('.stage canvas');
            const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const grey = d.filter((_, n) => n % 4 === 0);
            return [c.width, grey.reduce((a, b) => Math.min(a, b)), new Set(grey).size]; }"""
        )
        own = place and site_of("scan", 2).content.own_pixels(0).astype(float)
        low, span = own.min(), own.max() - own.min()
        level, wide = low + span * 0.5, span * 0.1
        shown = (255 * (own - level + wide / 2) / wide).round().clip(0, 255)
        assert pixels[:2] == [512, shown.min()]
        assert abs(pixels[2] - len(set(shown.ravel()))) <= 2
        assert not page.faults


def test_markup_in_names_is_shown_as_text(site, images, open_page):
    page = open_page(site)
    worst = images.table.iloc[0]
    assert worst["id"] in text(page, "#name")
    assert page.locator("main b").count() == 0
    assert page.locator("option b").count() == 0
    assert page.locator("#sample img").count() == 1  # the sample alone
    press(page, "c", saved=False)
    assert "<b>dog</b>" in text(page, "#picker-list")
    page.keyboard.press("Escape")
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
    assert text(page, "#position").startswith("3 of 4")


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_every_control_has_a_name_and_shows_its_focus(site, open_page, size):
    page = open_page(site, size)
    page.evaluate("document.getElementById('filters').open = true")
    names = []
    for _ in range(60):
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
    wanted = {"export-open", "search", "sort", "filter-decision", "filter-label", "filter-high"}
    assert wanted | {"blind", "comment", "undo", "choose", "who"} <= {n[0] for n in names}
    assert all(name for _, name, _ in names), names
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
    !e.closest(':disabled') &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.tagName + '#' + e.id + ' ' + e.innerText]; }) }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrast_meets_aa(site, open_page, scheme):
    page = open_page(site)
    page.emulate_media(color_scheme=scheme)
    for action in ("keep", "accept", "relabel", "unusable", "skip"):
        page.evaluate(
            "a => { const s = document.getElementById('state');"
            " s.dataset.state = a; s.textContent = a; }",
            action,
        )
        measured = page.evaluate(CONTRAST)
        assert len(measured) > 20
        assert min(measured)[0] >= 4.5, min(measured)
    page.keyboard.press("c")
    page.keyboard.type("e")
    assert min(page.evaluate(CONTRAST))[0] >= 4.5
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("Control+a")
    assert min(page.evaluate(CONTRAST))[0] >= 4.5


def test_ten_thousand_samples_are_drawn_as_one_scrolls(tmp_path, open_page):
    with served(many(10_000), tmp_path) as place:
        page = open_page(place)
        press(page, "g", saved=False)
        page.wait_for_selector(".card img")
        page.wait_for_timeout(500)
        first = page.locator(".card").count()
        asked = sum("/image/" in url for url in page.requested)
        assert 0 < asked <= first + 10 < 1000
        page.mouse.wheel(0, 100_000)
        page.locator(".card").nth(first).wait_for(state="attached")
        assert page.locator(".card").count() < 3000
        hosts = {urlparse(url).hostname for url in page.requested}
        assert hosts == {"127.0.0.1"}
        press(page, "Control+a", saved=False)
        press(page, "k", saved=False)
        press(page, "Enter")  # one request for all of them
        page.locator("#progress-text", has_text="9000 of 9000").wait_for()
        assert not page.faults
