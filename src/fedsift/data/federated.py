"""Data as a federation sees it: inputs and labels per client, a validation and a test set.

What is built here is checked here, so that no later code meets a NaN or a label out of range.
Stored inputs are read once for that, some samples at a time.
"""

from __future__ import annotations

import copy
import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from fedsift.data.noise import effective_rate
from fedsift.data.samples import Arrays, Content
from fedsift.errors import DataError
from fedsift.problem.inputs import Inputs, parts, select

InputsAndLabels = tuple[Inputs, Tensor]

SITE_NAME = re.compile(r"\w[\w .-]{0,63}")  # also the name of a folder
NUMBERS, SAMPLES = 2**20, 4096  # that are tested for NaN at once, at most


@dataclass(frozen=True, eq=False)
class ClientData:
    """The samples of one client.

    ``labels`` may be wrong; ``true_labels`` is ``None`` where they are not known. ``ids`` are the
    samples' rows in the original dataset, ``names`` what their owner calls them, ``raw`` what a
    person sees of them; None: the rows, and the inputs.
    """

    inputs: Inputs
    labels: Tensor
    true_labels: Tensor | None
    ids: Tensor
    names: tuple[str, ...] | None = None
    raw: Content | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def content(self) -> Content:
        """What a person sees of the samples."""
        return Arrays(self.inputs) if self.raw is None else self.raw

    @property
    def sample_names(self) -> tuple[str, ...]:
        """What the samples are called."""
        return tuple(map(str, self.ids.tolist())) if self.names is None else self.names

    def choose(self, kept: Tensor) -> ClientData:
        """Return the samples of a mask."""
        rows = kept.nonzero().flatten().tolist()
        return ClientData(
            select(self.inputs, kept),
            self.labels[kept],
            None if self.true_labels is None else self.true_labels[kept],
            self.ids[kept],
            None if self.names is None else tuple(self.names[n] for n in rows),
            None if self.raw is None else self.raw.choose(rows),
        )


AnyData = TypeVar("AnyData")


@dataclass(frozen=True, eq=False)
class FederatedData:
    """Clients with noisy labels, and the server's clean validation and test sets.

    ``noise_rate`` is the effective rate over all clients, ``None`` where it is not known. Sites
    without names have the numbers of their clients. The validation set is read whole: it is small.
    ``test`` is ``None`` where there is no test set.
    """

    name: str
    clients: list[ClientData]
    validation: InputsAndLabels
    test: InputsAndLabels | None
    class_names: tuple[str, ...]
    noise_rate: float | None = None
    site_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.clients:
            raise DataError(f"{self.name} has no client; give at least one")
        if not self.site_names:
            object.__setattr__(self, "site_names", tuple(map(str, range(len(self.clients)))))
        check_site_names(self.site_names, len(self.clients))
        classes = len(self.class_names)
        found = {self.where(m): (c.inputs, c.labels) for m, c in enumerate(self.clients)}
        found["the validation set"] = self.validation
        if self.test is not None:
            found["the test set"] = self.test
        shape = self.clients[0].inputs.shape[1:]
        for where, (inputs, labels) in found.items():
            check_client(inputs, labels, classes, where)
            if inputs.shape[1:] != shape:
                raise DataError(
                    f"{where} has inputs of shape {list(inputs.shape[1:])} but "
                    f"{self.where(0)} has {list(shape)}; all must have the same shape"
                )
        for m, client in enumerate(self.clients):
            _check_extras(client, classes, self.where(m))

    def where(self, client: int) -> str:
        """Return what messages call a client: its site where that has a name."""
        return site_in_messages(client, self.site_names[client])

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one input."""
        return tuple(self.clients[0].inputs.shape[1:])

    def digest(self) -> str:
        """Hash the sites' names, labels and shapes, to notice later that samples have changed."""
        total = hashlib.sha256()
        for name, client in zip(self.site_names, self.clients, strict=True):
            total.update(f"{name} {tuple(client.inputs.shape)} {client.sample_names}".encode())
            total.update(client.labels.numpy().tobytes())
        return total.hexdigest()[:16]


