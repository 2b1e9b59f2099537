"""Names of devices."""

import pytest
import torch

from fedsift.device import resolve
from fedsift.errors import ConfigError


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


@pytest.mark.parametrize(
    ("name", "count"), [("cuda", 0), ("cuda:0", 0), ("cuda:2", 2), ("tpu", 1), ("meta", 0), ("", 0)]
)
def test_device_that_is_not_there_is_refused(gpus, name, count):
    gpus(count)
    with pytest.raises(ConfigError, match=f"device is '{name}'.*use auto"):
        resolve(name)
