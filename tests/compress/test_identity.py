from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsift.compress import Identity


@given(st.lists(st.floats(), min_size=1, max_size=20))
def test_nothing_is_lost(numbers):
    g = torch.tensor(numbers, dtype=torch.float64)
    identity = Identity(len(g))
    out = identity.decompress(identity.compress(g))
    assert torch.equal(out.view(torch.int64), g.view(torch.int64))
