"""``fedsift run`` on own files: every wrong input is one sentence, code 2, and leaves no run."""

from __future__ import annotations

import pickle
import shlex

import numpy as np
import pandas as pd
import pytest

from fedsift.experiment.run_folder import LOCK
from fedsift.files import hold
from own_files import write_pictures, write_table

NAMES = "--label-column diagnosis --id-column patient"
CLEAN = f"--validation clean.csv {NAMES}"
GOOD = f"run --site north=north.csv --site south=south.csv {CLEAN} --set rounds=2 --out out"


@pytest.fixture
def files(empty_folder):
    """Write a table, and parts of it that are wrong in one way each."""
    write_table(empty_folder, samples=30)
    write_pictures(empty_folder, samples=8)
    table = pd.read_csv("north.csv")
    changed = {
        "no-label": table.drop(columns="diagnosis"),
        "empty": table.head(0),
        "gap": table.assign(diagnosis=[None, *table["diagnosis"][1:]]),
        "twice": table.assign(patient="P1"),
        "no-id": table.assign(patient=[None, *table["patient"][1:]]),
        "no-age": table.drop(columns="age"),
        "words": table.assign(age="old"),
        "infinite": table.assign(age=np.inf),
        "huge": table.assign(age=1e300),
        "one-class": table.assign(diagnosis="benign"),
        "only-label": table[["patient", "diagnosis"]],
        "constant": table[["patient", "diagnosis"]].assign(a=1),
    }
    for name, frame in changed.items():
        frame.to_csv(f"{name}.csv", index=False)
    arrays = {"inputs": np.zeros((4, 3), np.float32), "labels": np.array([0, 1, 0, 1])}
    np.savez("four.npz", **arrays)
    np.savez("wide.npz", inputs=np.zeros((4, 5), np.float32), labels=arrays["labels"])
    np.savez("nan.npz", inputs=np.full((4, 3), np.nan), labels=arrays["labels"])
    np.savez("short.npz", inputs=arrays["inputs"], labels=arrays["labels"][:3])
    (empty_folder / "evil.pkl").write_bytes(pickle.dumps(arrays))
    code = "def fails(): return 1 / 0\ndef text(): return 'x'\n"
    (empty_folder / "own_functions.py").write_text(code)
    return empty_folder


WRONG = [
    ("run --site north", "the site 'north' is not of the form NAME=DATA"),
    ("run --site north=", "the site 'north=' is not of the form NAME=DATA"),
    ("run --site =north.csv --validation clean.csv", "name"),
    (f"run --site a/b=north.csv {CLEAN}", "name"),
    (f"run --site a=north.csv --site a=south.csv {CLEAN}", "there are two sites 'a'"),
    (f"run --site north=north.csv {NAMES}", "there is no clean set; give its file with --valid"),
    ("run --dataset own", "there is no site; give --site NAME=DATA"),
    (f"run --site north=nowhere.csv {CLEAN}", "there is no file or folder"),
    (f"run --site north=north.csv --validation nowhere.csv {NAMES}", "there is no file or folder"),
    (f"run --site north=north.csv --test nowhere.csv {CLEAN}", "there is no file or folder"),
    (f"run --site north=no-label.csv {CLEAN}", "no column 'diagnosis'"),
    ("run --site north=north.csv --validation clean.csv", "no column 'label'"),
    (f"run --site north=empty.csv {CLEAN}", "has no rows"),
    (f"run --site north=north.csv --validation empty.csv {NAMES}", "has no rows"),
    (f"run --site north=gap.csv {CLEAN}", "has no label"),
    (f"run --site north=twice.csv {CLEAN}", "'P1'"),
    (f"run --site north=no-id.csv {CLEAN}", "id"),
    (f"run --site north=no-age.csv {CLEAN}", "age"),
    (f"run --site north=words.csv {CLEAN}", "'old'"),
    (f"run --site north=infinite.csv {CLEAN}", "age"),
    (f"run --site north=huge.csv {CLEAN}", "age"),
    (f"run --site north=one-class.csv --validation one-class.csv {NAMES}", "two classes"),
    (f"run --site north=only-label.csv --validation only-label.csv {NAMES}", "column"),
    (f"run --site north=constant.csv --validation constant.csv {NAMES}", "column"),
    (f"run --site north=scans/north {CLEAN}", "clean set has"),
    (f"run --site north=four.npz {CLEAN}", "clean set has"),
    ("run --site a=wide.npz --validation four.npz", "shape"),
    ("run --site a=nan.npz --validation four.npz", "NaN"),
    ("run --site a=short.npz --validation four.npz", "4 inputs but labels of shape 3"),
    ("run --site a=evil.pkl --validation four.npz", "evil.pkl"),
    ("run --site a=own_functions:fails --validation four.npz", "ZeroDivisionError"),
    ("run --site a=own_functions:text --validation four.npz", "own_functions:text"),
    ("run --site a=own_functions:nothing --validation four.npz", "cannot be imported"),
    (f"{GOOD} --model resnet", "model is 'resnet'; give module:function or one of"),
    (f"{GOOD} --model own_functions:fails", "ZeroDivisionError"),
    (f"{GOOD} --model own_functions:text", "returned a str and not an nn.Module"),
    (f"{GOOD} --model paper_cnn", "paper_cnn takes square images"),
    (f"{GOOD} --encoder nothing", "there is no encoder 'nothing'"),
    (f"{GOOD} --encoder none.onnx", "none.onnx"),
    (f"{GOOD} --image-size tiny", "the image size 'tiny'"),
    (f"{GOOD} --ignore-column diagnosis", "column 'diagnosis' is named for two purposes"),
    (f"{GOOD} --column-kind age", "'age' is not NAME=KIND"),
    (f"{GOOD} --column-kind age=date", "'age=date' is not NAME=KIND"),
    (f"{GOOD} --column-kind stage=number", "stage"),
    (f"{GOOD} --set rho=0.5", "rho is for built-in datasets; leave it out with own data"),
    (f"{GOOD} --set cohort=5", "cohort is 5 but there are 2 clients"),
    (f"{GOOD} --method oracle", "the oracle needs the true labels"),
    (f"{GOOD} --resume", "holds no run to resume; start one without --resume"),
    (f"{GOOD} --labels north.csv", "no column 'id' or 'index'"),
    ("data info nowhere.csv", "nowhere.csv"),
    ("data info evil.pkl", "evil.pkl"),
    ("audit scans", "not the folder of a finished run"),
    ("review scans --client north", "not the folder of a finished run"),
    ("report scans", "not a run folder"),
]


