"""csv and tsv files, also gzipped: UTF-8, a header, fields separated by commas (tabs in tsv).

pandas fills short rows and renames columns that occur twice without a word, so the rows are counted
first. Labels and ids are read as text ("007" stays); other columns as pandas reads them.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from dataclasses import replace
from pathlib import Path
from typing import IO

import pandas as pd

from fedsift.data.samples import Samples
from fedsift.data.sources.frames import check_columns, from_frame
from fedsift.data.sources.options import ReadOptions
from fedsift.errors import DataError

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
# What stands for a missing value: pandas' own list, but "None" is a class of many tables.
MISSING_LABEL = (
    "",
    "#N/A",
    "<NA>",
    "N/A",
    "NA",
    "NULL",
    "NaN",
    "-NaN",
    "n/a",
    "nan",
    "-nan",
    "null",
)
MISSING = (*MISSING_LABEL, "None", "#N/A N/A", "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN")

NO_NAME = "the first column has no name and is left out, as the row numbers that pandas writes"


def read_csv(path: Path, options: ReadOptions) -> Samples:
    """Read a table of comma- or tab-separated values."""
    separator = separator_of(path)
    try:
        header = _checked_header(path, separator)
        check_columns(header, str(path), options)
        frame = _frame(path, separator, header, options)
        if header[0] == "":
            frame = frame.drop(columns=frame.columns[0])
    except UnicodeError:
        raise DataError(f"{path} is not UTF-8 text; save it with the encoding UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(f"{path} is not a whole gzip file; compress it again") from None
    except (csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DataError(f"{path} cannot be read as csv ({reason}); write it again") from None
    samples = from_frame(frame, str(path), options, path.parent)
    return samples if header[0] else replace(samples, notes=(NO_NAME, *samples.notes))


def separator_of(path: Path) -> str:
    """Return what separates fields, by the file's name."""
    return "\t" if ".tsv" in path.suffixes[-2:] else ","


def open_text(path: Path) -> IO[str]:
    """Open a file for reading, also a gzipped one."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _checked_header(path: Path, separator: str) -> list[str]:
    """Return the columns' names; refuse a file whose rows differ in length."""
    with open_text(path) as file:
        rows = csv.reader(file, delimiter=separator, strict=True)
        header = next((row for row in rows if row), None)
        if header is None:
            raise DataError(f"{path} is empty; a csv file needs a header and rows")
        other = ";" if separator == "," else ","
        if len(header) == 1 and other in header[0]:
            raise DataError(
                f"{path} has one column {header[0]!r}; separate fields with "
                f"{'commas and write decimals with points' if separator == ',' else 'tabs'}"
            )
        if "" in header[1:]:
            column = header.index("", 1) + 1
            raise DataError(f"{path} has no name for column {column}; write one in the header")
        for row in rows:
            if row and len(row) != len(header):
                raise DataError(
                    f"{path} has {len(row)} fields in line {rows.line_num} and {len(header)} in "
                    "its header; quote fields that hold the separator, or complete the row"
                )
    return header


def _frame(path: Path, separator: str, header: list[str], options: ReadOptions) -> pd.DataFrame:
    missing: dict[str, tuple[str, ...]] = dict.fromkeys(header, MISSING)
    missing[options.label_column] = MISSING_LABEL
    text = [options.label_column]
    if options.id_column is not None:
        missing[options.id_column] = ("",)
        text.append(options.id_column)
    return pd.read_csv(
        path,
        sep=separator,
        dtype=dict.fromkeys(text, str),
        na_values=missing,
        keep_default_na=False,
        encoding="utf-8-sig",
        index_col=False,
        low_memory=False,  # one type per column, not one per piece of the file
    )
