"""Which samples are for the clients, for validation and for the test, from one seed.

by sample   validation and clients share the train split; the test split is the test
by writer   whole writers go to the clients and to validation; all other writers are the test
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsift.data.dataset import Dataset, Source
from fedsift.errors import DataError
from fedsift.randomness import generator


@dataclass(frozen=True, eq=False)
class Pools:
    """Rows of ``source`` for the clients (in random order) and for validation, and a test set."""

    source: Source
    clients: Tensor
    validation: Tensor
    test_source: Source
    test: Tensor

    def outside(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the rows of ``source`` that no part has and that neither validate nor test."""
        left = torch.ones(len(self.source), dtype=torch.bool)
        for rows in (*parts, self.validation):
            left[rows] = False
        if self.test_source is self.source:
            left[self.test] = False
        return left.nonzero().flatten()


def draw_pools(row: Dataset, seed: int) -> Pools:
    """Draw them by writer where the row counts writers, else by sample."""
    return _by_sample(row, seed) if row.writers is None else _by_writer(row, row.writers, seed)


def _by_sample(row: Dataset, seed: int) -> Pools:
    train, test = row.load("train"), row.load("test")
    kept = row.validation_size or 0
    wanted = row.clients * (row.samples_per_client or 1)
    if kept + wanted > len(train):
        raise DataError(
            f"{row.name} has {len(train)} train samples but {wanted} for {row.clients} clients and "
            f"{kept} for validation are asked for; lower clients, samples_per_client or "
            "validation_size"
        )
    order = torch.randperm(len(train), generator=generator(seed, "data", "draw"))
    return Pools(
        source=train,
        clients=order[kept:],
        validation=order[:kept].sort().values,
        test_source=test,
        test=_limit(torch.arange(len(test)), row.test_size, generator(seed, "data", "test")),
    )


def _by_writer(row: Dataset, writers: tuple[int, int], seed: int) -> Pools:
    source = row.load("train")
    if source.groups is None:
        raise DataError(f"{row.name} does not name its writers; leave out the option writers")
    found = int(source.groups.max()) + 1
    for_clients, for_validation = writers
    if for_clients + for_validation >= found:
        raise DataError(
            f"{row.name} has {found} writers here but {for_clients} for the clients, "
            f"{for_validation} for validation and at least 1 for the test are asked for; lower "
            "the option writers"
        )
    order = torch.randperm(found, generator=generator(seed, "data", "writers"))
    role = torch.full((found,), 2)
    role[order[:for_clients]] = 0
    role[order[for_clients : for_clients + for_validation]] = 1
    rows = [torch.nonzero(role[source.groups] == r).flatten() for r in range(3)]
    shuffle = torch.randperm(len(rows[0]), generator=generator(seed, "data", "draw"))
    return Pools(
        source=source,
        clients=rows[0][shuffle],
        validation=_limit(rows[1], row.validation_size, generator(seed, "data", "validation")),
        test_source=source,
        test=_limit(rows[2], row.test_size, generator(seed, "data", "test")),
    )


def _limit(rows: Tensor, size: int | None, random: torch.Generator) -> Tensor:
    if size is None or size >= len(rows):
        return rows
    return rows[torch.randperm(len(rows), generator=random)[:size]].sort().values
