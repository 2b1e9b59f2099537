"""Who is named: those that go against the others, and those that send the same again."""

import torch

from fedsift.compress import Sparse
from fedsift.federation.suspicion import FIRST, Directions, cosines
from fedsift.randomness import generator

D = 50


def updates(k, against=()):
    noise = torch.randn(6, D, generator=generator(k, "updates"))
    common = torch.ones(D)
    return {m: (-1 if m in against else 1) * (common + noise[m]) for m in range(6)}


def test_cosines_are_those_with_the_sum_of_the_others_at_length_one():
    found = updates(0)
    unit = {m: u / u.norm() for m, u in found.items()}
    for m, cosine in cosines(found).items():
        rest = sum(u for n, u in unit.items() if n != m)
        expected = torch.nn.functional.cosine_similarity(unit[m], rest, dim=0)
        assert abs(cosine - float(expected)) < 1e-5


def test_sparse_updates_have_the_cosines_of_dense_ones():
    dense = {m: u * (u > 0) for m, u in updates(0).items()}
    sparse = {m: Sparse(u.nonzero().squeeze(1), u[u > 0], D) for m, u in dense.items()}
    for m, cosine in cosines(sparse).items():
        assert abs(cosine - cosines(dense)[m]) < 1e-5


def test_who_goes_against_the_others_is_named_and_nobody_else():
    directions = Directions()
    for k in range(FIRST + 1):
        named = directions.see(updates(k, against=(2,)), k)
    assert list(named) == [2]
    assert "point elsewhere" in named[2]


def test_the_same_update_again_is_named_unless_the_round_is_done_again():
    directions, same = Directions(), updates(0)
    directions.see(same, 0)
    assert not directions.see(same, 0)
    assert "is that of round 1" in directions.see(same, 1)[0]
