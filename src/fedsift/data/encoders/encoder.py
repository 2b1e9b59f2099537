"""What a frozen encoder is: a network that nobody trains here, from samples to features."""

from __future__ import annotations

from typing import ClassVar, Literal, Protocol, runtime_checkable

from torch import Tensor

from fedsift.data.samples import Content


@runtime_checkable
class Encoder(Protocol):
    """Features of samples, from weights that stay as they are.

    ``reads``   what it is given: ``content``, samples as their owner has them; or ``inputs``, the
                numbers that a preparation fitted on the clean set makes of them
    """

    reads: ClassVar[Literal["content", "inputs"]]

    @property
    def spec(self) -> str:
        """How it was asked for, such as ``timm:resnet18``."""
        ...

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its weights: equal at all sites, or features mean different things."""
        ...

    def check(self, content: Content, where: str) -> tuple[str, ...]:
        """Refuse samples that it cannot read; say what it leaves out of others."""
        ...

    def encode(self, batch: Content | Tensor) -> Tensor:
        """Return features [k, d] of a small content, or of inputs [k, ...]."""
        ...
