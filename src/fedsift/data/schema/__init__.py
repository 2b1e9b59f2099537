"""A schema: fitted on the clean set, sent as JSON, makes inputs of any site's samples.

| preparation | of         | inputs                                                        |
|-------------|------------|---------------------------------------------------------------|
| `table`     | `Table`    | numbers, booleans, categories and hashed text, a column each  |
| `image`     | `Pictures` | [C, H, W], standardised per channel, decoded when taken       |
| `array`     | `Arrays`   | the numbers as they are                                       |
| `encoded`   | any        | features of a frozen encoder, computed once, kept on disk     |
"""

from fedsift.data.schema.columns import column_kind
from fedsift.data.schema.preparation import Preparation, SchemaSettings, Workspace
from fedsift.data.schema.registry import PREPARATIONS
from fedsift.data.schema.schema import Schema, prepare

__all__ = [
    "PREPARATIONS",
    "Preparation",
    "Schema",
    "SchemaSettings",
    "Workspace",
    "column_kind",
    "prepare",
]
