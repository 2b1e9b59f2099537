"""Logs: times, no colour codes, and no file that grows without end."""

import re

from fedsift import logs
from fedsift.logs import PlainLog, rotate, say

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ"


def test_a_program_s_lines_get_a_time_and_lose_their_colours(tmp_path):
    log = PlainLog(tmp_path / "a.log")
    log.write(b"\x1b[92mINFO \x1b[0m: one\r\ntw")
    log.write(b"o\n\nlast")
    log.close()
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert [re.fullmatch(f"{TIME} (.*)", line)[1] for line in lines] == [
        "INFO : one",
        "two",
        "last",
    ]


def test_what_is_said_has_a_time(capsys):
    say("joined")
    say("hidden", show=False)
    assert re.fullmatch(f"{TIME} joined\n", capsys.readouterr().err)


def test_a_large_log_is_renamed_and_the_oldest_dropped(tmp_path):
    path = tmp_path / "a.log"
    for n in range(logs.KEEP + 3):
        path.write_text(str(n))
        rotate(path, largest=0)
    names = {p.name: p.read_text() for p in tmp_path.iterdir()}
    assert names == {"a.log.1": "5", "a.log.2": "4", "a.log.3": "3"}
    path.write_text("small")
    rotate(path)
    assert path.read_text() == "small"
