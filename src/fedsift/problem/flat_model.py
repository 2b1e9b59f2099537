"""A module's trainable parameters as one flat vector y of length d."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from fedsift.errors import InputError
from fedsift.memory import aligned
from fedsift.problem.batch_norm import refuse_batch_statistics
from fedsift.problem.plain_kernels import PlainKernels
from fedsift.problem.run_modes import FASTEST, RunModes


class FlatModel:
    """Any ``nn.Module`` as a function of (y, inputs).

    The module is copied and put into evaluation mode, so that the inner loss is a deterministic
    function of y: dropout is off, and the statistics of batch normalisation are constants. A
    module in half precision becomes one in float32: small steps would be lost in its rounding.

    Kernels [out, in, h, w] are stored in y as [out, h, w, in]: their views are channels-last, which
    makes torch's convolutions on a CPU 1.3 to 1.5 times as fast, without a copy. What y means does
    not depend on ``modes``; these say how the module is run and differentiated (``trial.bind``).
    """

    def __init__(self, module: nn.Module, device: torch.device | str = "cpu") -> None:
        refuse_batch_statistics(module)
        _refuse_lazy(module)
        self.modes = FASTEST
        self.module = _at_least_float32(copy.deepcopy(module)).to(device).eval()
        for value in (*self.module.parameters(), *self.module.buffers()):
            value.data = aligned(value.data)
        trainable = {n: p for n, p in self.module.named_parameters() if p.requires_grad}
        if not trainable:
            raise InputError("the model has no trainable parameter; give a module that has one")
        if len({p.dtype for p in trainable.values()}) > 1:
            raise InputError("the model's parameters have several dtypes; convert it to one")
        self._start = torch.cat([_channels_last(p.detach()).flatten() for p in trainable.values()])
        self.names = list(trainable)
        self._shapes = [_channels_last(p.detach()).shape for p in trainable.values()]
        self._sizes = [p.numel() for p in trainable.values()]
        self.module.requires_grad_(False)
        self._widest: dict[tuple[int, ...], int] = {}

    @property
    def length(self) -> int:
        """The number d of parameters."""
        return len(self._start)

    def frozen(self) -> str:
        """Hash what is not trained: frozen parameters, buffers; empty where there is nothing."""
        state = self.module.state_dict()
        kept = {name: value for name, value in state.items() if name not in self.names}
        total = hashlib.sha256()
        for name, value in sorted(kept.items()):
            total.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
            total.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        return total.hexdigest()[:16] if kept else ""

    def initial(self) -> Tensor:
        """Return the parameters that the module came with."""
        return self._start.clone()

    def run_as(self, modes: RunModes) -> FlatModel:
        """Return the same model, run and differentiated in these modes."""
        other = copy.copy(self)
        other.modes = modes
        return other

    def unflatten(self, y: Tensor) -> dict[str, Tensor]:
        """Return named views into y, or into each of several y, [..., d]."""
        parts = zip(self.names, torch.split(y, self._sizes, dim=-1), self._shapes, strict=True)
        return {
            name: _channels_first(part.view(*y.shape[:-1], *shape), shape)
            for name, part, shape in parts
        }

    def __call__(self, y: Tensor, inputs: Tensor) -> Tensor:
        """Return the module's logits at parameters y."""
        values = self.unflatten(y)
        if self.modes.contiguous:
            values, inputs = {n: _contiguous(v) for n, v in values.items()}, _contiguous(inputs)
        with PlainKernels() if self.modes.plain else nullcontext():
            outputs = functional_call(self.module, values, (inputs,))
        return outputs if isinstance(outputs, Tensor) else _logits(outputs)

    @torch.no_grad()
    def widest(self, inputs: Tensor) -> int:
        """Return how many numbers the largest layer has for one of these inputs."""
        found = [inputs[:1].numel()]

        def note(module: nn.Module, given: Any, outputs: Any) -> None:  # noqa: ARG001
            if isinstance(outputs, Tensor):
                found.append(outputs.numel())

        handles = [part.register_forward_hook(note) for part in self.module.modules()]
        try:
            self(self._start, inputs[:1])
        finally:
            for handle in handles:
                handle.remove()
        self._widest[tuple(inputs.shape[1:])] = max(found)
        return max(found)

    def known_widest(self, shape: Sequence[int]) -> int:
        """Return what ``widest`` has found for inputs of this shape; 0: nothing yet."""
        return self._widest.get(tuple(shape), 0)

    def to_module(self, y: Tensor) -> nn.Module:
        """Return a copy of the module with parameters y."""
        module = copy.deepcopy(self.module)
        own = dict(module.named_parameters())
        with torch.no_grad():
            for name, value in self.unflatten(y).items():
                own[name].copy_(value)
        for name in self.names:
            own[name].requires_grad_(True)  # what the user had frozen stays frozen
        return module


def _logits(outputs: Any) -> Tensor:
    """Return the logits of an output that holds more: by their name, else the first item."""
    found = outputs.get("logits") if isinstance(outputs, Mapping) else None
    if found is None:
        found = getattr(outputs, "logits", None)
    if found is None and isinstance(outputs, tuple | list) and outputs:
        found = outputs[0]
    if not isinstance(found, Tensor):
        raise InputError(
            f"the model returns a {type(outputs).__name__} without logits; return a tensor, a "
            "tuple that starts with one, or an output with 'logits'"
        )
    return found


def _at_least_float32(module: nn.Module) -> nn.Module:
    values = (*module.parameters(), *module.buffers())
    half = any(v.dtype in {torch.float16, torch.bfloat16} for v in values)
    return module.float() if half else module


def _refuse_lazy(module: nn.Module) -> None:
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        if is_lazy(value):
            raise InputError(
                f"the model's parameter '{name}' has no shape yet; call the model once on a sample"
            )


def _contiguous(value: Tensor) -> Tensor:
    """Copy images and kernels; those of one pixel or channel count as contiguous either way."""
    return value.clone(memory_format=torch.contiguous_format) if value.ndim == 4 else value


def _channels_last(value: Tensor) -> Tensor:
    return value.permute(0, 2, 3, 1) if value.ndim == 4 else value


def _channels_first(value: Tensor, shape: torch.Size) -> Tensor:
    return value.movedim(-1, -3) if len(shape) == 4 else value
