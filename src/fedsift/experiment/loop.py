"""The loop over rounds: one record per round, and the state after it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from fedsift.algorithms import Algorithm, RoundInfo, Server, ServerState
from fedsift.algorithms.found_steps import clean_loss
from fedsift.errors import Diverged
from fedsift.experiment.metrics import accuracy, detection
from fedsift.experiment.setup import Setup
from fedsift.federation import CompressedFederation, Rates
from fedsift.federation.judged import Judge, JudgedFederation
from fedsift.federation.robust import RobustKeys
from fedsift.messages import Federation
from fedsift.problem import outer_value


@dataclass(frozen=True)
class Round:
    """A line of ``rounds.jsonl`` and the state that the round left."""

    record: dict[str, Any]
    state: ServerState


def rounds(
    setup: Setup, state: ServerState, first: int, judge: Judge | None = None
) -> Iterator[Round]:
    """Run rounds ``first`` .. K-1; rounds are numbered from 0 inside and from 1 in records."""
    config = setup.config
    judge = judge or judge_of(setup)
    for k in range(first, config.rounds):
        before, start = setup.federation.traffic, time.perf_counter()
        info, state, taken_back = judged_round(setup, judge, state, k)
        seconds = time.perf_counter() - start
        traffic = setup.federation.traffic - before
        due = (k + 1) % config.eval_every == 0 or k + 1 == config.rounds
        record: dict[str, Any] = {
            "round": k + 1,
            **info.metrics,
            **(evaluate(setup, state) if due else {}),
            "bytes_up": traffic.bytes_up,
            "bytes_down": traffic.bytes_down,
            "exchanges": traffic.exchanges,
            "seconds": round(seconds, 4),
            **judge.record(),
            **_private(setup),
            "events": [*info.events, *taken_back],
        }
        yield Round(record, state)


def _private(setup: Setup) -> dict[str, Any]:
    """Return what the run has cost so far; the sites' training loss is withheld."""
    if setup.account is None:
        return {}
    return {"epsilon": setup.account.epsilon(), "train_loss": None}


def judge_of(setup: Setup) -> Judge:
    """Return the judge of a run's replies."""
    config = setup.config
    return Judge(RobustKeys(config.aggregation, config.clip, config.max_share))


def judged_round(
    setup: Setup, judge: Judge, state: ServerState, k: int
) -> tuple[RoundInfo, ServerState, tuple[str, ...]]:
    """Do round k; where it leaves a far worse model and clients are suspect, take it back.

    Without a suspect nothing is taken back: then it is the step that is wrong, not a client.
    """
    judge.begin()
    judged = JudgedFederation(setup.federation, judge)
    try:
        info, after = compressed_round(setup.algorithm, judged, setup.rates, setup.server, state, k)
        if not judge.suspects or not judge.exploded(*_losses(setup, state, after)):
            return info, after, ()
    except Diverged:
        if not judge.suspects:
            raise
        info = RoundInfo()
    names = [setup.site_name(m) for m in sorted(judge.suspects)]
    for client, why in judge.suspects.items():
        judge.drop(client, f"the model exploded: {why}")
    sentence = f"round {k + 1} was taken back; suspects: {', '.join(names)}"
    return info, replace(state, solver=state.solver.without_memory()), (sentence,)


def _losses(setup: Setup, *states: ServerState) -> list[float]:
    return [clean_loss(setup.server, state.y) for state in states]


def compressed_round(
    algorithm: Algorithm,
    federation: Federation,
    rates: Rates,
    server: Server,
    state: ServerState,
    k: int,
) -> tuple[RoundInfo, ServerState]:
    """Do round k with models and updates as compressed differences; the method knows nothing."""
    layer = CompressedFederation(federation, rates, state.sent)
    info, state = algorithm.round(layer, server, state, k)
    return info, replace(state, sent=layer.sent())


@torch.no_grad()
def evaluate(setup: Setup, state: ServerState) -> dict[str, float | None]:
    """Measure the model on validation and test data, and the weights where the truth is known.

    The validation set is trained on, so its accuracy is no estimate of that on new data.
    """
    validation = setup.server.validation
    loss = outer_value(setup.server.problem, state.y.new_zeros(0), state.y, validation)
    measured: dict[str, float | None] = {
        "validation_loss": float(loss),
        "validation_accuracy": accuracy(setup.model, state.y, *setup.data.validation),
    }
    if setup.data.test is not None:
        measured["test_accuracy"] = accuracy(setup.model, state.y, *setup.data.test)
    if setup.sees_weights:
        weights = torch.cat([setup.weights(m) for m in setup.federation.sizes])
        found = detection(weights, setup.wrong())
        measured |= {f"weights_{name}": value for name, value in found.items()}
    return measured
