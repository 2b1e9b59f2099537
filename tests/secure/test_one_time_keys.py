"""Masks cancel in the sum, differ from sum to sum, and shares open for their receiver only."""

import os

import numpy as np
import pytest

from fedsift.errors import InputError
from fedsift.secure import CIPHERTEXT, SHARE, OneTimeKeys, mask_of, prg


def _clients(n, number=0):
    return [OneTimeKeys(os.urandom(32), number) for _ in range(n)]


def _mask(clients, place, length):
    publics = [c.publics[0] for c in clients]
    others = {True: publics[place + 1 :], False: publics[:place]}
    return mask_of(length, clients[place].agreement, others)


def test_pairwise_masks_cancel():
    clients = _clients(5)
    masks = [_mask(clients, place, 1000) for place in range(5)]
    assert not sum(masks[1:], masks[0]).any()
    assert all(m.any() for m in masks)


def test_a_mask_is_uniform_and_of_one_sum_only():
    first = _clients(2)
    second = [OneTimeKeys(c.secret, 1) for c in first]
    one, other = (_mask(c, 0, 100_000) for c in (first, second))
    assert abs(one.astype(float).mean() / 2**31 - 1) < 0.01  # 5 standard errors are 0.009
    assert np.mean(one == other) < 1e-3
    assert first[0].publics[0] != second[0].publics[0]
    assert first[0].own_seed != second[0].own_seed


def test_the_stream_is_that_of_chacha20():
    """RFC 8439, A.1, test vector 1: key and nonce zero, counter zero."""
    head = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28")
    assert prg(bytes(32), 4).astype("<u4").tobytes() == head


def test_shares_open_for_their_receiver_only():
    a, b, c = _clients(3)
    sealed = a.seal(b.publics[1], b"x" * 2 * SHARE)
    assert len(sealed) == CIPHERTEXT
    assert b.unseal(a.publics[1], sealed) == b"x" * 2 * SHARE
    later = OneTimeKeys(b.secret, 1)
    for keys, sender in ((c, a), (b, c), (later, a)):
        with pytest.raises(InputError, match="does not come from"):
            keys.unseal(sender.publics[1], sealed)


def test_a_public_key_of_zeros_is_refused():
    with pytest.raises(InputError, match="public key"):
        mask_of(3, os.urandom(32), {True: [bytes(32)]})
