"""On which device tensors are: the one place that decides."""

from __future__ import annotations

import torch

from fedsift.errors import ConfigError


def resolve(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in {"cpu", "cuda"}:
        raise ConfigError(f"device is {name!r}; use auto, cpu, cuda or cuda:0")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device is {name!r} but this machine has no such device; use auto or cpu"
        )
    return device
