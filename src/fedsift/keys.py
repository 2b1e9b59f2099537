"""Configuration keys: how they are declared, checked and passed to the code that reads them.

A *group* is a small frozen dataclass of keys that one piece of code reads, in one table of TOML:

    @dataclass(frozen=True)
    class LocalKeys(Keys):
        table: ClassVar[str] = "inner"
        local_steps: int = key(5, "local steps T", low=1)

A method, an estimator or a compressor names the groups that it reads, and its builder gets a
``Settings`` with one instance of each: ``settings[LocalKeys].local_steps``. A key that no named
group has does not reach the builder, so it cannot be given without effect.

Names of keys are unique: a key is declared in one group only, whoever reads or inherits it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

from fedsift.errors import ConfigError

Choices = tuple[str, ...] | Callable[[], tuple[str, ...]]
Auto = float | Literal["auto"]  # a number, or the word: it is then found by the run
AUTO: Literal["auto"] = "auto"


def key(
    default: Any,
    text: str,
    *,
    choices: Choices | None = None,
    low: float | None = None,
    high: float | None = None,
    open_low: bool = False,
) -> Any:
    """Declare a key of a group: a field with its default, its meaning and what it may be.

    ``choices`` may be a function, for a table that is complete only later. ``low`` and ``high``
    are limits, which the value may reach; with ``open_low`` it must be above ``low``.
    """
    rule = {"text": text, "choices": choices, "low": low, "high": high, "open_low": open_low}
    return field(default=default, metadata={"key": rule})


@dataclass(frozen=True)
class Key:
    """A declared key; ``kind`` is its type as it is written in the group."""

    name: str
    table: str
    kind: str
    default: Any
    text: str
    choices: Choices | None
    low: float | None
    high: float | None
    open_low: bool

    def allowed(self) -> tuple[str, ...] | None:
        """Return the values that are allowed; None where they are not listed."""
        return self.choices() if callable(self.choices) else self.choices

    def accept(self, value: Any) -> Any:
        """Return the value in the key's type, or refuse it with a sentence."""
        value = _typed(self.name, value, self.kind)
        if (allowed := self.allowed()) is not None and value not in allowed:
            raise ConfigError(
                f"{self.name} is {value!r}; it must be one of {', '.join(allowed)}"
                + hint(str(value), allowed)
            )
        if self.kind == _AUTO and value == AUTO:
            return value
        also = f", or '{AUTO}'" if self.kind == _AUTO else ""
        if self.low is not None and not (value > self.low if self.open_low else value >= self.low):
            bound = "above" if self.open_low else "at least"
            raise ConfigError(f"{self.name} is {value}; it must be {bound} {self.low}{also}")
        if self.high is not None and value > self.high:
            raise ConfigError(f"{self.name} is {value}; it must be at most {self.high}{also}")
        return value


class Keys:
    """Base of every group: values are checked when an instance is made."""

    table: ClassVar[str]

    def __post_init__(self) -> None:
        for name, declared in keys_of(type(self)).items():
            object.__setattr__(self, name, declared.accept(getattr(self, name)))


Group = TypeVar("Group", bound=Keys)


def keys_of(*groups: type[Keys]) -> dict[str, Key]:
    """Return the keys of groups by name, in order."""
    of_each = (_keys_of_one(group) for group in groups)  # type: ignore[arg-type]
    return {name: own for found in of_each for name, own in found.items()}


@cache
def _keys_of_one(group: type[Keys]) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for spec in fields(group):  # type: ignore[arg-type]
        if "key" in spec.metadata:
            table = _home(group, spec.name).table
            rule = spec.metadata["key"]
            found[spec.name] = Key(spec.name, table, _kind(spec.type), spec.default, **rule)
    return found


@dataclass(frozen=True)
class Settings:
    """The values of some groups: ``settings[LocalKeys]`` is the instance of that group."""

    groups: tuple[Keys, ...] = ()

    @classmethod
    def of(cls, groups: Iterable[type[Keys]], values: Mapping[str, Any] | None = None) -> Settings:
        """Make an instance of every group, with given values and defaults for the rest."""
        groups, given = tuple(groups), dict(values or {})
        known = keys_of(*groups)
        for name in given:
            if name not in known:
                raise ConfigError(f"unknown key '{name}'{hint(name, known)}")
        return cls(tuple(g(**{n: given[n] for n in keys_of(g) if n in given}) for g in groups))

    def __getitem__(self, group: type[Group]) -> Group:
        for instance in self.groups:
            if type(instance) is group:
                return instance
        raise KeyError(f"these settings have no {group.__name__}: declare it among the groups")

    def values(self) -> dict[str, Any]:
        """Return all values by the name of their key."""
        return {n: getattr(g, n) for g in self.groups for n in keys_of(type(g))}

    def automatic(self) -> tuple[str, ...]:
        """Return the keys that are "auto" where a number may stand."""
        known = keys_of(*map(type, self.groups))
        return tuple(n for n, v in self.values().items() if known[n].kind == _AUTO and v == AUTO)

    def replace(self, values: Mapping[str, Any]) -> Settings:
        """Return the settings with other values."""
        return Settings.of(map(type, self.groups), {**self.values(), **values})


@dataclass(frozen=True)
class BuildContext:
    """What a builder needs besides its keys.

    ``length`` is d, the number of the model's parameters; ``cohort`` is how many clients are drawn
    per round, 0 for all; ``found`` are the keys whose number the run has found, not the user.
    """

    length: int
    seed: int = 0
    cohort: int = 0
    found: tuple[str, ...] = ()


def number(value: Auto) -> float:
    """Return a key's number; "auto" must have been replaced by one before a method is built."""
    if value == AUTO:
        raise ConfigError("a method is built from numbers; let Method.algorithm find them")
    return value


def hint(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?`` where a known name is close, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


_PAIR = "float | tuple[float, float]"
_TEXTS = "tuple[str, ...]"
_AUTO = "Auto"
_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "true or false"),
    _PAIR: ((int, float), "a number or a pair [low, high]"),
    _TEXTS: (tuple, "a list of texts"),
    _AUTO: ((int, float), f"a number or '{AUTO}'"),
}


def _kind(annotation: Any) -> str:
    """Return a type as it is written, where annotations are not kept as text too."""
    if isinstance(annotation, str):
        return annotation
    return _AUTO if annotation == Auto else str(annotation.__name__)


def _typed(name: str, value: Any, kind: str) -> Any:
    """Return the value in its key's type; a whole number is accepted for a float."""
    if kind == _PAIR and isinstance(value, list | tuple) and len(value) == 2:
        return tuple(_typed(name, part, "float") for part in value)
    if kind == _TEXTS and isinstance(value, list | tuple):
        return tuple(_typed(name, part, "str") for part in value)
    if kind == _AUTO and value == AUTO:
        return AUTO
    types, said = _KINDS[kind]
    fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise ConfigError(f"{name} is {value!r}; it must be {said}")
    return float(value) if "float" in kind or kind == _AUTO else value


def _home(group: type[Keys], name: str) -> type[Keys]:
    """Return the class that declares a key: a group, or one that it is composed of."""
    classes = reversed(group.__mro__)
    return next(c for c in classes if name in c.__dict__.get("__dataclass_fields__", {}))
