"""The table of actions: everything that a client can be asked. A new action is one row.

An action takes the client, its state, the request and what the federation has computed for the
whole cohort; it returns the reply's arrays and scalars and the client's next state.
"""

from __future__ import annotations

from collections.abc import Callable

from fedsift.client import baselines, rivals, secure_sum
from fedsift.client.cross_sketch import sketch_both
from fedsift.client.fedbioacc import fedbioacc
from fedsift.client.first_order import clean_step, first_order
from fedsift.client.out_of_fold import fold_step
from fedsift.client.outer_gradient import outer_gradient
from fedsift.client.outer_step import outer
from fedsift.client.personal import personal
from fedsift.client.posterior import train_posterior
from fedsift.client.private import with_noise
from fedsift.client.products import measure, product, sketch
from fedsift.client.relabelling import train_relabelled
from fedsift.client.simfbo import simfbo
from fedsift.client.single_loop import step
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.client.training import train, train_kept
from fedsift.client.update import with_compressed_update
from fedsift.errors import FedsiftError, InputError
from fedsift.messages import Reply, Request

Action = Callable[[Client, ClientState, Request, Shared], Outcome]

ACTIONS: dict[str, Action] = {
    "train": train,
    "product": product,
    "sketch": sketch,
    "sketch-both": sketch_both,
    "measure": measure,
    "outer": outer,
    "outer-gradient": outer_gradient,
    "step": step,
    "personal": personal,
    "first-order": first_order,
    "clean-step": clean_step,
    "simfbo": simfbo,
    "fedbioacc": fedbioacc,
    "assess": baselines.assess,
    "count": baselines.count,
    "keep": baselines.keep,
    "train-kept": train_kept,
    "judge": baselines.judge,
    "agree": baselines.agree,
    "train-corrected": rivals.train_corrected,
    "train-soft": rivals.train_soft,
    "train-robust": rivals.train_robust,
    "train-elr": rivals.train_elr,
    "fold-step": fold_step,
    "train-posterior": train_posterior,
    "class-losses": rivals.class_losses,
    "train-elc": rivals.train_elc,
    "train-relabelled": train_relabelled,
    "sum-keys": secure_sum.keys,
    "sum-shares": secure_sum.shares,
    "sum-reveal": secure_sum.reveal,
}


def answer(
    client: Client, state: ClientState, request: Request, shared: Shared | None = None
) -> tuple[Reply, ClientState]:
    """Do what the request says; an error on purpose becomes an error reply."""
    samples = len(client.batch)
    try:
        if request.action not in ACTIONS:
            raise InputError(
                f"client {client.id} has no action '{request.action}'; install the same "
                "fedsift at the server and at every site"
            )
        outcome = ACTIONS[request.action](client, state, request, shared or Shared())
        outcome = with_noise(client, outcome, request)
        outcome = with_compressed_update(outcome, request)
        outcome = secure_sum.summed(client, state, outcome, request)
    except FedsiftError as error:
        return Reply(client.id, samples, error=str(error)), state
    return Reply(client.id, samples, outcome.arrays, outcome.scalars), outcome.state
