"""Every v that Algorithm 2 passes through, and what it had cost until then."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedsift.hypergradient import Guard
from fedsift.messages import Federation, Traffic


@dataclass(frozen=True)
class Watch(Guard):
    """A guard that looks on: it keeps each v, and stops only where a number became infinite.

    ``seen`` is v_2, v_3, ...: the first step from v_0 = 0 needs no exchange.
    """

    federation: Federation | None = None
    seen: list[Tensor] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)

    def verdict(self, residual: float, error: float, v: Tensor) -> str | None:  # noqa: ARG002
        """Keep v."""
        if not bool(torch.isfinite(v).all()):
            return "a number became infinite"
        self.seen.append(v)
        if self.federation is not None:
            self.traffic.append(self.federation.traffic)
        return None
