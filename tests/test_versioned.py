"""Arrays that clients keep: the shortest of what may travel, and the same bits in the end."""

from dataclasses import replace

import pytest
import torch

from fedsift.algorithms import Server, ServerState
from fedsift.algorithms.comm_fedbio import CommFedBiO
from fedsift.algorithms.outer_step import OuterStep
from fedsift.compress import CountSketch, TopK, feedback_for
from fedsift.experiment.loop import compressed_round
from fedsift.federation import CompressedFederation, LocalFederation, Rates, compressed
from fedsift.federation.compressed import bits_of, exact_version, same_bits
from fedsift.federation.encoding import decode_request, encode_request, num_bytes
from fedsift.hypergradient import CurvatureSettings, Iterative
from fedsift.hypergradient.iterative import Constant
from fedsift.messages import Request
from fedsift.problem.quadratic import random_quadratic
from fedsift.problem.sgd import LocalSteps
from fedsift.randomness import generator
from fedsift.versioned import ByStep, SentStep, Step, Versioned

D = 200


@pytest.fixture(autouse=True)
def _small_arrays(monkeypatch):
    monkeypatch.setattr(compressed, "SMALL", 100)


def _vector(name, length=D):
    return torch.randn(length, generator=generator(0, name))


class Wire(LocalFederation):
    """Clients in this process that read every request from bytes, each with what it has kept."""

    def ask(self, request, clients):
        kept, self.labels = self.__dict__.setdefault("kept", {}), []
        for m in clients:
            mine = kept.get(m, {})
            parts = encode_request(request, {name: one.version for name, one in mine.items()})
            read, kept[m] = decode_request(parts, mine)
            for name, array in request.plain().arrays.items():
                assert same_bits(read.arrays[name], array), (request.action, name)
            self.labels.append(set(parts))
            self.down = getattr(self, "down", 0) + num_bytes(parts)
        return super().ask(request, clients)


class Whole(CompressedFederation):
    """The same, without any step."""

    def _exact(self, name, array, step=None):
        return super()._exact(name, array)


def _rounds(layer, feedback, *, rounds=3, cohort=0, **solver):
    problem, clients = random_quadratic(4, D, condition=3, seed=1)
    federation = Wire.of(problem, clients)
    estimator = Iterative(
        feedback,
        schedule=Constant(0.2),
        curvature=CurvatureSettings(damping=0.1),
        **solver,
    )
    algorithm = CommFedBiO(estimator, LocalSteps(lr=0.01, batch_size=0), OuterStep(0.01))
    state = ServerState(torch.ones_like(problem.target), problem.initial_x(None))
    server = Server(problem, None, cohort=cohort)
    for k in range(rounds):
        sent = layer(federation, Rates(), state.sent)
        _, state = algorithm.round(sent, server, state, k)
        state = replace(state, sent=sent.sent())
    assert federation.down == federation.traffic.bytes_down
    return federation, state


