from __future__ import annotations

import numpy as np
import pytest
import torch

from fedsift.compress import (
    COMPRESSORS,
    ClientFeedback,
    CountSketch,
    Identity,
    NoFeedback,
    SketchFeedback,
    TopK,
    feedback_for,
)
from fedsift.compress.rotated_blocks import RotatedBlocks
from fedsift.errors import InputError
from fedsift.randomness import generator

LENGTH, SHARES = 60, [0.5, 0.3, 0.2]


def product(iteration: int, client: int, length: int = LENGTH) -> torch.Tensor:
    return torch.randn(length, generator=generator(iteration, client), dtype=torch.float64)


def test_no_feedback_with_identity_is_the_weighted_mean():
    feedback = NoFeedback(Identity(LENGTH))
    products = [product(0, m) for m in range(3)]
    payloads = [feedback.client(p, 0.1, None)[0] for p in products]

    delta, memory = feedback.server(payloads, SHARES, 0.1, None)

    expected = 0.1 * sum(w * p for w, p in zip(SHARES, products, strict=True))
    torch.testing.assert_close(delta, expected)
    assert memory is None


def test_client_feedback_loses_nothing():
    """What was sent and what is remembered add up to every step that was asked, to the last bit."""
    feedback = ClientFeedback(TopK(LENGTH, 5))
    memory, sent, wanted = None, torch.zeros(LENGTH).double(), torch.zeros(LENGTH).double()
    for i in range(20):
        # Multiples of 2^-20 add without rounding in float64.
        p = (product(i, 0) * 2**20).round() / 2**20
        payload, memory = feedback.client(p, 0.5, memory)
        sent += feedback.compressor.decompress(payload)
        wanted += 0.5 * p
    assert torch.equal(sent + memory, wanted)
    assert memory.norm() > 0


def test_client_feedback_steps_by_what_the_clients_sent():
    feedback = ClientFeedback(TopK(LENGTH, 5))
    answers = [feedback.client(product(0, m), 0.1, product(1, m)) for m in range(3)]

    delta, _ = feedback.server([payload for payload, _ in answers], SHARES, 0.1, None)

    for m, (_, memory) in enumerate(answers):
        q = (0.1 * product(0, m) + product(1, m)).numpy()
        q[np.argsort(-np.abs(q))[:5]] = 0
        np.testing.assert_allclose(memory, q)
    wanted = [0.1 * product(0, m) + product(1, m) - answers[m][1] for m in range(3)]
    torch.testing.assert_close(delta, sum(w * q for w, q in zip(SHARES, wanted, strict=True)))


def dense_sketch(sketch: CountSketch) -> np.ndarray:
    cells = RotatedBlocks(sketch.seed, sketch.rows, sketch.columns, sketch.length).cells()
    S = np.zeros((sketch.rows, sketch.columns, sketch.length))
    for j, i in np.ndindex(sketch.rows, sketch.length):
        negative, bucket = divmod(int(cells[j, i]), sketch.columns)
        S[j, bucket, i] = 1 - 2 * negative
    return S


def test_sketch_feedback_replays_algorithm_2():
    """Lines 6-10 with S as a dense matrix."""
    sketch = CountSketch(LENGTH, rows=3, columns=20, seed=9, heavy=4)
    feedback, S = SketchFeedback(sketch), dense_sketch(sketch)
    memory, S_e = None, np.zeros((3, 20))
    for i in range(6):
        alpha = 0.5 / (i + 1)
        payloads = [feedback.client(product(i, m), alpha, None)[0] for m in range(3)]
        delta, memory = feedback.server(payloads, SHARES, alpha, memory)

        S_G = sum(w * (S @ product(i, m).numpy()) for m, w in enumerate(SHARES))
        z = alpha * S_G + S_e
        estimate = np.median(np.einsum("jci,jc->ji", S, z), axis=0)
        expected = np.zeros(LENGTH)
        kept = np.argsort(-np.abs(estimate), kind="stable")[:4]  # the order of ties matters
        expected[kept] = estimate[kept]
        S_e = z - S @ expected

        np.testing.assert_allclose(delta, expected, atol=1e-12)
        np.testing.assert_allclose(memory, S_e, atol=1e-12)


