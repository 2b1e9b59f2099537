"""Labels that a person has corrected, which replace a site's own.

| column   | meaning                                                                     |
|----------|-----------------------------------------------------------------------------|
| site     | whose sample; one file may hold several sites                               |
| id       | what the site calls the sample; where it is missing, `index`                |
| index    | position of the sample at its site                                          |
| label    | the class that it has now, by name; empty: the one it had                   |
| unusable | true: leave the sample out; a file may lack this column                     |

Samples are found by their ids, so a file stays right when other samples come or go. A sample that
is not in the file keeps its label.

| file                     | written by                                                  |
|--------------------------|-------------------------------------------------------------|
| .parquet, .csv           | ``fedsift review``, or by hand                              |
| .json                    | Label Studio (``label_studio``)                             |
| a run's folder           | the `corrected.parquet` of every site that was reviewed     |
| another folder           | all such files in it                                        |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from fedsift.data.federated import ClientData, FederatedData, noise_rate
from fedsift.data.label_studio import read_label_studio
from fedsift.data.samples import Samples
from fedsift.data.sources.names import id_names, text_of
from fedsift.errors import DataError

FILE = "corrected.parquet"
TRUE = ("true", "1", "1.0", "yes")
Source = str | Path | pd.DataFrame


def _read_csv(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False, na_values={"": ""})


READERS: Mapping[str, Callable[[Path], pd.DataFrame]] = {
    ".parquet": pd.read_parquet,
    ".csv": _read_csv,
    ".json": read_label_studio,
}


@dataclass(frozen=True)
class Corrections:
    """Of one site: the new label of some positions, and those that are left out."""

    labels: Mapping[int, str]
    unusable: frozenset[int]

    def kept(self, count: int, where: str) -> list[int]:
        """Return the positions that stay."""
        rows = [n for n in range(count) if n not in self.unusable]
        if not rows:
            raise DataError(f"{where} has no usable sample left; leave the site out")
        return rows


def apply_corrections(data: FederatedData, labels: Source) -> FederatedData:
    """Return the data of all sites with corrected labels."""
    table, where = read_corrections(labels), _where(labels)
    if "site" not in table:
        if len(data.clients) > 1:
            raise DataError(f"{where} has no column 'site' but there are several; add the column")
        table = table.assign(site=data.site_names[0])
    unknown = sorted(set(table["site"]) - set(data.site_names))
    if unknown:
        raise DataError(
            f"{where} has the site {unknown[0]} but the federation has no such site; it has "
            f"{', '.join(data.site_names)}"
        )
    clients = [
        _corrected(client, table[table["site"] == name], f"site {name} in {where}", data)
        for name, client in zip(data.site_names, data.clients, strict=True)
    ]
    rate = noise_rate(clients)
    return replace(data, clients=clients, noise_rate=data.noise_rate if rate is None else rate)


def correct_samples(samples: Samples, site: str, labels: Source) -> Samples:
    """Return the samples of one site with corrected labels."""
    table, where = read_corrections(labels), _where(labels)
    own = table[table["site"] == site] if "site" in table else table
    if own.empty and len(table):
        raise DataError(
            f"{where} has the site {table['site'].iloc[0]} and not {site}; give this site's file, "
            "or its --name"
        )
    found = corrections(own, samples.names, f"site {site} in {where}")
    if samples.classes is not None:
        _check_classes(found, samples.classes, f"site {site} in {where}")
    new = tuple(found.labels.get(n, label) for n, label in enumerate(samples.labels))
    return replace(samples, labels=new).choose(found.kept(len(samples), f"site {site} in {where}"))


def read_corrections(labels: Source) -> pd.DataFrame:
    """Read corrections of a file, of the files in a folder, or of a table."""
    if isinstance(labels, pd.DataFrame):
        return _checked(labels, "the table of corrected labels")
    files = _files(Path(labels))
    if not files or not all(file.is_file() for file in files):
        raise DataError(
            f"there are no corrected labels at {labels}; give a file of `fedsift review`, an "
            "export of Label Studio, or a folder of them"
        )
    parts = []
    for file in files:
        read = READERS.get(file.suffix.lower())
        if read is None:
            raise DataError(f"{file} is not {', '.join(READERS)}; give corrected labels as such")
        try:
            parts.append(_checked(read(file), str(file)))
        except DataError:
            raise
        except (OSError, ValueError) as error:
            reason = str(error).partition("\n")[0]
            raise DataError(f"{file} cannot be read ({reason}); export again") from None
    return pd.concat(parts, ignore_index=True)


def left_out(labels: Source, site: str) -> pd.DataFrame:
    """Return the samples of a site that corrections leave out, by id."""
    table = read_corrections(labels)
    if "id" not in table or "unusable" not in table:
        return table.iloc[:0]
    own = table[table["site"] == site] if "site" in table else table.assign(site=site)
    return own[_flags(own["unusable"])].assign(unusable=True, index=-1)


def corrections(rows: pd.DataFrame, names: Sequence[str], where: str) -> Corrections:
    """Find the samples of one site that a table is about, by their ids or positions."""
    if rows.empty:
        return Corrections({}, frozenset())
    at = _places(rows, names, where)
    labels = rows["label"] if "label" in rows else pd.Series([None] * len(rows))
    given = labels.notna().to_numpy() & (labels.astype(str) != "").to_numpy()
    new = [text_of(value) for value in labels[given]]
    out = _flags(rows["unusable"]) if "unusable" in rows else np.zeros(len(rows), bool)
    changed = dict(zip(np.array(at)[given].tolist(), new, strict=True))
    return Corrections(changed, frozenset(np.array(at)[out].tolist()))


def _places(rows: pd.DataFrame, names: Sequence[str], where: str) -> list[int]:
    place = {name: n for n, name in enumerate(names)}
    if "id" in rows and len(place) == len(names):
        ids = id_names(rows["id"], where)
        if missing := next((name for name in ids if name not in place), None):
            raise DataError(
                f"{where} has the id {missing!r}, which no sample has; the samples or their ids "
                "have changed, so take the row out"
            )
        return [place[name] for name in ids]
    try:
        at = pd.to_numeric(rows["index"]).astype(np.int64).tolist()
    except (ValueError, TypeError):
        raise DataError(f"{where} has an index that is not a whole number; correct it") from None
    if min(at) < 0 or max(at) >= len(names):
        raise DataError(
            f"{where} has an index above {len(names) - 1} or below 0; export the labels again"
        )
    if len(set(at)) < len(at):
        raise DataError(f"{where} has a sample twice; keep one row of each")
    return at


def _corrected(
    client: ClientData, rows: pd.DataFrame, where: str, data: FederatedData
) -> ClientData:
    found = corrections(rows, client.sample_names, where)
    _check_classes(found, data.class_names, where)
    number = {name: n for n, name in enumerate(data.class_names)}
    labels = client.labels.clone()
    for place, name in found.labels.items():
        labels[place] = number[name]
    kept = torch.zeros(len(client), dtype=torch.bool)
    kept[found.kept(len(client), where)] = True
    return replace(client, labels=labels).choose(kept)


def _check_classes(found: Corrections, classes: Sequence[str], where: str) -> None:
    unknown = sorted(set(found.labels.values()) - set(classes))
    if unknown:
        listed = ", ".join(classes[:10]) + (", ..." if len(classes) > 10 else "")
        raise DataError(f"{where} has the label {unknown[0]!r}, which is no class ({listed})")


def _flags(column: pd.Series) -> np.ndarray:
    return np.array([str(value).strip().lower() in TRUE for value in column])


def _checked(table: pd.DataFrame, where: str) -> pd.DataFrame:
    if "id" not in table and "index" not in table:
        raise DataError(f"{where} has no column 'id' or 'index'; export the labels again")
    if "label" not in table and "unusable" not in table:
        raise DataError(f"{where} has no column 'label'; export the labels again")
    return table.astype({"site": str}) if "site" in table else table


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / "clients").is_dir():
        return sorted(path.glob(f"clients/*/{FILE}"))
    return sorted(file for file in path.iterdir() if file.suffix.lower() in READERS)


def _where(labels: Source) -> str:
    return "the table of corrected labels" if isinstance(labels, pd.DataFrame) else str(labels)
