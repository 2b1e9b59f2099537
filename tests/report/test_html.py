from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser

import pytest

from fedsift.errors import InputError
from fedsift.report import write_report

VOID = {"meta", "link", "br", "hr", "img"}
LABELS = {"index": [0, 1], "label": [3, 4], "weight": [0.1, 0.9], "true_label": [5, 4]}
EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Keeps tags balanced, gathers ids, table rows, figures and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.labelled: list[str | None] = []
        self.rows: list[list[str]] = []
        self.titles: dict[str, str] = {}
        self.text = ""
        self._title: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags[tag] += 1
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "svg" and self.open[-1] == "figure":
            assert values["role"] == "img"
            self.labelled.append(values["aria-labelledby"])
        if tag == "title":
            self._title = values.get("id", "page")
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags[tag] += 1
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "title":
            self._title = None

    def handle_data(self, data):
        self.text += data
        if self._title is not None:
            self.titles[self._title] = data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data.strip()


@pytest.fixture
def demo(make_run):
    """Three runs with all that a run folder can hold."""
    columns = {
        "weights_f1": [0.5, 0.9],
        "validation_loss": [2.0, 1.0],
        "residual": [0.5, 0.1],
        "bytes_up": [1_000_000, 500_000],
        "bytes_down": [2_000_000, 2_000_000],
        "events": [[], ["The solver was reset."]],
    }
    totals = {"bytes_up": 1_500_000, "bytes_down": 4_000_000, "exchanges": 1234, "seconds": 61.26}
    found = {"f1": 0.9, "precision": 0.875, "recall": 0.926, "auc": 0.99, "noise_rate": 0.4}
    return [
        make_run("fedavg", 0.8, 0.741, best_test_accuracy=0.8),
        make_run(
            *("single-loop", 0.5, 0.982),
            **(totals | found),
            best_test_accuracy=0.982,
            hypergradient={"iterations": 1, "residual": 0.1, "rate": None},
            rounds=columns,
            weights=[LABELS],
        ),
        make_run("oracle", 0.7, 0.986, finished=False),
    ]


@pytest.fixture
def report(tmp_path):
    return lambda *folders: write_report(folders, tmp_path / "report.html").read_text("utf-8")


def test_the_table_has_the_numbers_of_each_run(demo, report):
    rows = Page(report(*demo)).rows

    clean, unknown = ["–"] * 2, ["–"] * 4
    assert rows[2:] == [
        ["fedavg", "digits", "0", "2", "74.1", "80.0", *clean, *unknown, *unknown],
        [
            *("single-loop", "digits", "0", "2", "98.2", "98.2", *clean),
            *("0.90", "0.88", "0.93", "0.99", "1.50", "4.00", "1,234", "61.3"),
        ],
        ["oracleunfinished", "digits", "0", "2", "98.6", "98.6", *clean, *unknown, *unknown],
    ]


def test_the_page_shows_the_verdict_the_events_the_configuration_and_the_versions(demo, report):
    text = Page(report(*demo)).text.replace("\N{NO-BREAK SPACE}", " ")

    assert "single-loop ends at 98.2 % test accuracy, 0.4 points below the oracle with 2" in text
    assert "40.0 % of the training labels are wrong" in text
    assert "round 2The solver was reset." in text
    assert text.count("rate20") == len(demo)
    assert text.count("torch2.13.0") == 1


def test_clean_samples_fitted_and_held_out_and_what_was_said_at_the_end(make_run, report):
    notice = "the model is right on 100% of the clean samples"
    known = {"validation_accuracy": 0.98, "judged_accuracy": 0.812, "notices": [notice]}
    page = Page(report(make_run("posterior", 0.5, **known)))
    assert page.rows[2][6:8] == ["98.0", "81.2"]
    assert f"at the end{notice}" in page.text


def test_the_page_says_why_a_method_was_chosen(make_run, report):
    why = {"chosen": {"by": "auto", "why": "a <b>head</b> is trained"}}
    runs = [make_run("out-of-fold", 0.5, seed=seed, **why) for seed in (0, 1)]
    page = Page(report(*runs, make_run("fedavg", 0.4)))
    assert page.text.count("auto chose out-of-fold: a <b>head</b> is trained.") == 1
    assert page.text.count(" chose ") == 1


def test_tags_are_balanced_and_ids_unique(demo, report):
    page = Page(report(*demo))

    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.tags["html"] == page.tags["body"] == page.tags["table"] == 1
    assert page.tags["details"] == len(demo)


