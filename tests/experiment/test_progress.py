"""The progress of a run: a bar on a terminal, plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from fedsift.experiment import progress as module
from fedsift.experiment.progress import progress


def record(k: int, **figures) -> dict:
    sent = {"bytes_up": 400_000, "bytes_down": 600_000, "events": []}
    return {"round": k, "train_loss": 1.5, **sent, **figures}


def test_plain_lines_now_and_then(capsys):
    with progress("fedavg", 20) as observe:
        for k in range(1, 21):
            observe(record(k))
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"fedavg {k}/20 loss 1.500  {k}.0 MB" for k in (4, 8, 12, 16, 20)]


def test_last_round_is_always_shown(capsys):
    with progress("fedavg", 7) as observe:
        for k in range(1, 8):
            observe(record(k))
    assert capsys.readouterr().err.count("\n") == 7


def test_figures_stay_until_there_are_new_ones(capsys):
    with progress("iter-topk", 2) as observe:
        observe(record(1, test_accuracy=0.75, weights_f1=0.5))
        observe(record(2, train_loss=123456.0, weights_f1=None))
    assert capsys.readouterr().err.splitlines()[1] == (
        "iter-topk 2/2 loss 1.2e+05  test 0.750  F1 of weights 0.500  2.0 MB"
    )


def test_event_is_shown_in_its_round(capsys):
    with progress("iter-topk", 50) as observe:
        observe(record(3, events=["the solver diverged"]))
    assert capsys.readouterr().err == "iter-topk round 3: the solver diverged\n"


@pytest.fixture
def terminal(monkeypatch):
    """Return a function that makes stderr a terminal of a width and returns what is shown."""

    def make(width: int) -> io.StringIO:
        shown = io.StringIO()
        console = Console(file=shown, force_terminal=True, color_system=None, width=width)
        monkeypatch.setattr(module, "console", console)
        return shown

    return make


@pytest.mark.parametrize("width", [60, 80, 120])
def test_bar_shows_method_round_and_figures_at_any_width(terminal, width):
    shown = terminal(width)
    with progress("iter-sketch", 9) as observe:
        for k in range(1, 10):
            observe(record(k, test_accuracy=0.75))
    last = shown.getvalue().rpartition("iter-sketch")[2]
    assert last.lstrip().startswith("9/9 ")
    assert "loss 1.500  test 0.750  9.0 MB" in last


def test_an_event_is_printed_above_the_bar_as_it_is(terminal):
    shown = terminal(80)
    with progress("iter-sketch", 9) as observe:
        observe(record(1, events=["client [3] did not reply"]))
    assert "round 1: client [3] did not reply" in shown.getvalue()


def test_no_bar_without_a_round(terminal):
    shown = terminal(80)
    with progress("iter-sketch", 9):
        pass
    assert "iter-sketch" not in shown.getvalue()
