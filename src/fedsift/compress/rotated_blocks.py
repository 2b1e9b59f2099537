"""The matrix of a count sketch, hashed by blocks: every block is rotated as a whole.

Coordinate i lies in block b = i // c at offset o = i mod c. In row j it has

    bucket  (o + r_j(b)) mod c          sign  σ_j(b) τ_j(o)

| symbol | here | meaning |
|---|---|---|
| r_j, σ_j | `turns` | rotation and sign of a block: 4-wise independent as pairs |
| τ_j | `signs` | sign of an offset: 4-wise independent, and independent of r_j and σ_j |

c + d/c values are hashed instead of d, and memory is read and written in its order. What the sketch
promises stays. Write g_b for the part of g in block b, and Δ = r(b) - r(b'), uniform for b ≠ b'.

*Estimates.* Coordinates of one block never meet; one of block b meets exactly one of every other
block b', each of them with probability 1/c. So the error of row j at i is

    e_i = Σ_{b' ≠ b} σ(b) σ(b') τ(o) τ(o + Δ) g_{b', o + Δ}

whose mean is 0 and whose variance is (‖g‖² - ‖g_b‖²) / c, because σ alone makes the terms of
different b' uncorrelated. This is at most the (‖g‖² - g_i²) / c of a hash per coordinate.

*Norm.* ‖S_j g‖² = ‖g‖² + Σ_{b ≠ b'} σ(b) σ(b') C_bb' with C_bb' = Σ_o τ(o) τ(o + Δ) g_{b,o}
g_{b',o+Δ}: on average ‖g‖². The signs σ(b) τ(o) are *not* 4-wise independent: of the corners of a
rectangle, (b, o), (b, p), (b', o), (b', p), the product is always 1. It is enough that σ is over
blocks and τ over offsets. By σ, the variance is 2 Σ_{b ≠ b'} E C_bb'². By τ, only o = p remains in
E C_bb'² for Δ ≠ 0, and for Δ = c/2 besides the terms u_o u_{o+c/2}, u_o = g_{b,o} g_{b',o}, whose
sum is at most Σ u_o², which is what Δ = 0 lacks of the first kind. For Δ = 0 all signs are 1. So

    E C_bb'² ≤ (‖g_b‖² ‖g_b'‖² + ⟨g_b, g_b'⟩²) / c
    Var ‖S_j g‖² ≤ (2 ‖g‖⁴ + 2 Σ_{b ≠ b'} ⟨g_b, g_b'⟩²) / c ≤ 4 ‖g‖⁴ / c

against 2 ‖g‖⁴ / c of 4-wise signs: as good for blocks that are not alike, and at worst, where all
are parallel, with twice the variance.

*Together.* Errors within a block depend on each other: where two blocks have their large
coordinates at the same offsets, they meet all or none. Expected numbers of misses stay, and so does
the median's bound for each coordinate; their variance over seeds grows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor
from torch.nn.functional import pad

from fedsift.compress.hashing import HashFamily

CHUNK = 2**17  # numbers at a time, at least a block: some copies of them stay in a core's cache
SHORT = 2**13  # blocks below this length are added many at a time
SIGNS = 2**32  # the row of the hash family from which τ is drawn


@dataclass(frozen=True)
class RotatedBlocks:
    """The matrices S_j in R^{columns x length} that belong to a seed, one per row."""

    seed: int
    rows: int
    columns: int
    length: int
    _kept: dict[tuple[torch.device, torch.dtype], Tensor] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        HashFamily(self.seed, self.rows, self.columns)  # checks them

    def cells(self) -> Tensor:
        """Return bucket + columns * (sign < 0) of every coordinate, a row each: the definition."""
        turn, negative = self.turns % self.columns, self.turns // self.columns
        b = torch.arange(self.length) // self.columns
        o = torch.arange(self.length) % self.columns
        flipped = negative[:, b] ^ (self.signs[:, o] < 0).long()
        return (o + turn[:, b]) % self.columns + self.columns * flipped

    @property
    def blocks(self) -> int:
        """How many blocks there are; the last may be shorter."""
        return -(-self.length // self.columns)

    @cached_property
    def turns(self) -> Tensor:
        """r_j(b) + columns * (σ_j(b) < 0), [rows, blocks], on the CPU: nothing is read back."""
        family = HashFamily(self.seed, self.rows, self.columns)
        return torch.cat([cells for _, cells in family.blocks(self.blocks, torch.device("cpu"))], 1)

    @cached_property
    def signs(self) -> Tensor:
        """τ_j(o), [rows, columns]."""
        family = HashFamily(self.seed, self.rows, 1, SIGNS)
        cells = [part for _, part in family.blocks(self.columns, torch.device("cpu"))]
        return (1 - 2 * torch.cat(cells, dim=1)).to(torch.int8)

    def apply(self, g: Tensor) -> Tensor:
        """Return S_j g of every row; the same bits every time."""
        return self._many(g) if self.columns < SHORT else self._one_by_one(g)

    def rows_of(self, table: Tensor) -> Iterator[tuple[slice, list[Tensor]]]:
        """Yield places of a vector, and what every row of a table holds for them: S_j^T t_j."""
        c, signs, turns = self.columns, self._signs_like(table), self.turns.to(table.device)
        turned = []  # row ρ of it is a block's part of the table under the rotation and sign ρ
        for row in table:
            ring = torch.cat((row, row, -row, -row))
            turned.append(ring.as_strided((3 * c, c), (1, 1)))
        where = turns + torch.where(turns < c, 0, c)
        step = max(1, CHUNK // (c * self.rows))
        for start in range(0, self.blocks, step):
            stop = min(self.blocks, start + step)
            place = slice(start * c, min(stop * c, self.length))
            size = place.stop - place.start
            yield (
                place,
                [
                    view.index_select(0, index[start:stop]).mul_(sign).flatten()[:size]
                    for view, index, sign in zip(turned, where, signs, strict=True)
                ],
            )

    def _one_by_one(self, g: Tensor) -> Tensor:
        """Add block after block to a ring that is cut open: longer by what stands over."""
        c, signs = self.columns, self._signs_like(g).unbind()
        sums = g.new_zeros(self.rows, 2 * c)
        rings, turns = sums.unbind(), self.turns.T.tolist()
        for block, turn in zip(torch.split(g, c), turns, strict=True):
            n = len(block)
            for ring, sign, where in zip(rings, signs, turn, strict=True):
                negative, r = divmod(where, c)
                ring[r : r + n].addcmul_(block, sign[:n], value=1 - 2 * negative)
        return sums[:, :c] + sums[:, c:]

    def _many(self, g: Tensor) -> Tensor:
        """Add many blocks at a time: twice one after the other, a block holds all its rotations."""
        c, signs, turns = self.columns, self._signs_like(g), self.turns.to(g.device)
        starts, flips = c - turns % c, (1 - 2 * (turns // c)).to(g.dtype).unsqueeze(2)
        sums, step = g.new_zeros(self.rows, c), max(1, CHUNK // c)
        for first in range(0, self.blocks, step):
            part = g[first * c : (first + step) * c]
            blocks = pad(part, (0, -len(part) % c)).view(-1, c)
            now = slice(first, first + len(blocks))
            twice = g.new_empty(len(blocks), 2, c)
            rotations = twice.view(-1).as_strided((twice.numel() - c + 1, c), (1, 1))
            corners = torch.arange(0, twice.numel(), 2 * c, device=g.device)
            for total, sign, start, flip in zip(sums, signs, starts, flips, strict=True):
                twice.copy_((blocks * sign).unsqueeze(1))
                turned = rotations.index_select(0, corners + start[now])
                total.add_(turned.mul_(flip[now]).sum(dim=0))
        return sums

    def _signs_like(self, g: Tensor) -> Tensor:
        """Return τ_j(o) as numbers of g's kind, [rows, columns]."""
        key = (g.device, g.dtype)
        if key not in self._kept:
            self._kept[key] = self.signs.to(*key)
        return self._kept[key]
