"""The log as a channel: what the server app prints is what `fedsift submit` writes and shows."""

import json
import tomllib

import pytest
import tomli_w

from fedsift.errors import InputError, RunError
from fedsift.flower import server_app
from fedsift.flower.run_keys import RunKeys
from fedsift.flower.submission import Log, write_folder


def test_files_and_rounds_survive_the_log(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(server_app, "CHUNK", 7)
    source = tmp_path / "source"
    source.mkdir()
    files = {
        "config.toml": b"a = 1\n",
        "model.safetensors": bytes(range(256)),
        "summary.json": b"{}",
    }
    for name, data in files.items():
        (source / name).write_bytes(data)
        server_app._send_file(source, name)
    server_app._say("round", json.dumps({"round": 1, "events": ["a\nb"]}))
    seen = []
    log = Log(seen.append)
    for line in ["INFO : other\n", *capsys.readouterr().out.splitlines(keepends=True)]:
        log.read(line)
    assert log.files == files
    assert seen == [{"round": 1, "events": ["a\nb"]}]
    assert log.other == ["INFO : other"]
    assert log.complete
    write_folder(tmp_path / "out", log.files)
    assert {name: (tmp_path / "out" / name).read_bytes() for name in files} == files


def test_a_log_that_is_read_again_shows_a_round_once():
    seen = []
    log = Log(seen.append)
    for k in (1, 2, 1, 2, 3):
        log.read(f'@round {{"round": {k}}}\n')
    log.read("Successfully started run 17\n")
    assert [record["round"] for record in seen] == [1, 2, 3]
    assert log.number == "17"


def test_a_note_is_shown_once(capsys):
    server_app._say("note", "auto chose single-loop:\nwhy")
    line = capsys.readouterr().out
    log = Log(print)
    for _ in range(2):
        log.read(line)
    assert capsys.readouterr().err == "note: auto chose single-loop: why\n"
    assert log.other == []


@pytest.mark.parametrize(("kind", "error"), [("0", RunError), ("1", InputError)])
def test_a_failure_is_raised_as_it_was(kind, error):
    with pytest.raises(error, match="too few"):
        Log(print).read(f"@failed {kind} too few\n")


def test_a_server_cannot_write_elsewhere(tmp_path):
    with pytest.raises(RunError, match="not part of a run folder"):
        write_folder(tmp_path / "out", {"../evil.txt": b""})
    assert list(tmp_path.iterdir()) == []


def test_the_run_s_keys_survive_flower_s_run_config():
    keys = RunKeys("a = 1", "run-1", resume=True, timeout=1, wait=2)
    assert RunKeys.from_mapping(tomllib.loads(tomli_w.dumps(keys.to_mapping()))) == keys
    # Flower refuses a float where the bundle's default was written as an integer.
    assert {k: type(v) for k, v in keys.to_mapping().items()} == {
        k: type(v) for k, v in RunKeys().to_mapping().items()
    }
