"""``fedsift status``: a line per site and per run."""

from types import SimpleNamespace

import pytest

from fedsift.cli.main import main
from fedsift.flower.status import runs, sites


def _node(name, status="online", **more):
    times = {"last_activated_at": "2026-01-31T10:00:00.5+00:00", "online_until": 30.0}
    return SimpleNamespace(name=name, status=status, heartbeat_interval=15.0, **times, **more)


def test_a_line_per_site_says_since_when():
    found = list(sites([_node("b", "offline"), _node("a"), _node("gone", "unregistered")]))
    assert found == [
        "a                connected since 2026-01-31T10:00:00, last heard of 1970-01-01 00:00:00",
        "b                away",
    ]


@pytest.mark.parametrize(("text", "number"), [('{"round": 7}\n', 7), ('{"round": 1}\n{"ro', 2)])
def test_a_line_per_run_says_how_far_it_is(tmp_path, text, number):
    folder = tmp_path / "runs" / "digits-1"
    folder.mkdir(parents=True)
    (folder / "rounds.jsonl").write_text(text)
    (line,) = runs(tmp_path)
    assert f"digits-1                 unfinished, round {number}, last answer" in line
    (folder / "summary.json").write_text("{}")
    (line,) = runs(tmp_path)
    assert "finished, round" in line


def test_a_server_that_is_absent_is_a_sentence(capsys):
    assert main(["status", "--server", "127.0.0.1:1", "--insecure"]) == 2
    assert "127.0.0.1:1 does not answer" in capsys.readouterr().err
