"""The table of partitions: which client gets which samples. A new one is one function and one row.

    iid         uniformly at random
    dirichlet   for each class c, shares p_c ~ Dir(α, ..., α) of its samples (Hsu et al., 2019)
    shards      sort by label, cut into equal shards, deal them out (McMahan et al., 2017)
    writer      all samples of a writer to one client

Every function returns one int64 tensor of ascending positions in the pool per client. No position
is given twice, no client is empty. Where ``samples_per_client`` is given, it is exact for ``iid``,
the mean for ``dirichlet`` and ``shards`` and a limit for ``writer``; positions are left over then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedsift.errors import DataError

_DIRICHLET_DRAWS = 100


@dataclass(frozen=True, eq=False)
class Pool:
    """Samples to be split over clients, in random order, with what a partition needs to know.

    ``groups`` numbers the writers, where they are known; ``alpha`` is for ``dirichlet``,
    ``shards_per_client`` for ``shards``.
    """

    labels: Tensor
    clients: int
    samples_per_client: int | None = None
    groups: Tensor | None = None
    alpha: float = 0.5
    shards_per_client: int = 2

    @property
    def used(self) -> Tensor:
        """The labels of as many samples as are asked for; all if no number is."""
        return self.labels[: self.clients * (self.samples_per_client or len(self.labels))]


Partition = Callable[[Pool, torch.Generator], list[Tensor]]


def iid(pool: Pool, generator: torch.Generator) -> list[Tensor]:
    """Give each client its number of samples, or all samples to all clients evenly."""
    n, clients, each = len(pool.labels), pool.clients, pool.samples_per_client
    _check_clients(clients, n, "samples")
    if clients * (each or 1) > n:
        raise DataError(
            f"{clients} clients with {each} samples each need more than the {n} samples that there "
            "are; lower the number of clients or of samples per client"
        )
    sizes = [n // clients + (m < n % clients) if each is None else each for m in range(clients)]
    order = torch.randperm(n, generator=generator)
    return [part.sort().values for part in torch.split(order[: sum(sizes)], sizes)]


def dirichlet(pool: Pool, generator: torch.Generator) -> list[Tensor]:
    """Draw each class's shares from a Dirichlet; again until no client is empty."""
    labels, clients, alpha = pool.used, pool.clients, pool.alpha
    _check_clients(clients, len(labels), "samples")
    if not 0 < alpha < float("inf"):
        raise DataError(f"alpha is {alpha}; it must be a positive number")
    # torch has no public Dirichlet sampler that takes a generator.
    seed = int(torch.randint(2**62, (), generator=generator))
    random = np.random.default_rng(seed)
    by_class = [
        positions[torch.randperm(len(positions), generator=generator)]
        for label in torch.unique(labels)
        for positions in [torch.nonzero(labels == label).flatten()]
    ]
    for _ in range(_DIRICHLET_DRAWS):
        parts: list[list[Tensor]] = [[] for _ in range(clients)]
        for positions in by_class:
            shares = random.dirichlet(np.full(clients, alpha))
            cuts = np.round(np.cumsum(shares)[:-1] * len(positions)).astype(int)
            for part, piece in zip(parts, positions.tensor_split(cuts.tolist()), strict=True):
                part.append(piece)
        result = [torch.cat(part).sort().values for part in parts]
        if all(map(len, result)):
            return result
    raise DataError(
        f"in {_DIRICHLET_DRAWS} Dirichlet draws with alpha {alpha} some client always had none of "
        f"the {len(labels)} samples; raise alpha or lower the number of clients"
    )


def shards(pool: Pool, generator: torch.Generator) -> list[Tensor]:
    """Deal ``shards_per_client`` shards of label-sorted samples to each client."""
    labels, clients, each = pool.used, pool.clients, pool.shards_per_client
    if each < 1:
        raise DataError(f"shards_per_client is {each}; it must be at least 1")
    _check_clients(clients * each, len(labels), "samples")
    order = torch.randperm(len(labels), generator=generator)
    by_label = order[labels[order].argsort(stable=True)]
    pieces = by_label.tensor_split(clients * each)
    deal = torch.randperm(clients * each, generator=generator).view(clients, each)
    return [torch.cat([pieces[s] for s in hand]).sort().values for hand in deal.tolist()]


def by_writer(pool: Pool, generator: torch.Generator) -> list[Tensor]:
    """Deal whole writers at random, the same number to each client (or one more)."""
    if pool.groups is None:
        raise DataError("the data do not name the writers; choose another partition than 'writer'")
    names, index = torch.unique(pool.groups, return_inverse=True)
    _check_clients(pool.clients, len(names), "writers")
    seat = torch.randperm(len(names), generator=generator) % pool.clients
    owner = seat[index]
    # The pool is in random order, so the first samples of a client are a random choice.
    parts = (torch.nonzero(owner == m).flatten() for m in range(pool.clients))
    return [part[: pool.samples_per_client] for part in parts]


PARTITIONS: dict[str, Partition] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "shards": shards,
    "writer": by_writer,
}


def _check_clients(wanted: int, available: int, unit: str) -> None:
    if wanted < 1:
        raise DataError("there must be at least one client; raise the number of clients")
    if wanted > available:
        raise DataError(
            f"the partition needs at least {wanted} {unit} but there are {available}, so a client "
            "would be empty; lower the number of clients"
        )
