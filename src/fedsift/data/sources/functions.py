"""``module:function``: samples from a user's own code."""

from __future__ import annotations

import importlib
import re
from typing import Any

from fedsift.data.samples import Samples
from fedsift.data.sources.options import ReadOptions
from fedsift.data.sources.values import as_samples
from fedsift.errors import DataError, FedsiftError

REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def read_function(reference: str, options: ReadOptions) -> Samples:
    """Call ``module:function`` and make samples of what it returns."""
    return as_samples(call(reference), reference, options)


def call(reference: str) -> Any:
    """Import ``module:function`` and call it."""
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module may fail in any way while it is imported
        raise DataError(
            f"{reference} cannot be imported ({type(error).__name__}: {error}); start the command "
            "in its folder"
        ) from error
    if not callable(function):
        raise DataError(f"{reference} is a {type(function).__name__}; name a function")
    try:
        return function()
    except FedsiftError:
        raise
    except Exception as error:
        raise DataError(f"{reference} failed ({type(error).__name__}: {error})") from error
