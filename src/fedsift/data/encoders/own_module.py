"""``module:function``: an encoder of one's own.

The contract: the function takes nothing and returns an ``nn.Module`` with its weights loaded. The
module takes a tensor [k, ...] as the schema's preparation makes it (standardised pictures
[k, C, H, W]; rows [k, columns]; arrays as they are) and returns features [k, d].
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from fedsift import device
from fedsift.data.encoders.encoder import Batch, Reads, brief, features, frozen, weights_hash
from fedsift.errors import InputError
from fedsift.references import call


@dataclass(frozen=True, eq=False)
class OwnModule:
    """A user's module on prepared inputs."""

    spec: str
    fingerprint: str
    module: nn.Module
    device: torch.device
    reads: Reads = "inputs"

    @torch.no_grad()
    def encode(self, batch: Batch) -> Tensor:
        """Return features [k, d]."""
        inputs = cast("Tensor", batch)
        try:
            output = self.module(inputs.to(self.device))
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"encoder {self.spec} failed on inputs {list(inputs.shape)} ({brief(error)}); it "
                "must take what the schema prepares"
            ) from error
        return features(output, self.spec)


def load(spec: str, kind: str) -> OwnModule:  # noqa: ARG001
    """Import the function and call it."""
    module = call(spec)
    if not isinstance(module, nn.Module):
        raise InputError(f"{spec} returned a {type(module).__name__} and not an nn.Module")
    place = device.resolve("auto")
    return OwnModule(spec, weights_hash(module), frozen(module, place), place)
