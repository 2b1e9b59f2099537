"""What methods for noisy labels ask that change the loss, not the weights, of samples.

| action            | method   | replies with                         | changes          |
|-------------------|----------|--------------------------------------|------------------|
| `train-corrected` | `glc`    | as `train`                           | average          |
| `train-soft`      | `em`     | as `train`; C x C sums of q by label | average          |
| `train-robust`    | `gce`    | as `train`                           | average          |
| `train-elr`       | `elr`    | as `train`                           | average, targets |
| `class-losses`    | `fedelc` | mean loss of every class             |                  |
| `train-elc`       | `fedelc` | as `train`                           | average, targets |

``average`` is how probable it is, by the model that was sent, that a label is right; below ½ it
is flagged. Every pass over all samples is made before the local steps, with that model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from fedsift.algorithms.elr import EarlyLearning
from fedsift.algorithms.fedelc import LabelLearning
from fedsift.algorithms.gce import Order
from fedsift.client.inputs import batch_generator, point
from fedsift.client.state import Client, ClientState, Outcome, Shared
from fedsift.errors import InputError
from fedsift.messages import Request
from fedsift.problem.protocol import part_of
from fedsift.problem.robust_losses import (
    SampleLoss,
    WithLoss,
    corrected,
    early_learning,
    generalised,
    posterior,
    reversed_kl,
    soft,
)
from fedsift.problem.sample_losses import (
    label_agreement,
    label_share,
    probabilities,
    sample_losses,
    with_sample_losses,
)
from fedsift.problem.sgd import LocalSteps, local_sgd

START = 10.0  # logit of the given label before a learned label has moved: the paper's K


def train_corrected(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Gold loss correction: local steps on −log Σ_c p_c M[c, label]."""
    _, y, state = point(client, state, request)
    p = probabilities(client.problem, y, client.batch)
    matrix = _matrix(client, request, p)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        return corrected(logits, batch.labels, matrix)

    q = posterior(p, client.batch.labels, matrix)
    return steps(client, replace(state, average=_of_labels(client, q)), request, loss)


def train_soft(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """EM: the E-step at the model sent, its sums by label, local steps on the soft targets."""
    _, y, state = point(client, state, request)
    p, labels = probabilities(client.problem, y, client.batch), client.batch.labels
    q = posterior(p, labels, _matrix(client, request, p))
    sums = p.new_zeros(p.shape[1], p.shape[1]).index_add_(0, labels, q).T.contiguous()
    state = replace(state, average=_of_labels(client, q))
    outcome = steps(client, state, request, lambda logits, batch: soft(logits, q[batch.positions]))
    return outcome._replace(arrays={**outcome.arrays, "sums": sums})


def train_robust(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Generalised cross-entropy: local steps on (1 − p_label^q) / q."""
    _, y, state = point(client, state, request)
    order = request.read(Order).q
    state = replace(state, average=label_share(client.problem, y, client.batch))

    def loss(logits: Tensor, batch: Any) -> Tensor:
        return generalised(logits, batch.labels, order)

    return steps(client, state, request, loss)


def train_elr(
    client: Client,
    state: ClientState,
    request: Request,
    shared: Shared,  # noqa: ARG001
) -> Outcome:
    """Early-learning regularisation: update the running targets, then local steps with them."""
    _, y, state = point(client, state, request)
    settings = request.read(EarlyLearning)
    p = probabilities(client.problem, y, client.batch)
    targets = settings.updated(state.targets, p)
    share = label_agreement(targets.log(), client.batch.labels)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        known = targets[batch.positions]
        return early_learning(logits, batch.labels, known, settings.strength)

    return steps(client, replace(state, targets=targets, average=share), request, loss)


def class_losses(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """FedELC: reply with the mean loss of each class; of a class of too few samples, of all."""
    _, y, state = point(client, state, request)
    losses, labels = sample_losses(client.problem, y, client.batch), client.batch.labels
    classes = probabilities(client.problem, y, part_of(client.batch, labels.new_zeros(1))).shape[1]
    counts = labels.bincount(minlength=classes)
    sums = losses.new_zeros(classes).index_add_(0, labels, losses)
    means = torch.where(counts >= client.fewest.counted, sums / counts.clamp(min=1), losses.mean())
    return Outcome({"losses": means}, {}, state)


def train_elc(client: Client, state: ClientState, request: Request, shared: Shared) -> Outcome:  # noqa: ARG001
    """FedELC: a noisy client steps its learned labels and trains on them, a clean one does not."""
    _, y, state = point(client, state, request)
    learning, labels = request.read(LabelLearning), client.batch.labels
    if not learning.corrects:
        state = replace(state, average=label_share(client.problem, y, client.batch))

        def plain(logits: Tensor, batch: Any) -> Tensor:
            return cross_entropy(logits, batch.labels, reduction="none")

        return steps(client, state, request, plain)
    p = probabilities(client.problem, y, client.batch)
    given = one_hot(labels, p.shape[1]).to(p)
    z = START * given if state.targets is None else state.targets
    z = learning.updated(z, p, given)

    def loss(logits: Tensor, batch: Any) -> Tensor:
        return reversed_kl(logits, z[batch.positions], learning.entropy)

    state = replace(state, targets=z, average=label_agreement(z, labels))
    return steps(client, state, request, loss)


def steps(
    client: Client,
    state: ClientState,
    request: Request,
    loss: SampleLoss,
    first: Tensor | None = None,
) -> Outcome:
    """Take local steps on a loss of single samples; reply as `train` does.

    The local batches begin with the samples ``first``.
    """
    x, y, state = point(client, state, request)
    problem = WithLoss(with_sample_losses(client.problem), loss)
    local, source = request.read(LocalSteps), batch_generator(client, request)
    trained = local_sgd(problem, x, y, client.batch, local, source, first=first)
    return Outcome({"update": trained.y - y}, {"loss": float(trained.loss)}, state)


def _matrix(client: Client, request: Request, p: Tensor) -> Tensor:
    """Return the noise matrix of the request, or refuse one that cannot be it."""
    matrix, classes = request.array("matrix"), p.shape[1]
    if matrix.shape != (classes, classes):
        raise InputError(
            f"client {client.id} got a noise matrix of shape {list(matrix.shape)} but its model "
            f"has {classes} classes; install the same fedsift at the server and at every site"
        )
    return matrix.to(p)


def _of_labels(client: Client, q: Tensor) -> Tensor:
    """Return each sample's entry of its label."""
    return q.gather(1, client.batch.labels[:, None]).squeeze(1)
