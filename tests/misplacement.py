"""Memory as others may lay it out: what enters fedsift, at addresses that torch would not give.

As a pytest plugin (``-p misplacement``) it moves all that enters in any test: datasets' inputs,
arrays of numpy (bytes of messages too) and tensors of safetensors, each to the next offset. A
machine on which these are aligned by luck then sees what others see.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

OFFSETS = range(0, 64, 4)
READERS = ("fedsift.sealed.safe_open",)  # checkpoints and journals
# Kernels whose rounding an address or a stride may change.
KERNELS = {"mm", "addmm", "mv", "addmv", "dot", "bmm", "baddbmm", "sum", "mean"}
KERNELS |= {"convolution", "convolution_backward", "linalg_vector_norm", "linalg_lstsq"}


def misplaced(tensor: Tensor, offset: int) -> Tensor:
    """Return a copy with the same strides, ``offset`` bytes past a multiple of 64."""
    size, steps = tensor.element_size(), zip(tensor.shape, tensor.stride(), strict=True)
    span = sum(max(n - 1, 0) * step for n, step in steps) + 1
    room = torch.empty(span + 64 // size, dtype=tensor.dtype)
    copy = room[offset // size :].as_strided(tensor.shape, tensor.stride())
    return copy.copy_(tensor)


def misplace_all(patch: pytest.MonkeyPatch, offset: Callable[[], int]) -> None:
    """Move all that enters by files, messages and datasets."""
    from_numpy = torch.from_numpy
    patch.setattr(torch, "from_numpy", lambda array: misplaced(from_numpy(array), offset()))
    for name in READERS:
        patch.setattr(name, lambda *args, **kwargs: _Reader(offset, *args, **kwargs))
    patch.setattr("fedsift.data.dataset.Source.__init__", _moving(offset))


class _Reader:
    """A file of safetensors."""

    def __init__(self, offset: Callable[[], int], *args: Any, **kwargs: Any) -> None:
        from safetensors import safe_open  # noqa: PLC0415

        self.offset, self.file = offset, safe_open(*args, **kwargs)

    def __enter__(self) -> _Reader:
        self.file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.file.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def get_tensor(self, name: str) -> Tensor:
        return misplaced(self.file.get_tensor(name), self.offset())


def _moving(offset: Callable[[], int]) -> Callable[..., None]:
    from fedsift.data.dataset import Source  # noqa: PLC0415

    plain = Source.__init__

    def init(self: Source, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)
        decode = self.decode
        object.__setattr__(self, "decode", lambda rows: misplaced(decode(rows), offset()))

    return init


class Places(TorchDispatchMode):
    """Notes what the kernels get: shapes, strides and addresses mod 64."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, ...]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in KERNELS:
            operands = [a for a in args if isinstance(a, Tensor)]
            places = ((tuple(a.shape), a.stride(), a.data_ptr() % 64) for a in operands)
            self.calls.append((name, *places))
        return func(*args, **(kwargs or {}))


def pytest_configure() -> None:
    """Move everything, as a plugin."""
    offsets = cycle(range(4, 64, 4))
    misplace_all(pytest.MonkeyPatch(), lambda: next(offsets))