def test_every_figure_has_a_title_for_those_who_cannot_see_it(demo, report):
    page = Page(report(*demo))

    assert page.tags["figure"] == 7
    spoken = [page.titles[label] for label in page.labelled]
    assert len(set(spoken)) == 7
    assert (
        spoken[0] == "Test accuracy. Last values: fedavg 74.1 %, single-loop 98.2 %, oracle 98.6 %."
    )


def test_references_inside_the_drawings_resolve(demo, report):
    html = report(*demo)

    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', html)
    assert used
    assert {one or other for one, other in used} <= set(Page(html).ids)


def test_text_from_files_is_escaped(make_run, report):
    folder = make_run(
        *("single-loop", 0.5, 0.6),
        name="run",
        dataset=EVIL,
        note=EVIL,
        rounds={"events": [[EVIL], []]},
        versions={EVIL: EVIL},
        hypergradient={EVIL: EVIL},
    )

    html = report(folder, make_run(EVIL, 0.5, 0.6, name="other"))

    assert Page(html).tags["script"] == 0
    assert html.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 8


def test_the_file_loads_nothing_from_elsewhere(demo, report):
    html = report(*demo)

    assert not re.findall(r"https?://|//[a-z]+\.|@import|<script|<iframe|<img", html)
    assert not re.findall(r'(?:src|href)="(?!#|data:,")', html)
    assert "url(" not in re.sub(r"url\(#", "", html)


def test_the_same_runs_in_any_order_give_the_same_bytes(demo, report):
    assert report(*demo) == report(*reversed(demo))


def test_a_folder_given_twice_counts_once(demo, report):
    assert report(*demo) == report(*demo, demo[0])


def test_seeds_share_a_line_style_and_have_a_row_each(make_run, report):
    html = report(*(make_run("focus", 0.5, 0.6, seed=seed) for seed in (10, 2)))

    page = Page(html)
    assert [row[2] for row in page.rows[2:]] == ["2", "10"]
    assert "focus, seed 10" in page.text
    assert html.count('<ul class="legend">\n<li>') == 1


def test_settings_have_a_part_each(make_run, report):
    html = report(make_run("fedavg", 0.5, 0.6), make_run("fedavg", 0.7, 0.8, dataset="mnist"))

    headings = re.findall(r"<h2>(.*?)</h2>", html)
    assert headings == ["Results", "digits", "mnist", "Configuration", "Versions"]


def test_a_run_without_rounds_is_reported(make_run, report):
    page = Page(report(make_run("fedavg", finished=False)))

    assert page.rows[2][:6] == ["fedavgunfinished", "digits", "0", "0", "–", "–"]
    assert page.tags["figure"] == 0
    assert "There is no test accuracy." in page.text


def test_other_versions_are_listed_apart(make_run, report):
    runs = make_run("fedavg", 0.5), make_run("oracle", 0.5, versions={"torch": "2.6.0"})

    words = Page(report(*runs)).text.partition("Versions")[2].split()

    assert words == ["fedavg", "fedsift0.1.0", "torch2.13.0", "oracle", "torch2.6.0"]


def test_the_report_replaces_the_old_one_and_leaves_nothing_beside_it(demo, tmp_path):
    out = tmp_path / "new" / "report.html"
    write_report(demo[:1], out)

    assert write_report(demo, str(out)) == out
    assert [path.name for path in out.parent.iterdir()] == ["report.html"]
    assert "single-loop" in out.read_text("utf-8")


def test_a_failed_report_leaves_the_old_one(demo, tmp_path):
    out = write_report(demo, tmp_path / "report.html")
    before = out.read_bytes()
    (demo[0] / "summary.json").write_text("{")

    with pytest.raises(InputError, match=r"summary\.json"):
        write_report(demo, out)
    assert out.read_bytes() == before


def test_there_must_be_a_run(tmp_path):
    with pytest.raises(InputError, match=r"give at least one run folder$"):
        write_report([], tmp_path / "report.html")


def test_the_report_cannot_replace_a_folder(demo, tmp_path):
    with pytest.raises(InputError, match=r"is a folder; give the name of an HTML file"):
        write_report(demo, tmp_path)


def test_a_place_that_cannot_be_written_is_named(demo):
    with pytest.raises(InputError, match=r"x\.html cannot be written \(.+\); "):
        write_report(demo, demo[0] / "config.toml" / "x.html")
