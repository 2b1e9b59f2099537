"""Tensors in a safetensors file with a hash over all of them, so that damage is noticed.

The header's metadata has one key (the format does not keep the order of several): a JSON text with
``about``, what belongs to the tensors, and ``sha256`` of it and of every tensor's name, kind, shape
and bytes, in the order of the names. Any reader of safetensors can open the file; ours refuses one
whose hash is another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fedsift.errors import InputError
from fedsift.files import write_atomically
from fedsift.memory import aligned

WRONG = (
    *(SafetensorError, KeyError, ValueError, TypeError, OSError),
    *(OverflowError, MemoryError, RecursionError),
)


def save(path: Path, tensors: Mapping[str, Tensor], meta: Mapping[str, Any] | None = None) -> None:
    """Write tensors and what belongs to them, whole or not at all."""
    own = {n: value.detach().cpu().contiguous().clone() for n, value in tensors.items()}
    about = dict(meta or {})
    seal = {"fedsift": json.dumps({"about": about, "sha256": _digest(own, json.dumps(about))})}

    def write(target: Path) -> None:
        try:
            save_file(own, target, metadata=seal)
        except SafetensorError as error:  # what the system said is inside
            raise OSError(None, str(error)) from None

    write_atomically(path, write)


def load(path: Path, what: str, device: str = "cpu") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read them; refuse a file that is damaged or no such file. ``what`` names it in a sentence."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            seal = json.loads((file.metadata() or {})["fedsift"])
            tensors = {name: aligned(file.get_tensor(name)) for name in list(file.keys())}
        meta = dict(seal["about"])
        fits = seal["sha256"] == _digest(tensors, json.dumps(meta))
    except WRONG as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is not {what}, or is damaged ({reason})") from None
    if not fits:
        raise InputError(f"{path} is not {what}, or is damaged (it is not what was written)")
    return {name: value.to(device) for name, value in tensors.items()}, meta


def _digest(tensors: Mapping[str, Tensor], text: str) -> str:
    total = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        total.update(f"\n{name} {value.dtype} {tuple(value.shape)} ".encode())
        total.update(_bytes(value))
    return total.hexdigest()


def _bytes(value: Tensor) -> Any:
    flat = value.contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy() if len(flat) else b""
