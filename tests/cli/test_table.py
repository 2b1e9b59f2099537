"""Summaries side by side."""

import pytest

from fedsift.cli.table import print_table

LEARNED = {
    "method": "iter-sketch",
    "test_accuracy": 0.91234,
    "best_test_accuracy": 0.95,
    "f1": 0.5,
    "precision": 0.25,
    "recall": 1.0,
    "auc": 0.75,
    "bytes_up": 1_250_000,
    "bytes_down": 20_000_000,
    "exchanges": 1234,
    "seconds": 9.6,
}
PLAIN = {**LEARNED, "method": "fedavg", **dict.fromkeys(("f1", "precision", "recall", "auc"))}


def cells(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip(" ─")]


@pytest.mark.parametrize("columns", ["50", "80", "200"])
def test_nothing_is_cut_off(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    print_table([PLAIN, LEARNED, {**LEARNED, "method": "oracle"}])
    out = capsys.readouterr().out
    assert cells(out)[0] == ["fedavg", "iter-sketch", "oracle"]
    assert "…" not in out
    assert max(map(len, out.splitlines())) <= int(columns)


def test_figures_by_hand(capsys):
    print_table([PLAIN, LEARNED])
    rows = {" ".join(row[:-2]): row[-2:] for row in cells(capsys.readouterr().out)[1:]}
    assert rows == {
        "test accuracy": ["0.912", "0.912"],
        "best of all rounds": ["0.950", "0.950"],
        "wrong labels: F1": ["–", "0.500"],
        "precision": ["–", "0.250"],
        "recall": ["–", "1.000"],
        "AUC": ["–", "0.750"],
        "MB up": ["1.2", "1.2"],
        "MB down": ["20.0", "20.0"],
        "exchanges": ["1234", "1234"],
        "seconds": ["10", "10"],
    }


def test_rows_that_no_run_has_are_left_out(capsys):
    print_table([PLAIN])
    out = capsys.readouterr().out
    assert "F1" not in out
    assert "AUC" not in out


def test_a_chosen_method_says_who_chose_it(capsys):
    print_table([PLAIN, {**LEARNED, "chosen": {"by": "auto", "why": "so"}}])
    first, second = cells(capsys.readouterr().out)[:2]
    assert (first, second) == (["auto:"], ["fedavg", "iter-sketch"])
