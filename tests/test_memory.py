"""The same bits wherever the numbers are: at every address, in every layout, on every path."""

import os
import platform
import shutil
import subprocess
import sys
from collections import Counter
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector

import fedsift as fs
from fedsift.compress import Sketch, Sparse, wire
from fedsift.experiment.run import execute
from fedsift.memory import aligned
from fedsift.problem import FlatModel, LabelledBatch
from fedsift.randomness import generator
from misplacement import OFFSETS, Places, misplace_all, misplaced
from tiny import tiny_config

TESTS = Path(__file__).parent


def normal(*shape, name="memory"):
    return torch.randn(*shape, generator=generator(0, name))


LAYOUTS = {
    "vector": normal(37),
    "matrix": normal(5, 7),
    "transposed": normal(5, 7).T,
    "channels-last": normal(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
    "labels": torch.arange(9),
    "empty": torch.zeros(0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", OFFSETS)
def test_any_address_becomes_one_that_torch_could_give(offset, layout):
    tensor = misplaced(LAYOUTS[layout], offset)
    found = aligned(tensor)
    assert found.data_ptr() % 64 == 0
    assert torch.equal(found, tensor)
    assert found.stride() == tensor.stride()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_torch_laid_out_is_not_copied(layout):
    assert aligned(LAYOUTS[layout]) is LAYOUTS[layout]


@pytest.mark.parametrize("offset", [0, 4])
def test_gaps_are_closed_wherever_the_tensor_is(offset):
    wide = misplaced(normal(5, 16), offset)
    assert aligned(wide[:, :7]).stride() == (7, 1)
    assert aligned(wide[:, 0]).stride() == (1,)


def test_equal_samples_have_equal_strides_and_so_have_their_batches():
    images, labels = normal(6, 3, 4, 4), torch.zeros(6, dtype=torch.int64)
    last = images.contiguous(memory_format=torch.channels_last)
    found = [
        LabelledBatch.of(inputs, labels) for inputs in (images, last, images.mT.contiguous().mT)
    ]
    assert {batch.inputs.stride() for batch in found} == {last.stride()}
    rows = normal(6, 8)
    found = [LabelledBatch.of(inputs, labels) for inputs in (rows, rows.T.contiguous().T)]
    assert {batch.take(torch.arange(4)).inputs.stride() for batch in found} == {(8, 1)}


def test_frozen_parameters_and_buffers_of_a_module_are_aligned():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    module[0].weight = nn.Parameter(misplaced(normal(4, 4), 4), requires_grad=False)
    module[0].register_buffer("scale", misplaced(normal(4), 8))
    kept = FlatModel(module).module[0]
    assert kept.weight.data_ptr() % 64 == kept.scale.data_ptr() % 64 == 0


PAYLOADS = {
    "dense": normal(33),
    "sparse": Sparse(torch.arange(3, 24, 3), normal(7), 40),
    "sketch": Sketch(normal(3, 11), 40, 5),
}


@pytest.mark.parametrize("kind", PAYLOADS)
@pytest.mark.parametrize("offset", OFFSETS)
def test_messages_are_read_into_aligned_memory(monkeypatch, offset, kind):
    data = wire.encode(PAYLOADS[kind])
    misplace_all(monkeypatch, lambda: offset)
    found = wire.decode(data)
    tensors = (
        [found] if kind == "dense" else [v for v in vars(found).values() if torch.is_tensor(v)]
    )
    assert tensors
    assert all(tensor.data_ptr() % 64 == 0 for tensor in tensors)
    assert wire.encode(found) == data


MODELS = {
    "linear": ((12,), lambda: nn.Linear(12, 3)),
    "mlp": ((12,), lambda: nn.Sequential(nn.Linear(12, 9), nn.Tanh(), nn.Linear(9, 3))),
    "conv": (
        (2, 6, 6),
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 5, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(20, 3))
        ),
    ),
}


def trained(kind, method, offset, pool):
    """Return y and the weights after two rounds on samples at this offset."""
    shape, make = MODELS[kind]
    module = make()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * normal(*parameter.shape, name="start"))
    pairs = []
    for m in range(4):
        inputs, labels = normal(21, *shape, name=m), torch.arange(21) % 3
        pairs.append((misplaced(inputs, offset), misplaced(labels, offset)))
    federation = fs.simulate(module, pairs[1:], pairs[0])
    keys = {"local_steps": 2, "batch_size": 0, "pool": pool}
    result = fs.fit(federation, method, rounds=2, device="cpu", **keys)
    weights = [result.weights(m) for m in range(3)]
    return torch.cat([parameters_to_vector(result.model.parameters()).detach(), *weights])


