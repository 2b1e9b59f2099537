"""Every snippet of the documents: run where it can be, else its commands are parsed.

Commands of the guide are run with few rounds, on files of the names that they have, unless NOT_RUN
or ELSEWHERE says why not. Those of other pages make figures and take minutes to hours: their
options, modules, files and targets are checked. All Python is run.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedsift.cli.main import main, parser
from own_files import write_table

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
)
GUIDE = [page for page in PAGES if page == "README.md" or page.startswith("docs/guide/")]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", flags=re.M | re.S)
INDENTED = re.compile(r"(?:^    .*\n)+", flags=re.M)
PROGRAMS = ("fedsift", "python", "make", "pip")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NOT_RUN = {  # in the guide: a word that a command has, and why it is only parsed
    "demo": "takes a minute; tests/cli/test_demo.py runs it with few rounds",
    "review": "serves until it is stopped; tests/audit/review runs it",
    "join": "needs a server; tests/flower runs it",
    "server": "serves until it is stopped; tests/flower runs it",
    "submit": "needs a server; tests/flower runs it",
    "keys": "tests/flower/test_keys.py runs it",
    "site": "tests/flower and tests/site run it",
    "reproduce": "takes hours; tests/cli/test_reproduce.py runs it on small data",
    "secure_sum=true": "tests/federation/test_secure_sum.py runs it",
    "mnist": "needs data that are not part of fedsift",
}
ELSEWHERE = {
    "docs/guide/own-data.md": "tests/test_own_data_guide.py runs it on files of these names",
    "docs/guide/audit.md": "its commands make the figures of its tables; tests/cli/test_audit.py",
    "docs/guide/review.md": "tests/audit/review and tests/cli/test_review.py run these",
    "docs/guide/deploy.md": "tests/flower runs a deployment by these commands",
}
QUICK = ("--set", "rounds=2")


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def fenced(page: str, *languages: str) -> list[str]:
    return [code for language, code in FENCE.findall(text(page)) if language in languages]


def commands(page: str) -> list[list[str]]:
    """Return the commands of a page, fenced or indented, without what a shell adds to them."""
    blocks = fenced(page, "sh", "console", "bash")
    blocks += INDENTED.findall(FENCE.sub("", text(page)))
    found = []
    joined = re.sub(r"\$\([^)]*\)|\$\w+", "x", "".join(blocks).replace("\\\n", " "))
    for line in joined.splitlines():
        for part in re.split(r"&&|;|\||>", line.partition(" #")[0]):
            words = part.split()
            words = words[1:] if words[:1] == ["do"] else words
            name = words[0].rpartition("/")[2] if words else ""
            if name in PROGRAMS:
                typed = shlex.split(part)
                found.append([name, *typed[len(typed) - len(words) + 1 :]])
    return found


def check_fedsift(words: list[str]) -> None:
    if "..." not in words:
        parser().parse_args(words)


def check_python(words: list[str]) -> None:
    if words[:1] == ["-m"]:
        assert (
            find_spec(words[1]) or (ROOT / words[1].replace(".", "/")).with_suffix(".py").exists()
        )
    elif words and words[0].endswith(".py"):
        assert (ROOT / words[0]).exists(), words


def check_make(words: list[str]) -> None:
    targets = re.findall(r"^([\w-]+):", text("Makefile"), flags=re.M)
    assert set(words) <= set(targets)


def check_pip(words: list[str]) -> None:
    for word in words:
        for extra in re.findall(r"(?:fedsift|\.)\[([\w,]+)\]", word):
            assert set(extra.split(",")) <= set(EXTRAS["optional-dependencies"])


CHECKS = {
    "fedsift": check_fedsift,
    "python": check_python,
    "make": check_make,
    "pip": check_pip,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_are_understood(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, *words in commands(page):
        try:
            CHECKS[name](words)
        except SystemExit as ended:  # an option that prints and ends, such as --help, ends with 0
            if ended.code == 0:
                continue
            pytest.fail(f"{page}: {name} {' '.join(words)}")


def test_commands_are_found():
    assert sum(len(commands(page)) for page in PAGES) > 60
    assert ["fedsift", "audit", "runs/own"] in commands("README.md")
    assert ["make", "bench"] in commands("docs/benchmarks.md")


@pytest.mark.parametrize("words", ["run --no-such-option", "adit runs/x", "run --set"])
def test_a_wrong_command_is_noticed(words):
    with pytest.raises(SystemExit):
        check_fedsift(words.split())


@pytest.mark.parametrize("page", [page for page in GUIDE if page not in ELSEWHERE])
def test_the_commands_of_the_guide_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path)
    for name, *words in commands(page):
        if name != "fedsift" or any(reason in words for reason in NOT_RUN) or "..." in words:
            continue
        quick = QUICK if words[0] == "run" and "--keys" not in words else ()
        if "--resume" in words or any(word.startswith("rounds=") for word in words):
            quick = ("--set", "rounds=3")
        typed = [str(p) for w in words for p in (sorted(Path().glob(w)) if "*" in w else [w])]
        assert main([*typed, *quick]) == 0, (page, words, capsys.readouterr().err)


@pytest.mark.parametrize("page", [p for p in PAGES if fenced(p, "python") and p not in ELSEWHERE])
def test_the_python_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in fenced(page, "python", "py"):
        exec(re.sub(r"rounds=\d+", "rounds=2", code), names)


NUMBER = re.compile(r"\d+\.\d+|\d+(?= of)|(?<=of )\d+")
ROW = re.compile(r"\d +(\w+) +(P\d+) +(\w+) +(\w+)")


def test_the_readme_example_gives_what_it_shows(tmp_path, monkeypatch, capsys):
    """Figures differ in rounding between machines, so they are compared within bounds."""
    monkeypatch.chdir(tmp_path)
    (code,), (shown,) = fenced("README.md", "python"), fenced("README.md", "text")
    names: dict[str, object] = {}
    exec(code, names)
    printed = capsys.readouterr().out
    skeletons = [" ".join(ROW.sub("ROW", NUMBER.sub("N", out)).split()) for out in (printed, shown)]
    assert skeletons[0] == skeletons[1]
    for mine, theirs in zip(NUMBER.findall(printed), NUMBER.findall(shown), strict=True):
        assert float(mine) == pytest.approx(float(theirs), rel=0.05, abs=0.03)
    issues = names["result"].label_issues().set_index("id")
    for site, id_, given, predicted in ROW.findall(shown):
        row = issues.loc[id_]
        assert row["is_label_issue"]
        assert (row["site"], row["given_label"], row["predicted_label"]) == (site, given, predicted)
    flagged = issues.index[issues["is_label_issue"]].str[1:].astype(int)
    wrong = names["labels"] != names["truth"]
    said = re.search(
        r"(\d+) of the (\d+) flagged labels are in fact wrong, of (\d+)", text("README.md")
    )
    found = wrong[flagged].sum(), len(flagged), wrong[names["rest"]].sum()
    assert found == pytest.approx(tuple(map(int, said.groups())), abs=3)


def test_no_reason_is_left_over():
    guide = {word for page in GUIDE for command in commands(page) for word in command[1:]}
    assert [reason for reason in NOT_RUN if reason not in guide] == []
    assert set(ELSEWHERE) <= set(PAGES)
