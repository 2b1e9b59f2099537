"""EF21 and what it is for a sketch, against the plain recursion."""

import pytest
import torch

from fedsift.compress import EF21, ClientGradient, CountSketch, SketchGradient, SketchTracking, TopK
from fedsift.errors import InputError
from fedsift.randomness import generator

D, SHARES = 60, [0.5, 0.3, 0.2]


def vector(*key):
    return torch.randn(D, generator=generator(*key), dtype=torch.float64)


def test_both_sides_keep_the_same():
    """The server's mean is that of what the clients say they have sent."""
    feedback, memory = EF21(TopK(D, 5)), None
    known = [torch.zeros(D).double() for _ in SHARES]
    for i in range(8):
        payloads = []
        for m in range(3):
            payload, known[m] = feedback.client(vector(i, m), 0.1, known[m] if i else None)
            payloads.append(payload)
        delta, memory = feedback.server(payloads, SHARES, 0.1, memory, total=40.0)
        torch.testing.assert_close(
            delta, 0.1 * sum(w * g for w, g in zip(SHARES, known, strict=True))
        )


def test_of_a_product_that_stays_everything_arrives():
    feedback, p, known, memory = EF21(TopK(D, 5)), vector(0), None, None
    for _ in range(D // 5):
        payload, known = feedback.client(p, 0.1, known)
        delta, memory = feedback.server([payload], [1.0], 0.1, memory)
    torch.testing.assert_close(delta, 0.1 * p)
    assert feedback.left(p, 0.1, known) < 1e-12


def test_cohorts_change_and_nobody_is_counted_twice():
    """Clients 0, 1, then 1, 2: the third comes late, sends the whole, and the first stays in."""
    feedback, sizes = EF21(TopK(D, 5)), {0: 10.0, 1: 20.0, 2: 30.0}
    known, memory = {}, None
    for fresh, cohort in ((True, (0, 1)), (False, (1, 2)), (False, (0, 2))):
        payloads, total = [], sum(sizes[m] for m in cohort)
        for m in cohort:
            payload, known[m] = feedback.client(vector(m), 0.1, known.get(m), fresh=fresh)
            payloads.append(payload)
        shares = [sizes[m] / total for m in cohort]
        delta, memory = feedback.server(payloads, shares, 1.0, memory, total=total)
    torch.testing.assert_close(known[2], vector(2))
    torch.testing.assert_close(delta, sum(sizes[m] * known[m] for m in sizes) / 60.0)


def test_tracking_takes_its_part_of_any_vector_away_on_average():
    """Over 400 hashes, within 3 %; heavy hitters do not.

    With s = n / (n + d) = 1/3 and the variance (d - c) / n ||p||² of whole blocks,
    E ||p - G||² = ((1 - s)² + s² (d - c) / n) ||p||² = 17/27 ||p||², less than 1 - s.
    """
    sketch, p = CountSketch(D, 3, 10, 0), vector(0)
    ratios, heavy = [], []
    for turn in range(400):
        feedback = SketchTracking(sketch).turned(turn)
        payload, _ = feedback.client(p, 1.0, None)
        delta, _ = feedback.server([payload], [1.0], 1.0, None)
        ratios.append(float((p - delta).square().sum() / p.square().sum()))
        found = feedback.compressor.decompress(payload)
        heavy.append(float((p - found).square().sum() / p.square().sum()))
    assert sum(ratios) / 400 == pytest.approx(17 / 27, rel=0.03)
    assert sum(heavy) / 400 > 1.0


def test_tracking_adds_what_the_server_lacks():
    feedback, G = SketchTracking(CountSketch(D, 3, 10, 4)), vector(9)
    payloads = [feedback.client(vector(m), 1.0, None)[0] for m in range(3)]
    delta, kept = feedback.server(payloads, SHARES, 0.5, G)
    mean = sum(w * vector(m) for m, w in enumerate(SHARES))
    sketch = feedback.compressor
    expected = G + 30 / 90 * sketch.mean(sketch.compress(mean - G))
    torch.testing.assert_close(kept, expected)
    torch.testing.assert_close(delta, 0.5 * expected)


def test_the_mean_of_a_sketch_is_unbiased():
    """Over 2,000 seeds within five standard errors; the median's k largest are not."""
    p = vector(0)
    reads = []
    for seed in range(2000):
        sketch = CountSketch(D, 3, 10, seed)
        reads.append(sketch.mean(sketch.compress(p)))
    error = torch.stack(reads).std(0) / 2000**0.5
    assert bool(((torch.stack(reads).mean(0) - p).abs() < 5 * error).all())
    one = CountSketch(D, 3, 10, 0)
    assert bool(((one.decompress(one.compress(p)) - p).abs() > 5 * error).any())


def test_eq_12_with_topk_at_the_clients():
    feedback, right = ClientGradient(TopK(D, 5)), vector(9)
    assert feedback.needs_right
    sent = [feedback.client(vector(m) - right, 0.1, vector(m, "e")) for m in range(3)]
    delta, _ = feedback.server([p for p, _ in sent], SHARES, 0.1, None, right)
    compressed = sum(
        w * TopK(D, 5).decompress(TopK(D, 5).compress(0.1 * (vector(m) - right) + vector(m, "e")))
        for m, w in enumerate(SHARES)
    )
    torch.testing.assert_close(delta - 0.1 * right, compressed)


def test_eq_12_with_a_sketch_is_the_servers_alone():
    feedback, right, e = SketchGradient(CountSketch(D, 3, 10, 0)), vector(9), vector(8)
    S, U = feedback.compressor.compress, feedback.compressor.decompress
    assert not feedback.needs_right
    payloads = [feedback.client(vector(m), 0.1, None)[0] for m in range(3)]
    delta, memory = feedback.server(payloads, SHARES, 0.1, S(e).table, right)
    z = S(0.1 * (sum(w * vector(m) for m, w in enumerate(SHARES)) - right) + e)
    torch.testing.assert_close(delta - 0.1 * right, U(z))
    torch.testing.assert_close(memory, z.table - S(U(z)).table)


@pytest.mark.parametrize("kind", [ClientGradient, SketchGradient])
def test_eq_12_needs_the_right_hand_side(kind):
    compressor = TopK(D, 5) if kind is ClientGradient else CountSketch(D, 3, 10, 0)
    payload, _ = kind(compressor).client(vector(0), 0.1, None)
    with pytest.raises(InputError, match="give `right`"):
        kind(compressor).server([payload], [1.0], 0.1, None)
