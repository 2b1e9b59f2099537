"""On which device tensors are: the one place that decides."""

from __future__ import annotations

import os

import torch

from fedsift.errors import ConfigError


def resolve(name: str) -> torch.device:
    """Return the device of a name; ``auto`` is CUDA where there is one, else the CPU.

    Of several processes of one machine (LOCAL_RANK), each gets a GPU of its own while there are
    enough.
    """
    if name == "auto":
        if not torch.cuda.is_available():
            return torch.device("cpu")
        rank = os.environ.get("LOCAL_RANK", "")
        if rank.isdecimal():
            return torch.device("cuda", int(rank) % torch.cuda.device_count())
        return torch.device("cuda")
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