@pytest.mark.parametrize(("typed", "said"), WRONG)
def test_wrong_input_is_one_sentence(fedsift, files, monkeypatch, typed, said):
    monkeypatch.syspath_prepend(files)
    ended = fedsift(*shlex.split(typed))
    assert ended.code == 2, ended
    assert said in ended.err
    lines = [line for line in ended.err.splitlines() if not line.startswith("note: ")]
    assert len(lines) == 1
    assert "Traceback" not in ended.err
    assert not (files / "out").exists()
    assert not (files / "runs").exists()


def test_a_folder_in_use_is_refused(fedsift, files):
    with hold(files / "out" / LOCK):
        ended = fedsift(*shlex.split(GOOD))
    assert ended.code == 2
    assert "is in use by process" in ended.err


def test_a_run_is_not_resumed_on_other_samples(fedsift, files):
    assert fedsift(*shlex.split(GOOD)).code == 0
    table = pd.read_csv("north.csv")
    table["diagnosis"] = table["diagnosis"][::-1].to_numpy()
    table.to_csv("north.csv", index=False)
    ended = fedsift(*shlex.split(f"{GOOD} --resume --set rounds=3"))
    assert ended.code == 2
    assert "the samples differ from those that out was started with" in ended.err


def test_a_run_is_resumed_from_its_own_configuration(fedsift, files, monkeypatch):
    assert fedsift(*shlex.split(GOOD)).code == 0
    place = files / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)  # the paths in config.toml do not depend on where one is
    assert fedsift("run", "--out", files / "out", "--resume", "--set", "rounds=3").code == 0
    assert len((files / "out" / "rounds.jsonl").read_text().splitlines()) == 3


def test_reviewing_samples_that_have_changed_is_refused(fedsift, files):
    assert fedsift(*shlex.split(GOOD)).code == 0
    pd.read_csv("north.csv").head(20).to_csv("north.csv", index=False)
    ended = fedsift("audit", "out")
    assert ended.code == 0  # needs no samples
    assert "note: the samples' own columns are left out: site north" in ended.err
    ended = fedsift("review", "out", "--client", "north", "--no-browser")
    assert ended.code == 2
    assert "had 30 samples and now has 20" in ended.err


def test_a_configuration_may_name_the_files(fedsift, files, monkeypatch):
    own = 'sites = ["north=north.csv"]\nvalidation = "clean.csv"\nrounds = 1\n'
    (files / "own.toml").write_text(f'{own}label_column = "diagnosis"\nid_column = "patient"\n')
    assert fedsift("run", "own.toml", "--out", "out").code == 0
    monkeypatch.chdir("/")
    assert fedsift("run", "--out", files / "out", "--resume", "--set", "rounds=2").code == 0
