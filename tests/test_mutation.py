"""The mutation run: faults of a line by hand, and which are reported as caught."""

from __future__ import annotations

import ast
from dataclasses import replace
from threading import Event

import pytest
from benchmarks.mutation.__main__ import Case, cases, judge, main, sample
from benchmarks.mutation.guarded import GUARDED, SHARES, Guarded, check
from benchmarks.mutation.mutants import Mutant, mutants
from benchmarks.mutation.trial import CAUGHT, SURVIVED, Workspace

from fedsift.errors import InputError

KEEP_RULE = next(row for row in GUARDED if row.module == "problem/sample_losses.py")


def changes(source: str, *only: str) -> set[tuple[str, str, str]]:
    return {(m.kind, m.before, m.after) for m in mutants(source, only)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a < b", {("compare", "a < b", "(a <= b)")}),
        ("a is b", {("compare", "a is b", "(a is not b)")}),
        ("a <= b < c", {("compare", "a <= b < c", s) for s in ("(a < b < c)", "(a <= b <= c)")}),
        ("a @ b", set()),
        ("a ** b", {("arithmetic", "a ** b", "(a * b)")}),
        ("f'{a + b}' + c", set()),
        ("x: int = 3", {("constant", "3", "(4)")}),
        ("x = 0.5", {("constant", "0.5", "(0.75)")}),
        ("x = 0.0", {("constant", "0.0", "(1.0)")}),
        ("x = True", {("constant", "True", "(False)")}),
        ("x = 'text'", set()),
        ("-a", {("sign", "-a", "(a)")}),
        ("not a", {("logic", "not a", "(a)")}),
        ("a and b", {("logic", "a and b", "(a or b)")}),
        ("if a: b", {("logic", "a", "(not (a))")}),
        ("if not a: b", {("logic", "not a", "(a)")}),
        ("x.amax(y)", {("extremum", "x.amax(y)", "(x.amin(y))")}),
        ("min(a)", {("extremum", "min(a)", "(max(a))")}),
        ("assert a < 3", set()),
        ("raise E(a < 3)", {("guard", "raise E(a < 3)", "pass")}),
        ("def f(self, a): return b", {("return", "return b", "return a")}),
        ("def f(self): return b", set()),
        ("@g(1)\ndef f(a: x < 2) -> x < 3: return a", set()),
    ],
)
def test_faults_of_a_line(source, expected):
    assert changes(source) == expected


def test_a_fault_changes_one_place_and_leaves_the_rest():
    (fault,) = mutants("é = 'ä'  # ü\nx = [\n    a <\n    b,\n]\n")
    assert fault == Mutant(
        "compare", 3, 4, "a < b", "(a <= b)", "é = 'ä'  # ü\nx = [\n    (a <= b),\n]\n"
    )


def test_only_named_functions_are_changed():
    source = "x = 1\ndef f(): return 2\nclass C:\n    def g(self): return 3\n"
    assert changes(source, "f") == {("constant", "2", "(3)")}
    assert changes(source, "C") == {("constant", "3", "(4)")}


def test_every_fault_of_the_table_can_be_compiled():
    check()
    for case in cases(GUARDED):
        ast.parse(case.mutant.source)


def test_a_row_without_its_file_is_refused():
    with pytest.raises(InputError, match=r"tests/absent\.py, which does not exist"):
        check((Guarded("wire", "compress/wire.py", ("absent.py",)),))


def test_a_sample_has_the_shares_of_the_groups():
    chosen = sample(cases(GUARDED), 50, seed=0)
    found = {group: sum(c.row.group == group for c in chosen) for group in SHARES}
    assert found == {"mathematics": 30, "wire": 10, "security": 10}
    assert chosen == sample(cases(GUARDED), 50, seed=0)
    assert chosen != sample(cases(GUARDED), 50, seed=1)


@pytest.mark.deep
def test_a_fault_that_matters_is_caught_and_one_that_does_not_survives():
    rule = next(c for c in cases((KEEP_RULE,)) if c.mutant.before == "losses <= threshold")
    truth = KEEP_RULE.source.read_text(encoding="utf-8")
    remark = replace(rule.mutant, source=truth + '\nREMARK = "no test can notice this"\n')
    outcomes = [v.outcome for _, v in judge([rule, Case(KEEP_RULE, remark, rule.digest)])]
    assert outcomes == [CAUGHT, SURVIVED]
    assert KEEP_RULE.source.read_text(encoding="utf-8") == truth


def test_a_fault_that_never_ends_is_caught(tmp_path):
    workspace = Workspace.make(tmp_path, Event())
    verdict = workspace.attempt(KEEP_RULE, "while True: pass\n", limit=3.0)
    assert (verdict.outcome, verdict.said) == (CAUGHT, "time is up")
    assert (tmp_path / "src/fedsift" / KEEP_RULE.module).read_bytes() == (
        KEEP_RULE.source.read_bytes()
    )


def test_a_stopped_run_ends_its_tests(tmp_path):
    stop = Event()
    stop.set()
    with pytest.raises(InputError, match="stopped"):
        Workspace.make(tmp_path, stop).attempt(KEEP_RULE, "while True: pass\n", limit=60.0)


@pytest.mark.deep
def test_ten_faults_most_are_caught_and_a_second_run_has_nothing_left(tmp_path, capsys):
    """With nine of ten caught in the long run, fewer than six here has a probability of 0.2 %."""
    asked = ["--count", "10", "--out", str(tmp_path / "mutation.json")]
    main(asked)
    first = capsys.readouterr().out.splitlines()
    main(asked)
    assert capsys.readouterr().out.splitlines() == first[-1:]
    assert 6 <= int(first[-1].split()[0]) <= 10
    assert len(first) == 11
