"""Flipped bits in every kind of file that a run trusts: one sentence, or the same result."""

import json
import random
import shutil

import pytest
import torch

import fedsift as fs
from fedsift.audit.review.decisions import Asked, Decisions
from fedsift.client import ClientState
from fedsift.errors import InputError
from fedsift.experiment.run import execute
from fedsift.report import load_run
from fedsift.site.journal import Entry, Journal

FLIPS = 12
TRUSTED = (
    *("config.toml", "rounds.jsonl", "summary.json", "model.safetensors"),
    *("clients/0/weights.parquet", "clients/0/audit.json"),
)


def flips(path, count=FLIPS, seed=0):
    """Write the file again and again with one bit changed; at the end as it was."""
    whole, draw = path.read_bytes(), random.Random(seed)
    for _ in range(count):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        yield
    path.write_bytes(whole)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    from tiny import tiny_config  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("damage") / "run"
    execute(tiny_config("single-loop", {}, rounds=3, checkpoint_every=1), folder)
    return folder


@pytest.mark.fault(
    "a bit flipped in a finished run's configuration, rounds, summary, model, weights or audit",
    "refused, in one sentence that names the file",
    trials=FLIPS,
)
@pytest.mark.parametrize("name", TRUSTED)
def test_a_finished_run_with_a_damaged_file_is_refused(finished, name):
    for _ in flips(finished / name):
        for read in (fs.load, load_run):
            with pytest.raises(InputError, match="is missing or is not what the run wrote"):
                read(finished)
    fs.load(finished)
    load_run(finished)


@pytest.mark.fault(
    "the newest checkpoint damaged or cut off",
    "the run goes on from the one before, to the same bits",
)
def test_a_run_with_a_damaged_checkpoint_goes_on_from_the_one_before(
    tmp_path, tiny, outcome, capsys
):
    config = tiny("single-loop", rounds=4, checkpoint_every=1)
    execute(config.replace(rounds=3), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "damaged")
    newest = tmp_path / "damaged" / "checkpoint" / "round-000003.safetensors"
    newest.write_bytes(newest.read_bytes()[:-100])
    for name in ("whole", "damaged"):
        execute(config, tmp_path / name, resume=True)
    assert "going on from round-000002.safetensors" in capsys.readouterr().err
    assert outcome(tmp_path / "damaged") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("name", ["checkpoint/round-000003.safetensors", "rounds.jsonl"])
def test_no_resumed_run_takes_what_was_not_written(tmp_path, tiny, outcome, name):
    config = tiny("single-loop", rounds=3, checkpoint_every=1)
    execute(config, tmp_path / "run")
    expected = outcome(tmp_path / "run")
    (tmp_path / "run" / "checkpoint" / "round-000002.safetensors").unlink()
    for _ in flips(tmp_path / "run" / name, count=4):
        try:
            execute(config, tmp_path / "run", resume=True)
        except InputError:
            continue
        assert outcome(tmp_path / "run") == expected  # a bit of the header's padding


@pytest.mark.fault(
    "a bit flipped in a person's decisions",
    "refused; a last line without its end is dropped, as after a crash",
    trials=200,
)
def test_a_damaged_decision_is_refused(tmp_path):
    made = Decisions(tmp_path / "decisions.jsonl", 9)
    for n in range(3):
        made.save([Asked(n, 0, "relabel", 2)], tab="tab")
    made.undo(tab="tab")
    made.close()
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    for _ in flips(tmp_path / "decisions.jsonl", count=200):
        try:
            found = Decisions(tmp_path / "decisions.jsonl", 9)
        except InputError:
            continue
        kept = len(found.decided)  # only a last line without its end may be dropped
        found.close()
        assert kept >= 2
    reread = Decisions(tmp_path / "decisions.jsonl", 9)
    assert [d.index for d in reread.decided] == [0, 1]
    reread.close()
    assert [json.loads(line)["sequence"] for line in lines] == [1, 2, 3, 4]


@pytest.mark.fault(
    "a bit flipped in a site's journal",
    "refused, or the same content",
    trials=200,
)
def test_a_damaged_journal_is_refused(tmp_path):
    journal = Journal(tmp_path)
    journal.append(Entry((0, 0), "digest", {"y": b"123"}, ClientState(x=torch.ones(40))))
    (path,) = tmp_path.glob("*.safetensors")
    for _ in flips(path, count=200):
        try:
            entry = Journal(tmp_path).last
        except InputError:
            continue
        assert entry.answer == {"y": b"123"}
        assert torch.equal(entry.state.x, torch.ones(40))
