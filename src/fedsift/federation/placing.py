"""What came as bytes, on the device where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from fedsift.compress import Payload, Sketch, Sparse

CPU = torch.device("cpu")


def placed(arrays: Mapping[str, Any], where: torch.device) -> dict[str, Payload]:
    """Return the arrays of a message on a device."""
    found: dict[str, Payload] = {}
    for name, array in arrays.items():
        if isinstance(array, Sparse):
            indices, values = array.indices.to(where), array.values.to(where)
            found[name] = replace(array, indices=indices, values=values)
        elif isinstance(array, Sketch):
            found[name] = replace(array, table=array.table.to(where))
        else:
            found[name] = array.to(where)
    return found
