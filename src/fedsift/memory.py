"""Alignment: tensors whose memory torch did not allocate are copied to where torch would put them.

MKL's dot, gemv and small gemm round by the address of their operands: the same numbers 4 bytes
further on give other last digits. torch's allocator always gives addresses that are multiples of
64, but safetensors, numpy, bytes from a network and views into a user's tensors are at any address.
So all of these pass through ``aligned`` before any arithmetic:

| what comes in | where |
|---|---|
| samples | ``Source.inputs``, ``simulate``, a site's files; ``LabelledBatch.of`` for any other |
| samples that are stored | ``StoredBatch.take`` |
| a user's start (x, y) | ``solve`` |
| frozen parameters and buffers of a user's module | ``FlatModel`` |
| messages | ``compress.wire.decode`` |
| a run's checkpoint, a site's journal | their loading |

Views that fedsift makes of such tensors (a parameter inside y, a chunk of a batch) are at the same
place in them on every path, so they round the same.
"""

from __future__ import annotations

import torch
from torch import Tensor

ALIGNMENT = 64  # bytes: what torch's allocator gives on a CPU, and the widest vector register


def aligned(tensor: Tensor) -> Tensor:
    """Return the tensor at an address as torch allocates it; a copy only where it is not.

    Strides stay where they are dense (channels-last too). Gaps between the numbers are closed,
    wherever the tensor is: what is returned depends on numbers and strides, not on the address.
    """
    dense = torch.empty_like(tensor, device="meta").stride() == tensor.stride()
    return tensor if dense and tensor.data_ptr() % ALIGNMENT == 0 else tensor.clone()