def noise_rate(clients: Sequence[ClientData]) -> float | None:
    """Return the share of wrong labels over all clients; ``None`` if it cannot be known."""
    true = [client.true_labels for client in clients if client.true_labels is not None]
    if len(true) < len(clients):
        return None
    return effective_rate(torch.cat([client.labels for client in clients]), torch.cat(true))


def site_in_messages(client: int, name: str) -> str:
    """Return "site north", or "client 0" where the name is the client's number."""
    return f"client {client}" if name == str(client) else f"site {name}"


def check_site_names(names: Sequence[str], clients: int) -> None:
    """Raise a ``DataError`` unless there is one name per client that can be a folder's."""
    if len(names) != clients:
        raise DataError(f"there are {len(names)} site names for {clients} clients; give one each")
    wrong = next((n for n in names if not isinstance(n, str) or not SITE_NAME.fullmatch(n)), None)
    if wrong is not None:
        raise DataError(
            f"{wrong!r} is not a name for a site; use up to 64 letters, digits, spaces, '.', '-' "
            "and '_', and begin with a letter, a digit or '_'"
        )
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(f"{times} sites have the name '{name}'; give every site its own")


def with_validation(data: AnyData, validation: tuple[Inputs, Tensor]) -> AnyData:
    """Return the data with a part of their clean samples; nothing is read and checked again."""
    other = copy.copy(data)
    object.__setattr__(other, "validation", validation)
    return other


def check_client(inputs: Inputs, labels: Tensor, classes: int, where: str = "the client") -> None:
    """Raise a ``DataError`` that starts with ``where`` unless these samples can be trained on."""
    if not len(inputs.shape) or labels.ndim != 1:
        raise DataError(
            f"{where} has labels of shape {list(labels.shape)} for inputs of shape "
            f"{list(inputs.shape)}; give one label per input"
        )
    if len(inputs) != len(labels):
        raise DataError(
            f"{where} has {len(inputs)} inputs but {len(labels)} labels; give one label per input"
        )
    if not len(labels):
        raise DataError(f"{where} has no samples; leave it out or give it some")
    _check_labels(labels, classes, where)
    sample = _first_not_finite(inputs)
    if sample is not None:
        raise DataError(f"{where} has NaN or infinite inputs in sample {sample}; clean them first")


def _first_not_finite(inputs: Inputs) -> int | None:
    """Return the first sample with a NaN or an infinity."""
    if not inputs.dtype.is_floating_point:
        return None
    start, size = 0, min(max(1, NUMBERS // max(1, math.prod(inputs.shape[1:]))), SAMPLES)
    for part in parts(inputs, size):
        if not bool(part.isfinite().all()):
            return start + int((~part.isfinite()).reshape(len(part), -1).any(1).nonzero()[0])
        start += len(part)
    return None


def _check_labels(labels: Tensor, classes: int, where: str) -> None:
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise DataError(
            f"{where} has labels of type {labels.dtype}; labels must be integers from 0 to "
            f"{classes - 1}"
        )
    wrong = (labels < 0) | (labels >= classes)
    if bool(wrong.any()):
        sample = int(wrong.nonzero()[0])
        raise DataError(
            f"{where} has the label {int(labels[sample])} in sample {sample}; labels must be "
            f"between 0 and {classes - 1}"
        )


def _check_extras(client: ClientData, classes: int, where: str) -> None:
    if client.ids.shape != client.labels.shape:
        raise DataError(
            f"{where} has {len(client)} samples but ids of shape {list(client.ids.shape)}; give "
            "one id per sample"
        )
    if client.true_labels is not None:
        if client.true_labels.shape != client.labels.shape:
            raise DataError(
                f"{where} has {len(client)} samples but true labels of shape "
                f"{list(client.true_labels.shape)}; give one per sample, or None"
            )
        _check_labels(client.true_labels, classes, f"{where} (true labels)")
