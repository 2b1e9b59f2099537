"""Fused kernels as plain operations that have all derivatives, with the same values up to rounding.

| fused | lacks | here |
|---|---|---|
| ``scaled_dot_product_attention`` | forward mode, second derivative | its own mathematics |
| ``multi_head_attention_forward`` | the same, and a fast path | the branch that has the weights |
| ``embedding_bag`` | the same | ``embedding``, then a sum, mean or maximum per bag |

A mode for the calls within it, in this thread alone; torch's own switches are global.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class PlainKernels(TorchFunctionMode):
    """Within it, the functions of the table are computed by plain operations."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Replace a function of the table; call any other."""
        return _PLAIN.get(func, func)(*args, **(kwargs or {}))


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Tensor:
    attend = torch.ops.aten._scaled_dot_product_attention_math
    out: Tensor = attend(query, key, value, attn_mask, dropout_p, is_causal, **more)[0]
    return out


def _multi_head(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """Ask for the weights, which the fused kernel does not have, and give them if wanted."""
    wanted = kwargs.get("need_weights", True)
    kwargs["need_weights"] = True
    out, weights = functional.multi_head_attention_forward(*args, **kwargs)
    return out, weights if wanted else None


def _embedding_bag(
    input: Tensor,  # noqa: A002 - torch's name
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,  # noqa: ARG001 - of a gradient that is dense here
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    if input.ndim != 2:
        bounds = offsets if include_last_offset else None
        return _ragged_bags(input, weight, offsets, bounds, mode, per_sample_weights, padding_idx)
    rows = functional.embedding(input, weight, None, max_norm, norm_type, scale_grad_by_freq)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    kept = torch.ones_like(input, dtype=torch.bool)
    if padding_idx is not None:
        kept = input != padding_idx % len(weight)
    count = kept.sum(dim=1, keepdim=True)
    if mode == "max":
        highest = rows.masked_fill(~kept.unsqueeze(-1), -torch.inf).amax(dim=1)
        return highest.masked_fill(count == 0, 0.0)
    total = (rows * kept.unsqueeze(-1)).sum(dim=1)
    return total if mode == "sum" else total / count.clamp(min=1)


def _ragged_bags(
    indices: Tensor,
    weight: Tensor,
    offsets: Tensor | None,
    bounds: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
    padding_idx: int | None,
) -> Tensor:
    """Sum the rows of bags that start at ``offsets``."""
    if offsets is None or mode == "max":
        raise NotImplementedError("a maximum over bags of several lengths has no plain version")
    starts = offsets if bounds is None else bounds[:-1]
    places = torch.arange(len(indices), device=indices.device, dtype=starts.dtype)
    bags = torch.searchsorted(starts.contiguous(), places, right=True) - 1
    kept = torch.ones_like(indices, dtype=torch.bool)
    if padding_idx is not None:
        kept = indices != padding_idx % len(weight)
    rows = functional.embedding(indices, weight) * kept.unsqueeze(-1)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    total = rows.new_zeros(len(starts), weight.shape[1]).index_add(0, bags, rows)
    if mode == "sum":
        return total
    count = rows.new_zeros(len(starts)).index_add(0, bags, kept.to(rows.dtype))
    return total / count.clamp(min=1).unsqueeze(-1)


_PLAIN: dict[Callable[..., Any], Callable[..., Any]] = {
    functional.scaled_dot_product_attention: _attention,
    functional.multi_head_attention_forward: _multi_head,
    functional.embedding_bag: _embedding_bag,
}
