"""A client's fixed part, its state, and what an action returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fedsift.client.passes import Cross
from fedsift.compress import Payload
from fedsift.messages import ClientId, Scalar
from fedsift.problem import Problem
from fedsift.problem.label_posterior import Weighed
from fedsift.problem.sgd import Trained


@dataclass(frozen=True)
class Fewest:
    """How many samples must be left to train on, and stand behind a count (``policy.py``)."""

    kept: int = 1
    counted: int = 1


@dataclass(frozen=True)
class Client:
    """The fixed part of a client: its number, its samples, the problem.

    ``validation`` are its samples of f_m, where F is the clients' (F = Σ_m N_m f_m / N);
    ``fewest`` is what it keeps to itself; with ``secret_noise`` nobody knows what noise it draws.
    """

    id: ClientId
    problem: Problem
    batch: Any
    seed: int = 0
    validation: Any = None
    fewest: Fewest = Fewest()
    secret_noise: bool = False


@dataclass(frozen=True)
class ClientState:
    """The changing part of a client; none of it is ever part of a reply.

    ``x``            its part of x, the sample weights; None where x is shared
    ``average``      exponential mean of x over rounds: what the audit reads
    ``agreement``    exponential mean of the model's agreement with the labels
    ``error``        what its compressor left out so far, or has sent so far (error feedback)
    ``epoch``        the solver's epoch to which that belongs
    ``momentum``     running estimate of ∇²_xy g_m v (fedbioacc)
    ``own_y``        its y_m and v_m where y is private, and 1/L_m of its own g_m
    ``own_v``        (``personal.py``)
    ``own_step``
    ``control``      c_m of corrected local steps (``federation/drift.py``)
    ``judge_loss``   validation loss of the model that last judged the labels
    ``targets``      [N_m, C]: what a method trains on in place of, or besides, the labels
    ``folds``        the fold of every sample (out-of-fold)
    ``unseen``       log-probabilities by heads that had seen none of its labels
    ``known``        mean and variance of the rate of wrong labels, by ``unseen`` (posterior)
    ``recent``       those by heads that train, out of fold, when it was last in a batch
    ``rates``        b_m in each of the noise models
    ``noise``        the matrices of noise models that are its own
    ``betas``        and their β
    ``update_error`` what was left out so far of its updates, of its parts of the step of a shared
    ``cross_error``  x, of ∇_x f_m, and the epoch that it is of (``update.py``)
    ``outer_error``
    ``update_epoch``
    ``secret``       what the keys of secure sums are derived from (``secure_sum.py``)
    ``sums``         the number of the last sum that it took part in, and of the last revealed
    ``draws``        how many of its replies had noise so far (``private.py``)
    ``y``            the model of the running round, so that it need not be sent twice
    """

    x: Tensor | None = None
    average: Tensor | None = None
    agreement: Tensor | None = None
    error: Tensor | None = None
    epoch: Tensor | None = None
    momentum: Tensor | None = None
    own_y: Tensor | None = None
    own_v: Tensor | None = None
    own_step: Tensor | None = None
    control: Tensor | None = None
    judge_loss: Tensor | None = None
    targets: Tensor | None = None
    folds: Tensor | None = None
    unseen: Tensor | None = None
    known: Tensor | None = None
    recent: Tensor | None = None
    rates: Tensor | None = None
    noise: Tensor | None = None
    betas: Tensor | None = None
    update_error: Tensor | None = None
    cross_error: Tensor | None = None
    outer_error: Tensor | None = None
    update_epoch: Tensor | None = None
    secret: Tensor | None = None
    sums: Tensor | None = None
    draws: Tensor | None = None
    y: Tensor | None = None

    def arrays(self) -> dict[str, Tensor]:
        """Return what there is by name, apart from y, which is sent anew in every round."""
        names = (spec.name for spec in fields(self) if spec.name != "y")
        return {n: value for n in names if (value := getattr(self, n)) is not None}

    def to(self, where: torch.device) -> ClientState:
        """Return it on a device."""
        arrays = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        return ClientState(**{n: a if a is None else a.to(where) for n, a in arrays.items()})

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor]) -> ClientState:
        """Return the state that has these arrays."""
        return cls(**arrays)


@dataclass(frozen=True)
class Shared:
    """What a federation in one process has already computed for the whole cohort.

    ``base`` are the local steps of a second model. ``product``, ``payload`` and ``residual`` (the
    witness's sketch) are the cohort's mean, not this client's own: the mean of equal replies is
    that reply, so the server gets the same sum. ``weighed`` is what posterior knows of the labels.
    """

    trained: Trained | None = None
    base: Trained | None = None
    product: Tensor | None = None
    payload: Payload | None = None
    residual: Payload | None = None
    cross: Cross | None = None
    weighed: Weighed | None = None


class Outcome(NamedTuple):
    """What an action puts into the reply, and the client's next state."""

    arrays: dict[str, Payload]
    scalars: dict[str, Scalar]
    state: ClientState


def initial_state(client: Client) -> ClientState:
    """Return the state of a client that has not been asked anything yet."""
    if not client.problem.x_is_private:
        return ClientState()
    x = client.problem.initial_x(client.batch)
    return ClientState(x=x, average=x)
