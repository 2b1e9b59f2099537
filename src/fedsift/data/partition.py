"""Split ``n`` positions over clients.

Every function returns one int64 tensor of ascending positions per client; no position is given
twice, and only ``iid`` with explicit sizes may leave positions over.

    iid         uniformly at random
    dirichlet   for each class c, shares p_c ~ Dir(α, ..., α) of its samples (Hsu et al., 2019)
    shards      sort by label, cut into equal shards, deal them out (McMahan et al., 2017)
    by_group    whole groups, such as all samples of one writer
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from fedsift.errors import DataError

_DIRICHLET_DRAWS = 100


def iid(n: int, sizes: int | Sequence[int], generator: torch.Generator) -> list[Tensor]:
    """Give each client ``sizes[m]`` of ``n`` samples; an integer means that many equal clients."""
    if isinstance(sizes, int):
        _check_clients(sizes, n, "samples")
        sizes = [n // sizes + (m < n % sizes) for m in range(sizes)]
    if not sizes or min(sizes) < 1:
        raise DataError("Every client needs at least one sample; raise the sizes.")
    if sum(sizes) > n:
        raise DataError(
            f"{len(sizes)} clients ask for {sum(sizes)} samples but there are {n}; lower the "
            "number of clients or of samples per client."
        )
    order = torch.randperm(n, generator=generator)
    return [part.sort().values for part in torch.split(order[: sum(sizes)], list(sizes))]


def dirichlet(
    labels: Tensor, clients: int, alpha: float, generator: torch.Generator, min_size: int = 1
) -> list[Tensor]:
    """Draw each class's shares from a Dirichlet; again until all have ``min_size`` samples."""
    min_size = max(1, min_size)
    _check_clients(clients * min_size, len(labels), "samples")
    if not 0 < alpha < float("inf"):
        raise DataError(f"alpha is {alpha}; it must be a positive number.")
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
        if min(map(len, result)) >= min_size:
            return result
    raise DataError(
        f"In {_DIRICHLET_DRAWS} Dirichlet draws with alpha {alpha} some client always had fewer "
        f"than {min_size} of {len(labels)} samples; raise alpha or lower the number of clients."
    )


def shards(
    labels: Tensor, clients: int, shards_per_client: int, generator: torch.Generator
) -> list[Tensor]:
    """Deal ``shards_per_client`` shards of label-sorted samples to each client."""
    if shards_per_client < 1:
        raise DataError(f"shards_per_client is {shards_per_client}; it must be at least 1.")
    total = clients * shards_per_client
    _check_clients(total, len(labels), "samples")
    order = torch.randperm(len(labels), generator=generator)
    by_label = order[labels[order].argsort(stable=True)]
    pieces = by_label.tensor_split(total)
    deal = torch.randperm(total, generator=generator).view(clients, shards_per_client)
    return [torch.cat([pieces[s] for s in hand]).sort().values for hand in deal.tolist()]


def by_group(groups: Tensor, clients: int, generator: torch.Generator) -> list[Tensor]:
    """Deal whole groups at random, as many to each client (up to one)."""
    names, index = torch.unique(groups, return_inverse=True)
    _check_clients(clients, len(names), "groups")
    seat = torch.randperm(len(names), generator=generator) % clients
    owner = seat[index]
    return [torch.nonzero(owner == m).flatten() for m in range(clients)]


def _check_clients(wanted: int, available: int, unit: str) -> None:
    if wanted < 1:
        raise DataError("There must be at least one client; raise the number of clients.")
    if wanted > available:
        raise DataError(
            f"The partition needs at least {wanted} {unit} but there are {available}, so a client "
            "would be empty; lower the number of clients."
        )
