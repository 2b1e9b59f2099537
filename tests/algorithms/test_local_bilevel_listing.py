"""SimFBO and FedBiOAcc against their listings in plain NumPy, on unlike quadratic clients."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from conftest import quadratic_case
from fedsift.algorithms import LocalSteps, OuterStep, Server, ServerState
from fedsift.algorithms.fedbioacc import FedBiOAcc, Storm
from fedsift.algorithms.simfbo import SimFBO
from fedsift.hypergradient import CurvatureSettings

PLAIN = CurvatureSettings("hessian")
Y_STEP, V_STEP, X_STEP, A = 0.05, 0.04, 0.1, 0.7


@dataclass
class Listing:
    """The clients as arrays, and the three directions of a local step in closed form."""

    clients: list
    shares: np.ndarray
    target: np.ndarray
    ridge: float

    def slopes(self, m, x, y, v, b):
        """Return ∇_y g_m, the slope of v, and ∇²_xy g_m v, with ∇_y F = b."""
        A_m, B_m, c_m = self.clients[m]
        return np.array([A_m @ y - B_m @ x - c_m, A_m @ v - b]), -B_m.T @ v

    def mean(self, parts):
        return sum(share * part for share, part in zip(self.shares, parts, strict=True))

    def simfbo(self, x, y, v, steps, x_is_local):
        """Return one round: all three variables step at the clients, the server takes means."""
        ends = []
        for m in range(len(self.clients)):
            x_m, y_m, v_m = x, y, v
            for _ in range(steps):
                b = (y_m if x_is_local else y) - self.target
                (gy, gv), cross = self.slopes(m, x_m if x_is_local else x, y_m, v_m, b)
                hyper = self.ridge * (x_m if x_is_local else x) - cross
                share = 1 if x_is_local else 1 / steps
                x_m, y_m, v_m = x_m - share * X_STEP * hyper, y_m - Y_STEP * gy, v_m - V_STEP * gv
            ends.append((x_m, y_m, v_m))
        return tuple(self.mean(parts) for parts in zip(*ends, strict=True))

    def fedbioacc(self, x, y, v, momenta, steps):
        """Return one round and its momenta: STORM on full batches."""
        b, ends = y - self.target, []
        for m in range(len(self.clients)):
            old, cross = self.slopes(m, x, y, v, b)
            along, nu = (old, cross) if momenta is None else momenta
            y_m, v_m = y, v
            for _ in range(steps):
                old, old_cross = self.slopes(m, x, y_m, v_m, b)
                y_m, v_m = y_m - Y_STEP * along[0], v_m - V_STEP * along[1]
                new, new_cross = self.slopes(m, x, y_m, v_m, b)
                along, nu = new + (1 - A) * (along - old), new_cross + (1 - A) * (nu - old_cross)
            ends.append((y_m, v_m, along, nu))
        y, v, along, nu = (self.mean(parts) for parts in zip(*ends, strict=True))
        return x - X_STEP * (self.ridge * x - nu), y, v, (along, nu)


def listing_of(case):
    counts = np.array([client.num_samples for client in case.clients], dtype=float)
    arrays = [(c.A.numpy(), c.B.numpy(), c.c.numpy()) for c in case.clients]
    return Listing(arrays, counts / counts.sum(), case.problem.target.numpy(), case.problem.ridge)


def start_of(case):
    source = np.random.default_rng(3)
    draws = (case.problem.outer_length, len(case.problem.target))
    return (*(source.standard_normal(n) for n in draws), np.zeros(draws[1]))


def rounds_of(algorithm, case, x, y, rounds):
    state, server = ServerState(torch.tensor(y), torch.tensor(x)), Server(case.problem, None)
    for k in range(rounds):
        _, state = algorithm.round(case.federation, server, state, k)
    return state.x.numpy(), state.y.numpy(), state.solver.v.numpy()


@pytest.mark.parametrize(
    ("steps", "x_is_local", "equal"), [(1, True, True), (4, False, True), (4, True, False)]
)
def test_simfbo_is_its_listing_but_for_x_within_a_round(steps, x_is_local, equal):
    """With one local step the two are the same; with more x and ∇F are those of the round."""
    case = quadratic_case(clients=3, length=8, outer_length=3)
    listing, (x, y, v) = listing_of(case), start_of(case)
    local = LocalSteps(steps, Y_STEP, 0)
    ours = SimFBO(V_STEP, PLAIN, local, OuterStep(X_STEP, "gradient"))
    found = rounds_of(ours, case, x, y, 3)
    for _ in range(3):
        x, y, v = listing.simfbo(x, y, v, steps, x_is_local)
    same = [np.allclose(a, b, rtol=1e-9, atol=1e-11) for a, b in zip(found, (x, y, v), strict=True)]
    assert same == [equal] * 3


@pytest.mark.parametrize("steps", [1, 4])
def test_fedbioacc_is_storm_on_all_three(steps):
    case = quadratic_case(clients=3, length=8, outer_length=3)
    listing, (x, y, v) = listing_of(case), start_of(case)
    outer = OuterStep(X_STEP, "gradient")
    ours = FedBiOAcc(V_STEP, PLAIN, Storm(A), LocalSteps(steps, Y_STEP, 0), outer)
    found, momenta = rounds_of(ours, case, x, y, 3), None
    for _ in range(3):
        x, y, v, momenta = listing.fedbioacc(x, y, v, momenta, steps)
    for one, other in zip(found, (x, y, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
