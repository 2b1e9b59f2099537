"""One rule for all randomness: a generator is derived from (seed, round, client, purpose).

The key is hashed with BLAKE2b, so generators for different keys are independent, the order in
which they are made does not matter, and no global state is read or written.
"""

from __future__ import annotations

import hashlib

import torch

Key = int | str


def derive(*key: Key) -> int:
    """Hash a key to an integer in [0, 2^63)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in key)
    digest = hashlib.blake2b(text.encode(), digest_size=8, person=b"fedsift").digest()
    return int.from_bytes(digest, "little") >> 1


def generator(*key: Key) -> torch.Generator:
    """Return a CPU generator for a key such as ``(seed, round, client, "batches")``."""
    return torch.Generator().manual_seed(derive(*key))
