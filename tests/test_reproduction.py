"""The tables of docs/reproduction*.md and docs/theorems.md follow from the files in results/."""

import re
import runpy
from pathlib import Path

from fedsift.experiment.paper_grid import Choice, plan

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "dev" / "make_reproduction.py"))
TEXT = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in SCRIPT["PAGES"])
ELSEWHERE = {"0.571", "0.690"}  # F1 of suspecting every label: 2ρ / (1 + ρ)


def test_tables_follow_from_the_files():
    assert SCRIPT["fill"](TEXT) == TEXT
    assert TEXT.count("<!-- reproduction: ") == len(SCRIPT["TABLES"])


def test_a_changed_number_is_noticed():
    start = TEXT.index("<!-- reproduction: steps -->")
    changed = TEXT[:start] + TEXT[start:].replace("| 0.", "| 1.", 1)
    assert changed != TEXT
    assert SCRIPT["fill"](changed) == TEXT


def test_the_text_names_no_figure_that_the_tables_lack():
    lines = TEXT.splitlines()
    in_tables = set(re.findall(r"0\.\d{3}", "\n".join(x for x in lines if x.startswith("| "))))
    text = "\n".join(line for line in lines if not line.startswith("| "))
    assert set(re.findall(r"0\.\d{3}", text)) - ELSEWHERE <= in_tables


def test_the_page_shows_the_scales_as_they_are():
    columns = [("quick", "digits"), ("quick", "mnist")]
    columns += [("paper", name) for name in ("mnist", "cifar10", "femnist")]
    shown: dict[str, str] = {}
    for line in TEXT[TEXT.index("## The scales") :].splitlines():
        shown.setdefault(line.split(" | ")[0].strip("| "), line)  # the first table is the scales'
    for place, (scale, dataset) in enumerate(columns, start=1):
        jobs = plan("fig1", scale, Choice(datasets=[dataset]))
        c = jobs[0].config.resolve()
        values = {
            "clients × samples": f"{c.clients} × {c.samples_per_client}",
            "validation": str(c.validation_size),
            "rounds": str(c.rounds),
            "γ, batch": f"{c.value('inner_lr')}, {c.value('batch_size')}",
            "seeds": ", ".join(str(s) for s in sorted({job.config.seed for job in jobs})),
        }
        for title, value in values.items():
            assert shown[title].split(" | ")[place].removesuffix(" (fewer)") == value
