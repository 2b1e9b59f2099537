"""What a run leaves of a site's samples; the audit needs nothing else.

    clients/<site>/weights.parquet

| column     | meaning                                                          |
|------------|------------------------------------------------------------------|
| index      | position of the sample at its site                               |
| id         | what its owner calls it                                          |
| label      | number of the class that it was given                            |
| weight     | learned weight in [0, 1]                                         |
| agreement  | how far the model agreed with the label, mean over rounds        |
| true_label | number of the right class, in simulation only                    |
| pred_probs | the trained model's probability of every class                   |
| clean_probs| that by heads of the clean set alone, after out-of-fold          |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fedsift.errors import DataError, InputError
from fedsift.files import write_atomically
from fedsift.memory import aligned

FILE = "weights.parquet"
ROWS = ("pred_probs", "clean_probs")


@dataclass(frozen=True, eq=False)
class SiteRecord:
    """The samples of one site after training; only the site itself may see it.

    ``labels`` are class numbers; ``ids`` are None where samples have no names, ``true_labels``
    where they are not known, ``clean`` where there are no heads of the clean set.
    """

    site: str
    labels: Tensor
    weights: Tensor
    probabilities: Tensor
    ids: tuple[str, ...] | None = None
    agreement: Tensor | None = None
    true_labels: Tensor | None = None
    clean: Tensor | None = None

    def __post_init__(self) -> None:
        if self.ids is not None and len(self.ids) != len(self.labels):
            raise DataError(
                f"there are {len(self.ids)} ids for {len(self.labels)} samples; give one id per "
                "sample"
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def names(self) -> list[str]:
        """The samples' ids; their positions where they have none."""
        return [str(n) for n in range(len(self))] if self.ids is None else list(self.ids)

    def write(self, folder: Path) -> None:
        """Write it into the folder of a run."""
        table = pa.table(
            {name: values for name, values in self._columns().items() if values is not None}
        )
        write_atomically(path_of(folder, self.site), partial(pq.write_table, table))

    def _columns(self) -> dict[str, Any]:
        return {
            "index": np.arange(len(self)),
            "id": self.names,
            "label": self.labels.numpy(),
            "weight": self.weights.numpy(),
            "agreement": None if self.agreement is None else self.agreement.numpy(),
            "true_label": None if self.true_labels is None else self.true_labels.numpy(),
            "pred_probs": _rows(self.probabilities),
            "clean_probs": None if self.clean is None else _rows(self.clean),
        }


def path_of(folder: Path, site: str) -> Path:
    """Return where a site's record is in the folder of a run."""
    return folder / "clients" / site / FILE


def sites_of(folder: Path) -> list[str]:
    """Return the sites that have a record, numbers in their own order."""
    found = (path.parent.name for path in (folder / "clients").glob(f"*/{FILE}"))
    return sorted(found, key=lambda name: (len(name) if name.isdecimal() else 0, name))


def read_record(folder: Path, site: str) -> SiteRecord:
    """Read a site's record from the folder of a run."""
    path = path_of(folder, site)
    try:
        table = pq.read_table(path)
        kept = [name for name in ROWS if name in table.column_names]
        rows = {name: _array(table.column(name).combine_chunks()) for name in kept}
        frame: pd.DataFrame = table.drop_columns(kept).to_pandas()
        probabilities = rows["pred_probs"]
        arrays = {name: _tensor(frame[name]) for name in frame if name not in {"id", "index"}}
        ids = tuple(frame["id"])
        labels, weights = arrays["label"].long(), arrays["weight"]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"{path} is not what a finished run leaves of a site ({reason}); make the run again"
        ) from None
    return SiteRecord(
        site,
        labels,
        weights,
        probabilities,
        ids,
        arrays.get("agreement"),
        arrays.get("true_label"),
        rows.get("clean_probs"),
    )


def _rows(probabilities: Tensor) -> pa.FixedSizeListArray:
    flat = pa.array(probabilities.float().contiguous().numpy().reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, probabilities.shape[1])


def _array(column: Any) -> Tensor:
    values = np.asarray(column.flatten()).reshape(len(column), -1)
    return aligned(torch.from_numpy(values.copy()))


def _tensor(column: pd.Series[Any]) -> Tensor:
    return aligned(torch.from_numpy(column.to_numpy(copy=True)))
