"""The paper's federations (Section 5), and variations of them, from one seed.

    D_val       clean samples of the train split, or of some writers       ``pools``
    client m    samples of the rest, chosen by a partition                 ``PARTITIONS``
                a share ρ_m of whose labels is made wrong by a noise       ``SPLITS``, ``NOISES``

Which samples a client has and which labels are wrong come from different generators: a seed gives
the same samples at every noise rate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fedsift.data.dataset import Dataset, Source
from fedsift.data.datasets import lookup
from fedsift.data.federated import ClientData, FederatedData, noise_rate
from fedsift.data.noise import NOISES, SPLITS, About, Outside, Rate, rates, split_rate
from fedsift.data.partition import PARTITIONS, Pool
from fedsift.data.pools import Pools, draw_pools
from fedsift.errors import DataError
from fedsift.randomness import generator


def build(
    name: str,
    *,
    split: str = "iid",
    partition: str | None = None,
    clients: int | None = None,
    samples_per_client: int | None = None,
    validation_size: int | None = None,
    test_size: int | None = None,
    writers: tuple[int, int] | None = None,
    noise: str = "symmetric",
    noise_column: str = "",
    rho: Rate | None = None,
    alpha: float = 0.5,
    shards_per_client: int = 2,
    seed: int = 0,
) -> FederatedData:
    """Load a dataset and split it over clients; what is ``None`` comes from its row.

    ``samples_per_client`` is exact for ``iid``, the mean for ``dirichlet`` and ``shards`` and a
    limit for ``writer``. ``validation_size`` limits a validation set of whole writers.
    ``noise_column`` is for ``human``: the column of labels, empty for the first.
    """
    given: dict[str, Any] = {
        "partition": partition,
        "clients": clients,
        "samples_per_client": samples_per_client,
        "validation_size": validation_size,
        "test_size": test_size,
        "writers": writers,
    }
    row = replace(lookup(name), **{key: value for key, value in given.items() if value is not None})
    _check(row)
    _check_choice("noise", noise, NOISES)
    _check_choice("split", split, SPLITS)
    client_rates = rates(row.clients, split_rate(split, rho), generator(seed, "data", "rates"))
    pools = draw_pools(row, seed)
    parts = _partition(row, pools, alpha, shards_per_client, generator(seed, "data", "partition"))
    corrupted, outside = [], _outside(row, pools, parts, seed)
    for m, (rows, rate) in enumerate(zip(parts, client_rates, strict=True)):
        inputs, true = _take(pools.source, rows)
        given = {column: labels[rows] for column, labels in pools.source.given.items()}
        about = About(name, inputs, outside, given, noise_column)
        random = generator(seed, "data", "noise", m)
        noisy = NOISES[noise](true, rate, len(row.class_names), random, about)
        corrupted.append(ClientData(inputs, noisy, true, rows))
    return FederatedData(
        name=name,
        clients=corrupted,
        validation=_take(pools.source, pools.validation),
        test=_take(pools.test_source, pools.test),
        class_names=row.class_names,
        noise_rate=noise_rate(corrupted),
    )


def _partition(
    row: Dataset, pools: Pools, alpha: float, shards_per_client: int, random: torch.Generator
) -> list[Tensor]:
    """Return each client's rows of the source, ascending."""
    source, rows = pools.source, pools.clients
    pool = Pool(
        labels=source.labels[rows],
        clients=row.clients,
        samples_per_client=row.samples_per_client,
        groups=None if source.groups is None else source.groups[rows],
        alpha=alpha,
        shards_per_client=shards_per_client,
    )
    return [rows[part].sort().values for part in PARTITIONS[row.partition](pool, random)]


def _outside(row: Dataset, pools: Pools, parts: list[Tensor], seed: int) -> Outside:
    """Return the samples that are in no other set; they are drawn and read only if asked for."""

    def read(count: int) -> tuple[Tensor, Tensor]:
        rows = pools.outside(parts)
        order = torch.randperm(len(rows), generator=generator(seed, "data", "outside"))
        return _take(pools.source, rows[order[:count]].sort().values)

    return Outside(row.name, len(row.class_names), read)


def _take(source: Source, rows: Tensor) -> tuple[Tensor, Tensor]:
    return source.inputs(rows), source.labels[rows]


def _check(row: Dataset) -> None:
    _check_choice("partition", row.partition, PARTITIONS)
    sizes = {
        "clients": row.clients,
        "samples_per_client": row.samples_per_client,
        "validation_size": row.validation_size,
        "test_size": row.test_size,
    }
    for key, value in sizes.items():
        if value is not None and value < 1:
            raise DataError(f"{key} is {value}; it must be at least 1")
    if row.writers is not None and (len(row.writers) != 2 or min(row.writers) < 1):
        raise DataError(
            f"writers is {row.writers}; give how many for the clients and how many for validation"
        )


def _check_choice(key: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise DataError(f"{key} is {value!r}; it must be one of {', '.join(choices)}")
