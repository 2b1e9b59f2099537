from __future__ import annotations

import argparse

import torch

from fedsift.cli.main import main, parser
from fedsift.cli.site_options import site_arguments
from fedsift.client import ClientState
from fedsift.compress import CountSketch, TopK
from fedsift.federation.placing import CPU, placed

ELSEWHERE = torch.device("meta")


def test_all_kinds_of_arrays_are_placed():
    g = torch.arange(50.0)
    arrays = {
        "y": g,
        "s": CountSketch(50, 2, 5, 0).compress(g),
        "k": TopK(50, 3).compress(g),
    }
    found = placed(arrays, ELSEWHERE)
    where = [found["y"], found["s"].table, found["k"].values, found["k"].indices]
    assert {value.device.type for value in where} == {"meta"}
    assert placed(arrays, CPU)["y"] is g


def test_a_state_is_placed_whole():
    state = ClientState(x=torch.ones(3), average=torch.ones(3), y=torch.ones(2))
    moved = state.to(ELSEWHERE)
    assert {value.device.type for value in moved.arrays().values()} == {"meta"}
    assert moved.y.device.type == "meta"
    assert moved.error is None
    assert state.to(CPU).average is state.average


def test_join_passes_the_device_on():
    words = ["join", "--server", "a:1", "--ca", "ca", "--key", "key", "--folder", "f"]
    words += ["--client", "0", "--data", "d.csv", "--device", "cuda:1"]
    options: argparse.Namespace = parser(["join"]).parse_args(words)
    typed = site_arguments(options)
    assert typed[typed.index("--device") + 1] == "cuda:1"


def test_a_site_refuses_a_device_that_is_not_there(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("a,label\n1,x\n2,y\n")
    words = ["--folder", str(tmp_path / "site"), "--client", "0", "--data", str(tmp_path / "a.csv")]
    assert main(["site", *words, "--device", "tpu"]) == 2
    assert "device is 'tpu'" in capsys.readouterr().err
