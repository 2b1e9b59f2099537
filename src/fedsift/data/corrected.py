"""Labels that a person has corrected, which replace a client's own.

| column   | meaning                                              |
|----------|------------------------------------------------------|
| site     | whose sample; one file may hold several sites        |
| index    | position of the sample at its site                   |
| class    | number of the class it is now                        |
| unusable | true: leave the sample out                           |

A sample that is not in the file keeps its label. ``fedsift review`` writes such files.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fedsift.data.federated import ClientData, FederatedData, noise_rate
from fedsift.errors import DataError

COLUMNS = ("site", "index", "class", "unusable")


def apply_corrections(data: FederatedData, path: Path) -> FederatedData:
    """Return the data with the labels of a file, or of all parquet files in a folder."""
    table = read_corrections(path)
    unknown = sorted(set(table["site"]) - set(data.site_names))
    if unknown:
        raise DataError(
            f"{path} has the site {unknown[0]} but the federation has no such site; it has "
            f"{', '.join(data.site_names)}"
        )
    clients = [
        _corrected(client, table[table["site"] == name], f"site {name} in {path}", data.classes)
        for name, client in zip(data.site_names, data.clients, strict=True)
    ]
    rate = noise_rate(clients)
    return replace(data, clients=clients, noise_rate=data.noise_rate if rate is None else rate)


def read_corrections(path: Path) -> pd.DataFrame:
    """Read the corrections of a file or a folder."""
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not all(file.is_file() for file in files):
        raise DataError(f"there are no corrected labels at {path}; give a parquet file or a folder")
    parts = []
    for file in files:
        try:
            parts.append(pd.read_parquet(file))
        except (OSError, ValueError) as error:
            raise DataError(f"{file} cannot be read as parquet ({error}); export again") from None
        missing = [name for name in COLUMNS if name not in parts[-1]]
        if missing:
            raise DataError(f"{file} has no column {missing[0]!r}; export the labels again")
    table = pd.concat(parts, ignore_index=True).astype({"site": str})
    if table.duplicated(["site", "index"]).any():
        raise DataError(f"{path} has a sample twice; keep one row of each site and index")
    return table


def _corrected(client: ClientData, rows: pd.DataFrame, where: str, classes: int) -> ClientData:
    at, new = (rows[name].to_numpy(np.int64, copy=True) for name in ("index", "class"))
    if len(at) and (at.min() < 0 or at.max() >= len(client)):
        raise DataError(
            f"{where} has an index above {len(client) - 1} or below 0; export the labels again"
        )
    if len(new) and (new.min() < 0 or new.max() >= classes):
        raise DataError(f"{where} has a class outside 0 to {classes - 1}; export the labels again")
    labels = client.labels.clone()
    labels[torch.from_numpy(at)] = torch.from_numpy(new)
    kept = torch.ones(len(client), dtype=torch.bool)
    kept[torch.from_numpy(at[rows["unusable"].to_numpy(bool)])] = False
    if not bool(kept.any()):
        raise DataError(f"{where} has no usable sample left; leave the client out")
    return replace(client, labels=labels).choose(kept)
