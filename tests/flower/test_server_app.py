"""The log as a channel: what the server app prints is what `fedsift submit` writes and shows."""

import base64
import json
import tomllib
from types import SimpleNamespace

import pytest
import tomli_w

from fedsift.errors import InputError, RunError
from fedsift.experiment import server_run
from fedsift.experiment.config import Config
from fedsift.experiment.run_folder import RunFolder
from fedsift.flower import server_app
from fedsift.flower.programs import Address
from fedsift.flower.run_keys import RunKeys
from fedsift.flower.submission import Log, Submission, write_folder


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


def _main(folder, monkeypatch, run, number):
    """Call the app as Flower does, to resume a run."""
    monkeypatch.setenv("FEDSIFT_SERVER", str(folder))
    text = Config.of(dataset="digits", clients=1, rounds=1).to_toml()
    given = RunKeys(text, run, resume=True).to_mapping()
    context = SimpleNamespace(run_config=given, run_id=number)
    server_app.app(SimpleNamespace(), context)


def test_a_run_that_goes_on_is_followed_not_resumed(tmp_path, capsys, monkeypatch):
    folder = RunFolder(tmp_path / "runs" / "mine")
    with folder.held():
        folder.config.write_text("")
        (folder.path / server_app.NUMBER).write_text("17")
        _main(tmp_path, monkeypatch, "mine", 18)
    log = Log(print)
    for line in capsys.readouterr().out.splitlines(keepends=True):
        log.read(line)
    assert log.goes_on == "17"
    assert (folder.path / server_app.NUMBER).read_text() == "17"


def test_submit_follows_the_run_that_goes_on(tmp_path, monkeypatch):
    lines = {"run": ["Successfully started run 18", "@goes-on 17"]}
    lines["log"] = ['@round {"round": 1}', f"@file summary.json {base64.b64encode(b'{}').decode()}"]
    asked = []

    def watch(self, command, env, log):
        asked.append(command)
        for line in lines[command[1]]:
            log.read(line)
        return 0

    monkeypatch.setattr(Submission, "_watch", watch)
    seen = []
    address = Address("127.0.0.1", 1, None)
    Submission(address, RunKeys(run="mine", resume=True), tmp_path / "out").follow(seen.append)
    assert [command[1:3] for command in asked][1] == ["log", "17"]
    assert [record["round"] for record in seen] == [1]
    assert (tmp_path / "out" / "summary.json").read_bytes() == b"{}"


def test_a_run_lost_before_it_wrote_anything_begins_when_it_is_resumed(tmp_path, monkeypatch):
    begun = []

    def execute(*_, resume, **__):
        begun.append(resume)
        return SimpleNamespace(summary={"notices": []})

    monkeypatch.setattr(server_run, "execute", execute)
    config = Config.of(dataset="digits", clients=1, rounds=1, method="fedavg")
    for there in (False, True):
        if there:
            RunFolder(tmp_path).config.write_text("")
        server_run.execute_remotely(config, tmp_path, SimpleNamespace(), resume=True)
    assert begun == [False, True]


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