@pytest.mark.parametrize("pool", [True, False], ids=["pooled", "alone"])
@pytest.mark.parametrize("method", ["single-loop", "iter-topk"])
@pytest.mark.parametrize("kind", MODELS)
def test_rounds_are_the_same_at_every_offset_of_the_samples(kind, method, pool):
    expected = trained(kind, method, 0, pool)
    assert all(torch.equal(trained(kind, method, offset, pool), expected) for offset in OFFSETS[1:])


def tiny(method, **keys):
    return tiny_config(method, {"rounds": 3, "curvature_batch": 7}, **keys)


@pytest.mark.parametrize("method", ["single-loop", "iter-topk"])
def test_round_is_the_same_at_every_offset_of_the_checkpoint(tmp_path, monkeypatch, method):
    config = tiny(method)
    execute(config.replace(rounds=2), tmp_path / "start")
    models = set()
    for offset in OFFSETS:
        with monkeypatch.context() as patch:
            misplace_all(patch, lambda offset=offset: offset)
            folder = shutil.copytree(tmp_path / "start", tmp_path / str(offset))
            execute(config, folder, resume=True)
        models.add((folder / "model.safetensors").read_bytes())
    execute(config, tmp_path / "whole")
    assert models == {(tmp_path / "whole/model.safetensors").read_bytes()}


def places(config, folder, **more):
    with Places() as found:
        execute(config, folder, **more)
    return found.calls


@pytest.fixture
def moved(monkeypatch):
    """Move all that enters, each tensor to the next offset."""
    offsets = cycle(range(4, 64, 4))
    misplace_all(monkeypatch, partial(next, offsets))


def resumed_and_whole(config, folder):
    execute(config.replace(rounds=2), folder / "cut")
    resumed = places(config, folder / "cut", resume=True)
    return Counter(resumed), Counter(places(config, folder / "whole"))


@pytest.mark.parametrize("model", ["linear", "digits_cnn"])
@pytest.mark.parametrize("method", ["single-loop", "iter-topk", "disagreement"])
def test_kernels_of_a_resumed_run_get_what_those_of_a_whole_run_get(tmp_path, moved, method, model):
    """Whether or not the kernels of this machine would round otherwise."""
    config = tiny(method, model=model)
    resumed, whole = resumed_and_whole(config, tmp_path)
    assert sum(resumed.values()) > 20
    assert not resumed - whole


def test_without_the_border_they_would_not(tmp_path, moved, monkeypatch):
    monkeypatch.setattr("fedsift.memory.ALIGNMENT", 1)  # every address will do
    resumed, whole = resumed_and_whole(tiny("iter-topk"), tmp_path)
    assert resumed - whole


PROCESSES = {
    "avx2": ({"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}, ()),
    "default": ({"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41"}, ()),
    "misplaced": ({}, ("-p", "misplacement")),
}
FILES = ("experiment/test_run.py", "federation/test_remote_parity.py")
QUICK = (
    "(interrupted or cohorts_and_settings or remote_is_local) and not non-iter and not preprocess"
)


def run_again(kind, *options):
    """Run the tests of resumption and parity in a process of their own."""
    variables, plugin = PROCESSES[kind]
    if variables and platform.machine().lower() not in {"x86_64", "amd64"}:
        pytest.skip("these instruction sets are of x86")
    outer = {n: v for n, v in os.environ.items() if not n.startswith("PYTEST")}
    path = os.pathsep.join([str(TESTS), *filter(None, [outer.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, *plugin, *options, *(str(TESTS / name) for name in FILES)],
        env={**outer, **variables, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind", PROCESSES)
def test_resumed_and_remote_runs_are_the_same_in_another_process(kind):
    run_again(kind, "-k", QUICK)


@pytest.mark.deep
@pytest.mark.parametrize("kind", PROCESSES)
def test_all_of_resumption_and_parity_holds_in_another_process(kind):
    run_again(kind)
