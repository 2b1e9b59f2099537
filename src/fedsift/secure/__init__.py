"""Secure summation (Bonawitz et al. 2017): what the server needs so that it sees sums only.

fixed_point    numbers as integers modulo 2^32, so that masks cancel without rounding
shamir         a secret in shares, any t of which give it back
one_time_keys  the keys of one client for one sum, and the masks that they make
"""

from fedsift.secure.fixed_point import FixedPoint, exponent
from fedsift.secure.one_time_keys import CIPHERTEXT, KEY, OneTimeKeys, mask_of, prg
from fedsift.secure.shamir import SHARE, combine, needed, split

__all__ = [
    "CIPHERTEXT",
    "KEY",
    "SHARE",
    "FixedPoint",
    "OneTimeKeys",
    "combine",
    "exponent",
    "mask_of",
    "needed",
    "prg",
    "split",
]
