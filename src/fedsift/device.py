"""Where tensors live: the one place that decides."""

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
        raise ConfigError(f"device is {name!r}; use auto, cpu, cuda or cuda:0") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device is 'cuda' but no CUDA device is here; use auto or cpu")
    return device
