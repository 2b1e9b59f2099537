"""The keys of one client for one sum, and the masks that they make.

    masked_u = q_u + PRG(b_u) + Σ_{v > u} PRG(k_uv) - Σ_{v < u} PRG(k_uv)   mod 2^32

| symbol | here | what it is |
|---|---|---|
| s_u | `agreement` | X25519 key of this sum; k_uv = HKDF(s_u, S_v) is known to u and v only |
| b_u | `own_seed` | seed of the mask that protects u where it was only taken for absent |
| c_u | `envelope` | X25519 key, of all sums of a secret: by it shares of s_u and b_u travel |

All three come from one secret of the client and the number of the sum, so a site keeps 32 bytes.
PRG is ChaCha20's key stream. No mask and no key of an encryption is used for two sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from fedsift.errors import InputError
from fedsift.secure.fixed_point import Integers
from fedsift.secure.shamir import SHARE

if TYPE_CHECKING:
    from fedsift.secure.primitives import Primitives

KEY = 32
CIPHERTEXT = 2 * SHARE + 16  # both shares and the tag of Poly1305


@dataclass(frozen=True)
class OneTimeKeys:
    """The keys that ``secret`` has for the sum ``number``."""

    secret: bytes
    number: int

    @cached_property
    def agreement(self) -> bytes:
        """Return s_u."""
        return self._derived("agreement")

    @cached_property
    def own_seed(self) -> bytes:
        """Return b_u."""
        return self._derived("own seed")

    @cached_property
    def envelope(self) -> bytes:
        """Return c_u."""
        return primitives().expanded(self.secret, b"fedsift envelope")

    @property
    def publics(self) -> tuple[bytes, bytes]:
        """Return S_u and C_u."""
        return primitives().public(self.agreement), primitives().public(self.envelope)

    def seal(self, to: bytes, shares: bytes) -> bytes:
        """Encrypt shares for the client with this C_v."""
        return primitives().seal(self._channel(to, own_first=True), shares)

    def unseal(self, sender: bytes, sealed: bytes) -> bytes:
        """Decrypt what the client with this C_v has sealed for this one."""
        return primitives().unseal(self._channel(sender, own_first=False), sealed)

    def _channel(self, other: bytes, *, own_first: bool) -> bytes:
        own = primitives().public(self.envelope)
        order = own + other if own_first else other + own
        purpose = f"fedsift shares {self.number} ".encode() + order
        return primitives().agreed(self.envelope, other, purpose)

    def _derived(self, purpose: str) -> bytes:
        return primitives().expanded(self.secret, f"fedsift {purpose} {self.number}".encode())


def mask_of(length: int, private: bytes, others: dict[bool, list[bytes]]) -> Integers:
    """Return Σ PRG(k_uv) over S_v in ``others[True]`` less that over ``others[False]``."""
    own, total = primitives().public(private), np.zeros(length, np.uint32)
    for added, publics in others.items():
        for public in publics:
            order = b"".join(sorted((own, public)))
            stream = prg(primitives().agreed(private, public, b"fedsift mask" + order), length)
            (np.add if added else np.subtract)(total, stream, out=total)
    return total


def prg(seed: bytes, length: int) -> Integers:
    """Return uniform integers modulo 2^32 from a seed of 32 bytes, used once."""
    stream = primitives().key_stream(seed, 4 * length)
    return np.frombuffer(stream, "<u4").astype(np.uint32, copy=False)


def primitives() -> type[Primitives]:
    """Return the cryptographic functions, which are those of an extra."""
    try:
        from fedsift.secure.primitives import Primitives  # noqa: PLC0415 - of the extra
    except ImportError:
        raise InputError("secure_sum needs: pip install 'fedsift[secure]'") from None
    return Primitives
