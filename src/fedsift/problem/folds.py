"""Folds by content: a sample is in the same fold in every run, whatever comes before or after it.

A sample's fold comes from a hash of its input, so it needs no list that would have to be kept, and
survives new samples, a new order and another number. Equal inputs are in the same fold: a copy
of what a head was trained on is never judged by it.
"""

from __future__ import annotations

import hashlib

import numpy as np
import torch
from torch import Tensor

from fedsift.problem.inputs import Inputs, parts

CHUNK = 256


def hashes(inputs: Inputs) -> Tensor:
    """Return a number in [0, 2^62) per sample."""
    found = []
    for part in parts(inputs, CHUNK):
        rows = part.cpu().contiguous().numpy().reshape(len(part), -1)
        for row in rows:
            digest = hashlib.blake2b(row.tobytes(), digest_size=8, person=b"fedsift-fold").digest()
            found.append(int.from_bytes(digest, "little") >> 2)
    return torch.tensor(found, dtype=torch.int64)


def site_folds(inputs: Inputs, folds: int) -> Tensor:
    """Return the fold of every sample; on average they are equally long."""
    return hashes(inputs) % folds


def clean_folds(inputs: Inputs, labels: Tensor, folds: int) -> Tensor:
    """Return the fold of every clean sample; those of a class are dealt out evenly.

    By their rank among the distinct samples of their class: with few samples per class a draw of
    its own for each would leave folds without a class.
    """
    keys = np.stack([labels.cpu().numpy(), hashes(inputs).numpy()])
    _, rank = np.unique(keys, axis=1, return_inverse=True)
    return torch.from_numpy(np.asarray(rank).reshape(-1) % folds).to(torch.int64)