CASES = {
    "listing": (TopK(D, 5), "listing", {}),
    "ef21": (TopK(D, 5), "ef21", {}),
    "cold": (TopK(D, 5), "listing", {"warm_start": False}),
    "sketch": (CountSketch(D, 5, 32, seed=0, heavy=5), "listing", {}),
    "cohort": (TopK(D, 5), "listing", {"cohort": 2}),
    "resampled": (TopK(D, 5), "listing", {"cohort": 2, "resample": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_clients_make_the_servers_v_to_the_bit_and_it_takes_fewer_bytes(case):
    compressor, form, keys = CASES[case]
    feedback = feedback_for(compressor, form)
    stepped, state = _rounds(CompressedFederation, feedback, iterations=4, **keys)
    whole, same = _rounds(Whole, feedback, iterations=4, **keys)
    assert same_bits(state.solver.v, same.solver.v)
    assert same_bits(state.x, same.x)
    share = stepped.traffic.bytes_down / whole.traffic.bytes_down
    assert share < (0.95 if keys.get("cohort") else 0.8)


def test_one_iteration_a_round_sends_v():
    """∇_y F in place of one v is no gain."""
    feedback = feedback_for(TopK(D, 5))
    federation, state = _rounds(CompressedFederation, feedback, iterations=1)
    assert state.solver.delta is None
    assert not any("outer_gradient" in labels for labels in federation.labels)


def test_a_step_is_line_8_with_damping():
    v, delta, b = (_vector(name).double() for name in ("v", "delta", "b"))
    found = Step(delta, b, 0.3, 0.2).taken(v)
    torch.testing.assert_close(found, v - delta + 0.3 * b - 0.3 * 0.2 * v)


def test_a_v_that_the_step_does_not_lead_to_goes_whole():
    inner = Wire.__new__(Wire)
    layer = CompressedFederation(inner)
    other = ByStep(_vector("v"), Step(_vector("delta"), _vector("b"), 0.1, 0.0))
    packed = layer._packed(Request("product", 0, {"v": other}), "v")
    assert packed.step is None
    assert set(packed.delivery("v", {}).parts) == {"v"}


@pytest.mark.parametrize("known", [{}, {"v": 3}, {"v": 4}, {"v": 4, "outer_gradient": 1}])
def test_whoever_lacks_the_version_before_gets_the_whole(known):
    from_four = Versioned(_vector("v"), 5)
    delta = Versioned(torch.zeros(D), 2, whole=TopK(D, 3).compress(_vector("delta")))
    right = Versioned(_vector("b"), 1)
    step = SentStep(delta, right, 0.1, 0.0, from_zero=False)
    labels = set(replace(from_four, step=step).delivery("v", known).parts)
    wanted = {"v"} if known.get("v") != 4 else {"delta", "outer_gradient"} - set(known)
    assert labels == wanted


def test_numbers_that_changed_travel_as_they_are():
    first = _vector("y")
    _, sent = exact_version(first, None)
    second = first.clone()
    second[[3, 70]] = torch.tensor([-0.0, 5.0])
    versioned, sent = exact_version(second, sent)
    (part,) = versioned.delivery("y", {"y": 1}).parts.values()
    assert part.indices.tolist() == [3, 70]
    assert same_bits(versioned.value, second)
    again, after = exact_version(second.clone(), sent)
    assert not again.delivery("y", {"y": 2}).parts
    assert after is sent


def test_an_array_that_a_method_goes_on_working_in_is_sent_again():
    y = _vector("y")
    _, sent = exact_version(y, None)
    y.add_(1.0)
    versioned, _ = exact_version(y, sent)
    assert versioned.version == 2
    assert same_bits(versioned.value, y)


def test_mostly_zeros_travel_as_the_rest_unless_a_zero_has_a_sign():
    array = torch.zeros(D)
    array[5] = 1.0
    found, _ = exact_version(array, None)
    assert found.whole.indices.tolist() == [5]
    array[7] = -0.0
    signed, _ = exact_version(array, None)
    assert signed.whole is None
    assert torch.equal(bits_of(signed.value), bits_of(array))


def test_without_rates_a_model_travels_once_however_often_it_is_asked_about():
    """Train, product and outer step at the same y, and the next round's training."""
    feedback = feedback_for(TopK(D, 5))
    federation, _ = _rounds(CompressedFederation, feedback, iterations=1, rounds=2)
    per_client = federation.traffic.bytes_down / 4
    # y_0, y_1, y_2 and v_1, v_2: five vectors in two rounds, not eight; envelopes are 500 bytes
    assert 5 * 8 * D < per_client < 5 * 8 * D + 6 * 600


def test_a_round_by_the_loop_gives_the_same():
    problem, clients = random_quadratic(3, D, condition=3, seed=2)
    found = []
    for _ in range(2):
        federation = LocalFederation.of(problem, clients)
        estimator = Iterative(feedback_for(TopK(D, 5)), 3, Constant(0.2))
        algorithm = CommFedBiO(estimator, LocalSteps(lr=0.01, batch_size=0), OuterStep(0.01))
        state = ServerState(torch.zeros_like(problem.target), problem.initial_x(None))
        server = Server(problem, None)
        for k in range(2):
            if found:  # without the layer
                _, state = algorithm.round(federation, server, state, k)
            else:
                _, state = compressed_round(algorithm, federation, Rates(), server, state, k)
        found.append(state)
    assert same_bits(found[0].x, found[1].x)
    assert same_bits(found[0].solver.v, found[1].solver.v)
