"""Frozen dataclasses from JSON that may come from anyone.

A class's annotations say what is allowed: bool, int, finite float, str, tuples of these and of such
classes. Ranges are the class's own business (``__post_init__``).
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from fedsift.errors import InputError

T = TypeVar("T")
MOST_CHARACTERS = 50_000_000
ADVICE = "take the schema that the server wrote"


def parse(text: str) -> dict[str, Any]:
    """Read a JSON object; NaN, endless nesting and endless numbers are refused."""
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"the schema has {len(text)} characters, more than {MOST_CHARACTERS}; {ADVICE}"
        )
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"the schema is not JSON ({error}); {ADVICE}") from None
    return _object(value, "the schema")


def decode(kind: type[T], value: Any, where: str) -> T:
    """Make a dataclass of a JSON object: all of its keys, no others, each of the right type."""
    entries = _object(value, where)
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(cast("Any", kind)) if f.init}
    for name in entries:
        if name not in known:
            raise InputError(f"{where} has an unknown key {name[:40]!r}; {ADVICE}")
    for name, field in known.items():
        if name not in entries and field.default is MISSING:
            raise InputError(f"{where} has no key {name!r}; {ADVICE}")
    return kind(**{k: _value(hints[k], v, f"{where}.{k}") for k, v in entries.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    if get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise _wrong(where, "a list", value)
        inner = get_args(hint)[0]
        return tuple(_value(inner, v, f"{where}[{i}]") for i, v in enumerate(value))
    if is_dataclass(hint):
        return decode(cast("type[Any]", hint), value, where)
    return _scalar(hint, value, where)


def _scalar(hint: Any, value: Any, where: str) -> Any:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float and number and abs(value) <= 1e300 and math.isfinite(value):
        return float(value)
    if hint is int and number and isinstance(value, int) and abs(value) < 2**63:
        return value
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and isinstance(value, str) and _printable(value):
        return value
    names = {float: "a finite number", int: "a whole number", bool: "true or false", str: "text"}
    raise _wrong(where, names[hint], value)


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(where, "an object", value)
    return value


def _wrong(where: str, expected: str, value: Any) -> InputError:
    return InputError(f"{where} must be {expected} and is {ascii(value)[:60]}; {ADVICE}")


def _printable(text: str) -> bool:
    """Tell whether it can be written anywhere: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
