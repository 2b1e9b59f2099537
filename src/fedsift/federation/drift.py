"""Client drift, corrected: SCAFFOLD's control variates (Karimireddy et al., ICML 2020).

    y^m_t+1 = y^m_t − γ (∇g_m(y^m_t) − c_m + c)            at client m, t = 1..T
    c_m'    = c_m − c + (y_k − y^m_T) / (T γ)              stays at its client
    c'      = c + (Σ_S N_m / N) Σ_S (N_m / Σ_S N) (c_m' − c_m)

Where clients differ, T > 1 plain local steps end at a point that is no minimum of G, however many
rounds are done; with c the fixed point is the minimum. c_m' − c_m follows from the update that is
sent anyway, so only c travels more, down. It is a layer that no method knows, for all that take
local steps in a `train` or `step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from fedsift.algorithms import Algorithm, RoundInfo, Server, ServerState
from fedsift.client.training import CONTROL
from fedsift.federation.layer import Layer
from fedsift.messages import Answers, ClientId, Federation, Reply, Request
from fedsift.problem.sgd import LocalSteps

TRAINS = ("train", "step")
OWN = "drift_control"  # c among what the server keeps


@dataclass(frozen=True)
class WithoutDrift:
    """A method whose clients take corrected local steps."""

    algorithm: Algorithm

    def round(
        self, federation: Federation, server: Server, state: ServerState, k: int
    ) -> tuple[RoundInfo, ServerState]:
        """Do round k."""
        layer = CorrectedFederation(federation, state.own.get(OWN))
        own = {name: value for name, value in state.own.items() if name != OWN}
        info, after = self.algorithm.round(layer, server, replace(state, own=own), k)
        kept = {} if layer.control is None else {OWN: layer.control}
        return info, replace(after, own={**after.own, **kept})


class CorrectedFederation(Layer):
    """A federation whose clients' local steps are corrected; ``control`` is c, None at first."""

    def __init__(self, inner: Federation, control: Tensor | None) -> None:
        super().__init__(inner)
        self.control = control

    def ask(self, request: Request, clients: Sequence[ClientId]) -> list[Reply]:
        """Send c with a request that trains, and step it by the updates that come back."""
        if request.action not in TRAINS:
            return self.inner.ask(request, clients)
        y = request.plain().array("y")
        control = y.new_zeros(len(y)) if self.control is None else self.control
        request = replace(request, arrays={**request.arrays, CONTROL: control})
        replies = self.inner.ask(request, clients)
        good = [reply for reply in replies if reply.error is None]
        if good:
            local, share = request.read(LocalSteps), sum(r.num_samples for r in good)
            mean = Answers(tuple(good)).mean("update")
            moved = -control - mean / (local.steps * local.lr)
            self.control = control + share / sum(self.sizes.values()) * moved
        return replies
