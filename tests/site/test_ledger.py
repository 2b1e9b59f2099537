"""What a site remembers, and what its owner sees and says."""

from dataclasses import replace

import pytest

from fedsift.cli.main import main
from fedsift.client.guard import Asked
from fedsift.client.policy import OPEN
from fedsift.errors import InputError, Refused
from fedsift.federation.encoding import decode_reply
from fedsift.site.host import Host
from fedsift.site.ledger import DAY, Ledger
from fedsift.site.question_log import QuestionLog


def test_what_was_asked_comes_back(tmp_path):
    asked = Asked(3, 1, 9, 2, {"count": ("ab",)})
    Ledger(tmp_path).keep("run", asked)
    assert Ledger(tmp_path).asked("run") == asked
    assert Ledger(tmp_path).asked("other") == Asked()


def test_runs_are_counted_by_the_day(tmp_path):
    now = [0.0]
    ledger = Ledger(tmp_path, lambda: now[0])
    for name in ("a", "b", "a"):
        ledger.begin(name, 2)
    with pytest.raises(Refused, match="2 runs within 24 hours"):
        ledger.begin("c", 2)
    now[0] = DAY + 1
    ledger.begin("c", 2)


def test_a_ledger_that_cannot_be_read_is_said(tmp_path):
    (tmp_path / "runs.json").write_text("{")
    with pytest.raises(InputError, match=r"runs\.json cannot be read"):
        Ledger(tmp_path).begin("run", 2)


def test_a_run_waits_for_its_owner(case, capsys):
    folder = case.site_data.folder
    host = Host(replace(case.site_data, policy=replace(OPEN, approve=True)))
    assert "waits until the owner" in decode_reply(host.handle(case.hello())).error
    assert not (folder / "run" / "run.json").exists()
    assert main(["site", "approve", "--folder", str(folder)]) == 0
    assert "method = single-loop" in capsys.readouterr().out
    assert main(["site", "approve", "run", "--folder", str(folder)]) == 0
    assert decode_reply(host.handle(case.hello())).error is None
    # the yes is to these settings, not to the name
    assert "waits until" in decode_reply(host.handle(case.hello(method="fedavg"))).error
    assert main(["site", "approve", "none", "--folder", str(folder)]) == 2


def test_every_question_is_in_the_log(case, capsys):
    host = Host(case.site_data)
    host.handle(case.hello())
    host.handle(case.step(0))
    host.handle(case.step(2, action="count\n"))
    lines = QuestionLog(case.site_data.folder).lines()
    assert len(lines) == 3
    assert "run  round 1  step  asked" in lines[1]
    assert "answered" in lines[1]
    assert "count?  asked" in lines[2]
    assert "refused: " in lines[2]
    assert main(["site", "log", "--folder", str(case.site_data.folder)]) == 0
    assert capsys.readouterr().out.splitlines() == lines
    assert QuestionLog(case.site_data.folder).path.stat().st_mode & 0o777 == 0o600
