"""The table of preparations: one file and one row each."""

from __future__ import annotations

from fedsift.data.schema.array import ArrayPreparation
from fedsift.data.schema.encoded import EncodedPreparation
from fedsift.data.schema.image import ImagePreparation
from fedsift.data.schema.preparation import Preparation
from fedsift.data.schema.table import TablePreparation

PREPARATIONS: dict[str, type[Preparation]] = {
    row.kind: row
    for row in (TablePreparation, ImagePreparation, ArrayPreparation, EncodedPreparation)
}
