"""The paper's federations (Section 5), and variations of them, from one seed.

    D_val       clean samples of the train split, or of some writers
    client m    samples of the rest, a share ρ_m of whose labels is wrong
    iid         ρ_m = 0.4 for all clients
    non-iid     ρ_m ~ U[0.2, 0.9]: in the paper this is about the noise, not about the classes

Which samples a client has and which labels are wrong come from different generators: a seed gives
the same samples at every noise rate.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedsift.data.corrupt import NOISES, Rate, effective_rate, rates
from fedsift.data.defaults import Dataset, lookup
from fedsift.data.federated import ClientData, FederatedData, Samples
from fedsift.data.partition import by_group, dirichlet, iid, shards
from fedsift.data.registry import load
from fedsift.data.source import Source
from fedsift.errors import DataError
from fedsift.randomness import generator

PARTITIONS = ("iid", "dirichlet", "shards", "writer")
RHO: dict[str, Rate] = {"iid": 0.4, "non-iid": (0.2, 0.9)}


@dataclass(frozen=True)
class _Pools:
    """Rows of ``source`` for the clients (in random order) and for validation, and a test set."""

    source: Source
    clients: Tensor
    validation: Tensor
    test_source: Source
    test: Tensor


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
    rho: Rate | None = None,
    alpha: float = 0.5,
    shards_per_client: int = 2,
    seed: int = 0,
) -> FederatedData:
    """Load a dataset and spread it over clients; what is ``None`` comes from ``DEFAULTS``.

    ``samples_per_client`` is exact for ``iid``, the mean for ``dirichlet`` and ``shards`` and a
    limit for ``writer``. ``validation_size`` limits a validation set of whole writers.
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
    client_rates = rates(row.clients, _rho(split, rho), generator(seed, "data", "rates"))
    pools = _pools_by_writer(row, seed) if row.writers else _pools_by_sample(row, seed)
    parts = _spread(row, pools, alpha, shards_per_client, generator(seed, "data", "partition"))
    corrupted = []
    for m, (rows, rate) in enumerate(zip(parts, client_rates, strict=True)):
        inputs, true = _samples(pools.source, rows)
        noisy = NOISES[noise](true, rate, len(row.class_names), generator(seed, "data", "noise", m))
        corrupted.append(ClientData(inputs, noisy, true, rows))
    return FederatedData(
        name=name,
        clients=corrupted,
        validation=_samples(pools.source, pools.validation),
        test=_samples(pools.test_source, pools.test),
        class_names=row.class_names,
        noise_rate=effective_rate(
            torch.cat([client.labels for client in corrupted]),
            pools.source.labels[torch.cat(parts)],
        ),
    )


def _pools_by_sample(row: Dataset, seed: int) -> _Pools:
    train, test = load(row.name, "train"), load(row.name, "test")
    kept = row.validation_size or 0
    wanted = row.clients * (row.samples_per_client or 1)
    if kept + wanted > len(train):
        raise DataError(
            f"{row.name} has {len(train)} train samples but {wanted} for {row.clients} clients and "
            f"{kept} for validation are asked for; lower clients, samples_per_client or "
            "validation_size."
        )
    order = torch.randperm(len(train), generator=generator(seed, "data", "draw"))
    return _Pools(
        source=train,
        clients=order[kept:],
        validation=order[:kept].sort().values,
        test_source=test,
        test=_limit(torch.arange(len(test)), row.test_size, generator(seed, "data", "test")),
    )


def _pools_by_writer(row: Dataset, seed: int) -> _Pools:
    """Give whole writers to the clients and to validation; the rest are the test set."""
    source = load(row.name, "train")
    if source.groups is None or row.writers is None:
        raise DataError(f"{row.name} does not know its writers; leave out the option writers.")
    found = int(source.groups.max()) + 1
    for_clients, for_validation = row.writers
    if for_clients + for_validation >= found:
        raise DataError(
            f"{row.name} has {found} writers here but {for_clients} for the clients, "
            f"{for_validation} for validation and at least 1 for the test are asked for; lower "
            "the option writers."
        )
    order = torch.randperm(found, generator=generator(seed, "data", "writers"))
    role = torch.full((found,), 2)
    role[order[:for_clients]] = 0
    role[order[for_clients : for_clients + for_validation]] = 1
    rows = [torch.nonzero(role[source.groups] == r).flatten() for r in range(3)]
    shuffle = torch.randperm(len(rows[0]), generator=generator(seed, "data", "draw"))
    return _Pools(
        source=source,
        clients=rows[0][shuffle],
        validation=_limit(rows[1], row.validation_size, generator(seed, "data", "validation")),
        test_source=source,
        test=_limit(rows[2], row.test_size, generator(seed, "data", "test")),
    )


def _spread(
    row: Dataset, pools: _Pools, alpha: float, shards_per_client: int, random: torch.Generator
) -> list[Tensor]:
    """Return each client's rows of the source, ascending."""
    pool, size = pools.clients, row.samples_per_client
    if row.partition == "writer":
        if pools.source.groups is None:
            raise DataError(
                f"{row.name} does not know its writers; choose the partition iid, dirichlet or "
                "shards."
            )
        # The pool is in random order, so the first rows of a client are a random choice.
        parts = [p[:size] for p in by_group(pools.source.groups[pool], row.clients, random)]
    elif row.partition == "iid":
        parts = iid(len(pool), [size] * row.clients if size else row.clients, random)
    else:
        pool = pool[: row.clients * size] if size else pool
        labels = pools.source.labels[pool]
        if row.partition == "dirichlet":
            parts = dirichlet(labels, row.clients, alpha, random)
        else:
            parts = shards(labels, row.clients, shards_per_client, random)
    return [pool[part].sort().values for part in parts]


def _samples(source: Source, rows: Tensor) -> Samples:
    return source.inputs(rows), source.labels[rows]


def _limit(rows: Tensor, size: int | None, random: torch.Generator) -> Tensor:
    if size is None or size >= len(rows):
        return rows
    return rows[torch.randperm(len(rows), generator=random)[:size]].sort().values


def _rho(split: str, rho: Rate | None) -> Rate:
    _check_choice("split", split, RHO)
    if rho is None:
        return RHO[split]
    one = isinstance(rho, int | float)
    if one != (split == "iid"):
        wanted = "one number" if split == "iid" else "a pair (low, high)"
        raise DataError(f"rho is {rho} but the split {split!r} needs {wanted}; change one of them.")
    return rho


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
            raise DataError(f"{key} is {value}; it must be at least 1.")
    if row.writers is not None and (len(row.writers) != 2 or min(row.writers) < 1):
        raise DataError(
            f"writers is {row.writers}; give how many for the clients and how many for validation."
        )


def _check_choice(key: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise DataError(f"{key} is {value!r}; it must be one of {', '.join(choices)}.")
