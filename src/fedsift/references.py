"""``module:function``: how a user names code of their own on a command line or in a file."""

from __future__ import annotations

import importlib
import re
from typing import Any

from fedsift.errors import FedsiftError, InputError

REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def find(reference: str) -> Any:
    """Import ``module:function`` and return the function."""
    module, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module may fail in any way while it is imported
        raise InputError(
            f"{reference} cannot be imported ({type(error).__name__}: {error}); start the command "
            "in its folder"
        ) from error
    if not callable(function):
        raise InputError(f"{reference} is a {type(function).__name__}; name a function")
    return function


def call(reference: str, *arguments: Any) -> Any:
    """Import ``module:function`` and call it."""
    function = find(reference)
    try:
        return function(*arguments)
    except FedsiftError:
        raise
    except Exception as error:
        raise InputError(f"{reference} failed ({type(error).__name__}: {error})") from error
