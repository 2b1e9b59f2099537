"""Names of devices, and that the hot paths never leave theirs."""

import pytest
import torch

from fedsift.algorithms.additions.self_paced import pull
from fedsift.algorithms.outer_step import Move
from fedsift.client.passes import joint_pass
from fedsift.compress import CountSketch, TopK, feedback_for
from fedsift.device import resolve
from fedsift.errors import ConfigError
from fedsift.hypergradient import CurvatureSettings
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.problem.networks import build_model
from fedsift.problem.sgd import LocalSteps, local_sgd
from fedsift.randomness import generator


@pytest.fixture
def gpus(monkeypatch):
    """Return a function that makes torch see so many GPUs."""

    def pretend(count: int) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)

    return pretend


@pytest.mark.parametrize(
    ("name", "count", "device"),
    [
        ("auto", 0, "cpu"),
        ("auto", 1, "cuda"),
        ("cpu", 1, "cpu"),
        ("cuda", 1, "cuda"),
        ("cuda:1", 2, "cuda:1"),
    ],
)
def test_device_of_a_name(gpus, name, count, device):
    gpus(count)
    assert resolve(name) == torch.device(device)


@pytest.mark.parametrize(("rank", "device"), [("0", "cuda:0"), ("1", "cuda:1"), ("2", "cuda:0")])
def test_processes_of_one_machine_share_its_gpus(gpus, monkeypatch, rank, device):
    monkeypatch.setenv("LOCAL_RANK", rank)
    gpus(2)
    assert resolve("auto") == torch.device(device)
    gpus(0)
    assert resolve("auto") == torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2), ("tpu", 1), ("meta", 0), ("", 0)]
)
def test_a_missing_device_is_refused(gpus, name, count):
    gpus(count)
    with pytest.raises(ConfigError, match=f"device is '{name}'.*use auto"):
        resolve(name)


@pytest.fixture(scope="module")
def elsewhere():
    """Return a problem whose tensors have no data: reading one on the host raises.

    A CUDA device is not at hand in CI; what runs here runs there without a copy to the host.
    """
    problem = Reweighting(FlatModel(build_model("digits_cnn", (1, 8, 8), 10, 0), "meta"))
    inputs, labels = torch.zeros(150, 1, 8, 8), torch.zeros(150, dtype=torch.int64)
    batch = LabelledBatch.of(inputs.to("meta"), labels.to("meta"))
    y = problem.model.initial()
    return problem, problem.initial_x(batch), y, batch, torch.zeros_like(y)


@pytest.mark.parametrize("kind", ["gauss-newton", "hessian"])
def test_products_and_scores_stay_on_the_device(elsewhere, kind):
    problem, x, y, batch, v = elsewhere
    drawn, rest = batch.take(torch.arange(70)), batch.take(torch.arange(70, 150))
    product, cross = joint_pass(problem, x, y, drawn, rest, v, CurvatureSettings(kind, 0.5))
    assert (product.device.type, product.shape) == ("meta", y.shape)
    assert (cross.value.device.type, cross.value.shape) == ("meta", x.shape)


def test_local_steps_stay_on_the_device(elsewhere):
    problem, x, y, batch, _ = elsewhere
    source = generator(0, "batches")
    trained, loss = local_sgd(problem, x, y, batch, LocalSteps(5, 0.1, 64), source)
    assert (trained.device.type, loss.device.type) == ("meta", "meta")


def test_the_outer_step_stays_on_the_device(elsewhere):
    problem, x, *_ = elsewhere
    move = Move(0.1, "scale-free", pace=0.05)
    zeros = torch.zeros_like(x)
    moved = problem.project(x - move.change(zeros) + pull(x, zeros, move.pace))
    assert moved.device.type == "meta"


@pytest.mark.parametrize("compressor", [CountSketch(5000, 5, 50, seed=0), TopK(5000, 250)])
def test_compression_and_its_error_stay_on_the_device(compressor):
    feedback = feedback_for(compressor)
    payload, _ = feedback.client(torch.zeros(5000, device="meta"), 0.1, None)
    delta, _ = feedback.server([payload], [1.0], 0.1, None)
    assert (delta.device.type, delta.shape) == ("meta", (5000,))


def test_a_host_copy_would_be_noticed(elsewhere):
    with pytest.raises((RuntimeError, NotImplementedError)):
        float(elsewhere[2].sum())
