"""What a frozen encoder is: a network that nobody trains here, from samples to features.

| reads      | a batch is                                                              |
|------------|-------------------------------------------------------------------------|
| `text`     | a list of strings                                                       |
| `pictures` | a tensor [k, C, H, W] in [0, 1]; the encoder resizes and standardises   |
| `inputs`   | a tensor [k, ...], as the preparation that was fitted on the clean set  |
|            | makes it: standardised pictures, rows of a table, arrays as they are    |
"""

from __future__ import annotations

import hashlib
import importlib
import json
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from fedsift.errors import InputError

Reads = Literal["text", "pictures", "inputs"]
Batch = Tensor | Sequence[str]


@runtime_checkable
class Encoder(Protocol):
    """Features of samples, from weights that stay as they are."""

    @property
    def spec(self) -> str:
        """How it was asked for, such as ``timm:resnet18``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its weights: equal at all sites, or features mean different things."""
        ...

    @property
    def reads(self) -> Reads:
        """What a batch is."""
        ...

    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d] of k samples, on the CPU, in float32."""
        ...


def weights_hash(module: nn.Module, *settings: Any) -> str:
    """Return the SHA-256 of all parameters and buffers by name, and of settings that matter."""
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for name, tensor in sorted(module.state_dict().items()):
        if not isinstance(tensor, Tensor):  # what a module adds by get_extra_state
            digest.update(f"{name} {tensor!r};".encode())
            continue
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)};".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def frozen(module: nn.Module, device: torch.device) -> nn.Module:
    """Return the module in evaluation mode, without gradients, on a device."""
    return module.to(device).eval().requires_grad_(False)


def features(output: Any, spec: str) -> Tensor:
    """Return an encoder's output as [k, d]; anything but numbers is refused."""
    if not isinstance(output, Tensor) or output.ndim < 1 or not output.is_floating_point():
        raise InputError(
            f"encoder {spec} returned a {type(output).__name__}; it must return a tensor of "
            "features [samples, features]"
        )
    numbers = output.detach().cpu().float()
    result = numbers.flatten(1) if numbers.ndim > 1 else numbers[:, None]
    if not bool(result.isfinite().all()):
        raise InputError(
            f"encoder {spec} returned features that are not finite; check its weights and inputs"
        )
    return result


def require(module: str, extra: str) -> ModuleType:
    """Import a package of an extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"this encoder needs the package {module} ({error}); run pip install 'fedsift[{extra}]'"
        ) from error


def brief(error: Exception) -> str:
    """Return an error's first line."""
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__