def growth_of_the_memory(columns: int, heavy: int | None) -> float:
    """How much a sketch of noise grows while it is drained through 60 empty iterations."""
    sketch = CountSketch(2000, rows=5, columns=columns, seed=0, heavy=heavy)
    feedback = SketchFeedback(sketch)
    start = memory = sketch.compress(product(0, 0, 2000)).table
    nothing = sketch.compress(torch.zeros(2000).double())
    for _ in range(60):
        _, memory = feedback.server([nothing], [1.0], 1.0, memory)
    return float(memory.norm() / start.norm())


@pytest.mark.parametrize("columns", [64, 200])
def test_the_default_number_of_heavy_hitters_is_stable(columns):
    assert growth_of_the_memory(columns, heavy=None) < 2


@pytest.mark.parametrize("columns", [64, 200])
def test_the_check_of_stability_rejects_too_many_heavy_hitters(columns):
    assert growth_of_the_memory(columns, heavy=columns // 2) > 2


@pytest.mark.parametrize("name", COMPRESSORS)
def test_without_compression_all_give_the_plain_step(make, name):
    """At rate 1 Top-k and identity are exact, and so is a sketch of a vector with one number."""
    feedback = feedback_for(make(name, LENGTH, rate=1))
    p = torch.zeros(LENGTH, dtype=torch.float64)
    p[17] = 3.0
    payload, _ = feedback.client(p, 0.5, None)
    delta, memory = feedback.server([payload], [1.0], 0.5, None)
    torch.testing.assert_close(delta, 0.5 * p)
    assert memory is None or not memory.any()


@pytest.mark.parametrize("name", COMPRESSORS)
@pytest.mark.parametrize("shares", [[], [1.0], [0.5, 0.6], [0.5, float("nan")]])
def test_shares_that_are_not_shares_are_refused(make, name, shares):
    feedback = feedback_for(make(name, LENGTH, rate=2))
    payloads = [feedback.client(product(0, m), 0.1, None)[0] for m in range(2)]
    with pytest.raises(InputError, match="share"):
        feedback.server(payloads, shares, 0.1, None)


@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_step_without_clients_is_refused(make, name):
    with pytest.raises(InputError, match="0 payloads"):
        feedback_for(make(name, LENGTH, rate=2)).server([], [], 0.1, None)


@pytest.fixture(params=COMPRESSORS)
def feedback(make, request):
    return feedback_for(make(request.param, LENGTH, rate=2))


def sent(feedback, products):
    return [feedback.client(p, 0.1, None)[0] for p in products]


def test_clients_may_be_pooled_exactly_where_it_changes_nothing(feedback):
    """The payload of the mean product against the payloads of all; Top-k fails the comparison."""
    products = [product(0, m) for m in range(3)]
    mean = sum(w * p for w, p in zip(SHARES, products, strict=True))

    pooled, _ = feedback.server(sent(feedback, [mean]), [1.0], 0.1, None)
    apart, _ = feedback.server(sent(feedback, products), SHARES, 0.1, None)

    assert torch.allclose(pooled, apart) == feedback.poolable == feedback.compressor.linear


def test_the_error_is_the_norm_of_what_was_not_sent(feedback):
    """Two units of which a sketch may keep one; whoever remembers the other reports its norm."""
    p = torch.zeros(LENGTH, dtype=torch.float64)
    p[3], p[17] = 30.0, 1.0
    payload, at_client = feedback.client(p, 0.1, None)
    delta, memory = feedback.server([payload], [1.0], 0.1, None)
    reported = 0.0 if at_client is None else float(at_client.norm())
    expected = float((0.1 * p - delta).norm())
    assert feedback.error(memory, reported) == pytest.approx(expected, abs=1e-12)


def test_a_sketch_of_another_seed_is_refused():
    feedback = SketchFeedback(CountSketch(LENGTH, 3, 5, seed=0))
    payload = CountSketch(LENGTH, 3, 5, seed=1).compress(product(0, 0))
    with pytest.raises(InputError, match="same compressor"):
        feedback.server([payload], [1.0], 0.1, None)


def test_a_memory_of_another_shape_is_refused():
    sketch = SketchFeedback(CountSketch(LENGTH, 3, 5, seed=0))
    payload, _ = sketch.client(product(0, 0), 0.1, None)
    with pytest.raises(InputError, match="memory"):
        sketch.server([payload], [1.0], 0.1, torch.zeros(3, 6))
    with pytest.raises(InputError, match="memory"):
        ClientFeedback(TopK(LENGTH, 5)).client(product(0, 0), 0.1, torch.zeros(1))
