"""Product and scores from the forward passes of local steps, against forward mode."""

from dataclasses import replace

import pytest
import torch

from fedsift.client import Client, initial_state
from fedsift.client.follow import Turn, in_turn
from fedsift.client.passes import cross_pass, product_pass
from fedsift.client.single_loop import _at_one_point, followed
from fedsift.hypergradient import CurvatureSettings
from fedsift.messages import Request
from fedsift.problem import LabelledBatch, inner_gradient
from fedsift.problem.curvature import output_hessian
from fedsift.problem.tangents import along, along_difference, difference, difference_error

GN = CurvatureSettings("gauss-newton", 0.3)
NEAR = {"rtol": 1e-4, "atol": 1e-6}


def _request(conv, **changes):
    scalars = {
        "curvature": "gauss-newton",
        "damping": 0.3,
        "curvature_batch": 4,
        "steps": 1,
        "lr": 0.1,
        "batch_size": 4,
        "scored": 4,
        "differences": True,
        **changes,
    }
    return Request("step", 3, {"y": conv.y, "v": conv.v}, scalars)


def _client(conv):
    return Client(2, conv.problem, LabelledBatch.of(conv.batch.inputs, conv.batch.labels), 5)


@pytest.mark.parametrize(
    ("batch_size", "scored", "curved"),
    [(4, 4, 4), (4, 9, 4), (0, 4, 4), (4, 0, 9), (4, 4, 0), (4, 4, 3)],
)
def test_product_and_scores_are_those_of_forward_mode(conv, batch_size, scored, curved):
    """One local step, so that everything is at y_k."""
    client = _client(conv)
    request = _request(conv, batch_size=batch_size, scored=scored, curvature_batch=curved)
    found, turn = followed(client, conv.x, conv.y, request), Turn.of(client, request)
    whole = cross_pass(conv.problem, conv.x, conv.y, client.batch, conv.v, 12)
    at = found.cross.at
    assert len(set(at.tolist())) == len(at) == (12 if not batch_size or not scored else scored)
    torch.testing.assert_close(found.cross.value[at], whole.value[at], **NEAR)
    torch.testing.assert_close(found.cross.agreement[at], whole.agreement[at], **NEAR)
    missing = torch.ones(12, dtype=torch.bool).index_fill_(0, at, False)
    assert not found.cross.value[missing].any()
    if batch_size and curved:
        part = client.batch.take(turn.first[:4])
        expected = product_pass(conv.problem, conv.x, conv.y, part, conv.v, GN)
        torch.testing.assert_close(found.product, expected, **NEAR)
        gradient = inner_gradient(conv.problem, conv.x, conv.y, part)
        torch.testing.assert_close(found.trained.y, conv.y - 0.1 * gradient)
    elif not curved or not batch_size:
        expected = product_pass(conv.problem, conv.x, conv.y, client.batch, conv.v, GN)
        torch.testing.assert_close(found.product, expected, **NEAR)


def test_later_batches_are_scored_at_the_model_of_their_step(conv):
    client, request = _client(conv), _request(conv, steps=2, scored=8)
    found, turn = followed(client, conv.x, conv.y, request), Turn.of(client, request)
    first, second = turn.first[:4], turn.first[4:8]
    gradient = inner_gradient(conv.problem, conv.x, conv.y, client.batch.take(first))
    for at, y in ((first, conv.y), (second, conv.y - 0.1 * gradient)):
        expected = cross_pass(conv.problem, conv.x, y, client.batch.take(at), conv.v, 12)
        torch.testing.assert_close(found.cross.value[at], expected.value[at], **NEAR)


@pytest.mark.parametrize(("n", "size"), [(12, 5), (12, 4), (7, 6), (5, 9)])
def test_every_sample_comes_round(n, size):
    blocks = [in_turn(n, size, 0, k, 1) for k in range(2 * -(-n // size) + 1)]
    for block in blocks:
        assert len(set(block.tolist())) == len(block) == min(size, n)
    within = -(-n // size)  # rounds in which every position has come at least once
    for start in range(len(blocks) - within + 1):
        assert set(torch.cat(blocks[start : start + within]).tolist()) == set(range(n))


def test_the_closed_form_of_the_softmax_is_its_hessian(conv):
    tangent = along(conv.problem, conv.y, conv.batch, conv.v)
    generic = output_hessian(conv.problem, conv.x, tangent.outputs, conv.batch)(tangent.along)
    weights = conv.x[conv.batch.positions]
    closed = conv.problem.bent(weights, tangent.outputs, tangent.along) / len(conv.batch)
    torch.testing.assert_close(closed, generic, rtol=1e-10, atol=1e-12)


def test_a_difference_is_forward_mode_but_for_its_step(conv):
    exact = along(conv.problem, conv.y, conv.batch, conv.v).along
    near = along_difference(conv.problem, conv.y, conv.batch, conv.v).along
    torch.testing.assert_close(near, exact, rtol=1e-5, atol=1e-6)
    assert difference_error(conv.problem, conv.y, conv.batch, conv.v) < 1e-5


def test_differences_that_miss_a_kink_are_noticed(conv):
    """Outputs that jump between y and y + εv have no derivative that a difference could find."""

    class Steep:
        l2, modes = 0.0, None

        def outputs(self, y, batch):
            return (1e9 * y[:1]).sin() + batch

    y, v = torch.ones(3).double(), torch.ones(3).double()
    assert difference_error(Steep(), y, torch.zeros(2).double(), v) > 0.1


def test_a_zero_direction_or_a_zero_model_is_no_trouble():
    run, y = (lambda y: 2 * y.sum(-1, keepdim=True)), torch.zeros(2, 3).double()
    zero = difference(run, y, run(y), torch.zeros(3).double())
    assert torch.equal(zero, torch.zeros(2, 1).double())
    torch.testing.assert_close(
        difference(run, y, run(y), torch.ones(3).double()), torch.full((2, 1), 6.0).double()
    )


def test_without_differences_the_same_samples_move(conv):
    """The reference, by forward mode, scores the turn's samples, and those of the product."""
    client = _client(conv)
    request = _request(conv, differences=False)
    state = replace(initial_state(client), x=conv.x)
    _, cross = _at_one_point(client, state, conv.x, conv.y, request)
    assert set(in_turn(12, 4, 5, 3, 2).tolist()) <= set(cross.at.tolist())
    assert len(cross.at) <= 8
