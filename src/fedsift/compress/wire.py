"""Payloads and scalars as bytes: one small, versioned, little-endian format.

| bytes | field |
|---|---|
| 4 | magic `fsft` |
| 1 | version, 4 |
| 1 | kind: 1 dense, 2 sparse, 3 sketch, 4 scalars |
| 1 | dtype: 1 float32, 2 float64, 3 float16, 4 bfloat16, 5 int64, 6 uint8 |
| 1 | n, number of dimensions, at most 8 |
| 8 n | shape |
| 8 | length (sparse and sketch only) |
| 8 | seed of a sketch; form of a sparse vector: bits of a value + 2^7 c + 2^8 (e + 2^15), or 0 |
| rest | data |

The data of a dense tensor or a sketch is row-major. A sparse vector has shape [k]: its values, of
the dtype or, rounded, in 16 or 8 bits with a common exponent e (`rounding.py`), which are in the
code of `huffman.py` where that is shorter (c = 1); then its indices, strictly ascending, in the
code of `rice.py`.

Scalars are a flat JSON object in UTF-8, its bytes stored as a uint8 tensor of one dimension;
values are bool, 64-bit int, float, str or null. NaN and infinities survive, as the literals `NaN`,
`Infinity` and `-Infinity` of Python's json.

`decode` trusts nothing: what does not parse exactly is a `WireError`, and it allocates no more than
a small multiple of the bytes it was given.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from fedsift.compress import huffman, rice
from fedsift.compress.payload import Payload, Sketch, Sparse
from fedsift.compress.rounding import FARTHEST, FORMS, WHOLE, codes, exponent_of, read_codes
from fedsift.errors import WireError
from fedsift.memory import aligned

Scalar: TypeAlias = bool | int | float | str | None
Scalars: TypeAlias = Mapping[str, Scalar]

MAGIC, VERSION, MAX_DIMS = b"fsft", 4, 8
DENSE, SPARSE, SKETCH, SCALARS = 1, 2, 3, 4
EXTRAS = {DENSE: 0, SPARSE: 2, SKETCH: 2, SCALARS: 0}  # fields after the shape
NDIM = {SPARSE: 1, SKETCH: 2, SCALARS: 1}
PREFIX = struct.Struct("<4sBBBB")
BIAS, CODED = 2**15, 2**7  # of the exponent of rounded values; that they are in Huffman's code

DTYPES = {
    1: torch.float32,
    2: torch.float64,
    3: torch.float16,
    4: torch.bfloat16,
    5: torch.int64,
    6: torch.uint8,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}
# Bits travel as integers of the same width: numpy has no bfloat16, and NaNs keep their payload.
CARRIERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class _Header:
    kind: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    extras: tuple[int, ...] = ()

    def encode(self) -> bytes:
        prefix = PREFIX.pack(MAGIC, VERSION, self.kind, CODES[self.dtype], len(self.shape))
        fields = (*self.shape, *self.extras)
        return prefix + struct.pack(f"<{len(fields)}Q", *fields)

    @property
    def size(self) -> int:
        return PREFIX.size + 8 * (len(self.shape) + len(self.extras))

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """How many bits a value of a sparse vector was rounded to; 0 if it was not."""
        return self.extras[1] % CODED if self.kind == SPARSE else WHOLE

    @property
    def coded(self) -> bool:
        """If the values of a sparse vector are in Huffman's code."""
        return self.kind == SPARSE and bool(self.extras[1] & CODED)

    @property
    def exponent(self) -> int:
        """The exponent that rounded values have in common."""
        return self.extras[1] // 2**8 - BIAS

    @property
    def values_size(self) -> int:
        return self.count * (self.bits // 8 or self.dtype.itemsize)

    def check_size(self, found: int) -> None:
        """Refuse a body of another size; that of the indices of a sparse vector is not known."""
        least = 0 if self.coded else self.values_size
        if self.kind == SPARSE:
            least += rice.least_size(self.count, self.extras[0])
        if found < least or (found > least and self.kind != SPARSE):
            problem = "truncated" if found < least else "followed by other bytes"
            raise WireError(
                f"a payload is {problem}: its header announces {least} bytes of data and {found}"
                " came; send it again"
            )


def encode(payload: Payload | Scalars) -> bytes:
    """Return the payload, or a flat mapping of scalars, as bytes."""
    if isinstance(payload, Mapping):
        text = _dump(payload)
        return _Header(SCALARS, torch.uint8, (len(text),)).encode() + text
    header = _header(payload)
    if isinstance(payload, Sparse):
        _check_indices(payload.indices, len(payload.values), payload.length)
        header, data = _values(payload, header)
        indices = rice.encode(payload.indices.cpu().numpy(), payload.length)
        return b"".join((header.encode(), data, indices))
    values = payload.table if isinstance(payload, Sketch) else payload
    return b"".join((header.encode(), _bits(values)))


def size(payload: Payload | Scalars) -> int:
    """Return len(encode(payload)) without copying a dense tensor."""
    if isinstance(payload, Mapping):
        text = _dump(payload)
        return _Header(SCALARS, torch.uint8, (len(text),)).size + len(text)
    header = _header(payload)
    if not isinstance(payload, Sparse):
        return header.size + header.values_size
    _check_indices(payload.indices, len(payload.values), payload.length)
    _, values = _values(payload, header)
    indices = rice.size(payload.indices.cpu().numpy(), payload.length)
    return header.size + values.nbytes + indices


def decode(data: bytes | memoryview, limit: int | None = None) -> Payload | dict[str, Scalar]:
    """Return what `encode` was given; tensors are on the CPU, writable, and own their memory.

    `limit` is the largest number of bytes to accept.
    """
    view = memoryview(data).cast("B")
    if limit is not None and len(view) > limit:
        raise WireError(f"a payload of {len(view)} bytes is over the limit of {limit} bytes")
    header = _read_header(view)
    body = view[header.size :]
    header.check_size(len(body))
    if header.kind == SCALARS:
        return _load(bytes(body))
    if header.kind == SPARSE:
        return _read_sparse(header, body)
    values = _read(body, header.dtype).reshape(header.shape)
    return Sketch(values, *header.extras) if header.kind == SKETCH else values


def _header(payload: Payload) -> _Header:
    """Describe a payload, or refuse one that has no encoding."""
    if isinstance(payload, Sparse):
        form = payload.bits + 2**8 * (exponent_of(payload.values) + BIAS) if payload.bits else 0
        return _header_of(SPARSE, payload.values, payload.length, form)
    if isinstance(payload, Sketch):
        return _header_of(SKETCH, payload.table, payload.length, payload.seed)
    if isinstance(payload, Tensor):
        return _header_of(DENSE, payload)
    raise WireError(f"a {type(payload).__name__} cannot be encoded; give a payload or a mapping")


def _header_of(kind: int, values: Tensor, *extras: int) -> _Header:
    if values.dtype not in CODES:
        raise WireError(f"a tensor of {values.dtype} cannot be encoded; convert it to float32")
    if any(not 0 <= extra < 2**64 for extra in extras):
        raise WireError(f"a length or seed in {extras} does not fit 64 bits; give another")
    return _checked(_Header(kind, values.dtype, tuple(values.shape), extras))


def _read_header(view: memoryview) -> _Header:
    if len(view) < PREFIX.size:
        raise WireError(f"a payload is truncated after {len(view)} bytes, send it again")
    magic, version, kind, code, ndim = PREFIX.unpack_from(view)
    if magic != MAGIC:
        raise WireError(f"the bytes start with {magic!r}, so they are not a fedsift payload")
    if version != VERSION:
        raise WireError(
            f"a payload has version {version}; this fedsift reads only version {VERSION}"
        )
    if kind not in EXTRAS or code not in DTYPES:
        raise WireError(f"a payload has unknown kind {kind} or dtype {code}")
    fields = ndim + EXTRAS[kind]
    if len(view) < PREFIX.size + 8 * fields:
        raise WireError(f"a payload is truncated after {len(view)} bytes, send it again")
    numbers = struct.unpack_from(f"<{fields}Q", view, PREFIX.size)
    return _checked(_Header(kind, DTYPES[code], numbers[:ndim], numbers[ndim:]))


def _checked(header: _Header) -> _Header:
    ndim = len(header.shape)
    if ndim > MAX_DIMS or ndim != NDIM.get(header.kind, ndim):
        raise WireError(f"a payload of kind {header.kind} cannot have {ndim} dimensions")
    if header.kind == SCALARS and header.dtype != torch.uint8:
        raise WireError(f"scalars come as {header.dtype}; they must be UTF-8 bytes")
    if header.kind == SPARSE and header.extras[1] and not _is_form(header):
        raise WireError("the values of a sparse vector are in a form that this fedsift cannot read")
    if math.prod(max(n, 1) for n in header.shape) >= 2**63:  # even an empty one has strides
        raise WireError(f"a tensor of shape {header.shape} is too large for any machine")
    return header


def _bits(values: Tensor) -> memoryview:
    """Return the numbers of a tensor as little-endian integers of the same bits."""
    flat = values.detach().cpu().reshape(-1).view(CARRIERS[values.dtype.itemsize]).numpy()
    return flat.astype(flat.dtype.newbyteorder("<"), copy=False).data


def _read(view: memoryview, dtype: torch.dtype) -> Tensor:
    carrier = torch.empty(0, dtype=CARRIERS[dtype.itemsize]).numpy().dtype
    flat = np.frombuffer(view, carrier.newbyteorder("<")).astype(carrier)  # always a copy
    return aligned(torch.from_numpy(flat).view(dtype))


def _values(payload: Sparse, header: _Header) -> tuple[_Header, memoryview]:
    """Return the values of a sparse vector, or refuse what was not rounded to its bits."""
    if not header.bits:
        return header, _bits(payload.values)
    small = codes(payload.values, header.bits, header.exponent)
    again = read_codes(small, header.bits, header.exponent, header.dtype)
    if not torch.equal(again, payload.values):
        raise WireError(f"values that are not rounded to {header.bits} bits cannot travel in them")
    plain = _bits(small)
    coded = huffman.encode(plain, header.bits // 8)
    if len(coded) >= plain.nbytes:
        return header, plain
    length, form = header.extras
    return replace(header, extras=(length, form + CODED)), memoryview(coded)


def _is_form(header: _Header) -> bool:
    """Tell if values can come in this form: few bits, and an exponent that any machine reads."""
    known = header.bits in FORMS and header.dtype in {torch.float32, torch.float64}
    return known and abs(header.exponent) <= FARTHEST


def _read_sparse(header: _Header, body: memoryview) -> Sparse:
    end, length = header.values_size, header.extras[0]
    data, rest = body[:end], body[end:]
    if header.coded:
        data, rest = huffman.decode(body, header.bits // 8, header.count)
    indices = aligned(torch.from_numpy(rice.decode(rest, header.count, length)))
    _check_indices(indices, header.count, length)
    if not header.bits:
        return Sparse(indices, _read(data, header.dtype), length)
    small = _read(data, FORMS[header.bits][0])
    values = read_codes(small, header.bits, header.exponent, header.dtype)
    return Sparse(indices, values, length, header.bits)


def _check_indices(indices: Tensor, count: int, length: int) -> None:
    if indices.dtype != torch.int64 or indices.shape != (count,):
        raise WireError(f"a sparse vector needs one int64 index for each of its {count} values")
    if count == 0:
        return
    first, last = int(indices[0]), int(indices[-1])
    if first < 0 or last >= min(length, 2**32) or not bool((indices.diff() > 0).all()):
        raise WireError(
            f"the indices of a sparse vector must be ascending, in [0, {length}) and below 2^32"
        )


def _dump(scalars: Scalars) -> bytes:
    _check_scalars(scalars.items())
    return json.dumps(dict(scalars), ensure_ascii=False, separators=(",", ":")).encode()


def _load(text: bytes) -> dict[str, Scalar]:
    try:
        # Objects become tuples, so that repeated keys and nested objects are noticed.
        pairs = json.loads(text.decode(), object_pairs_hook=tuple)
    except (ValueError, RecursionError) as error:
        raise WireError("the scalars of a payload are not a JSON object in UTF-8") from error
    if not isinstance(pairs, tuple) or len(dict(pairs)) != len(pairs):
        raise WireError("the scalars of a payload must be one JSON object without repeated keys")
    _check_scalars(pairs)
    return dict(pairs)


def _check_scalars(pairs: Iterable[tuple[str, Scalar]]) -> None:
    for key, value in pairs:
        if not isinstance(key, str) or not isinstance(value, bool | int | float | str | None):
            raise WireError(
                f"scalar {key!r} must have a str as its name and be a bool, int, float, str or None"
            )
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise WireError(f"scalar {key!r} does not fit 64 bits; send it as a float or a string")
        try:
            f"{key}{value}".encode()
        except UnicodeEncodeError as error:
            raise WireError(
                f"scalar {key!r} cannot be encoded as UTF-8; send other text"
            ) from error
