"""A run's configuration: the keys that all methods share, and those of its method.

Keys are unique, so ``--set rate=50`` needs no table; in ``config.toml`` they are in tables for
the reader. A key that the method does not read is refused. ``Config.resolve`` replaces what depends
on the dataset by its value, and the resolved configuration is what a run folder keeps.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.algorithms.registry import METHODS
from fedsift.data import SPLITS, lookup
from fedsift.errors import ConfigError
from fedsift.experiment.common_keys import (
    COMMON,
    OWN,
    DataKeys,
    FederationKeys,
    FileKeys,
    ModelKeys,
    RunKeys,
    TrafficKeys,
)
from fedsift.federation.private import PrivacyKeys
from fedsift.federation.robust import RobustKeys
from fedsift.files import read_toml
from fedsift.keys import AUTO, Key, Settings, hint, keys_of


@dataclass(frozen=True, kw_only=True)
class Config(
    PrivacyKeys,
    TrafficKeys,
    RobustKeys,
    FederationKeys,
    ModelKeys,
    FileKeys,
    DataKeys,
    RunKeys,
):
    """The keys of a run: common ones as attributes, those of its method in ``settings``.

    ``Config.of(method="iter-topk", rate=50)`` makes one; a value of 0 or ``auto`` means what the
    key's text says.
    """

    settings: Settings

    def __post_init__(self) -> None:
        super().__post_init__()
        if tuple(map(type, self.settings.groups)) != METHODS[self.method].groups:
            raise ConfigError(
                f"these settings are not those of {self.method}; change the method with "
                "Config.replace"
            )

    @classmethod
    def of(cls, **values: Any) -> Config:
        """Make a configuration from keys; what is not given has its default."""
        common = keys_of(*COMMON)
        method = common["method"].accept(values.get("method", common["method"].default))
        known = method_keys(method)
        for name in values:
            if name not in known:
                raise unread(name, method)
        own = {name: value for name, value in values.items() if name not in common}
        shared = {name: value for name, value in values.items() if name in common}
        return cls(**shared, settings=Settings.of(METHODS[method].groups, own))

    def replace(self, **values: Any) -> Config:
        """Return the configuration with other values.

        Another method gets all values that are not the default, so it must read these keys.
        """
        known = method_keys(self.method)
        changed = {n: v for n, v in self.values().items() if v != known[n].default}
        return Config.of(**{**changed, **values})

    def value(self, name: str) -> Any:
        """Return the value of any key by its name; None where the method does not read it."""
        return self.values().get(name)

    def values(self) -> dict[str, Any]:
        """Return all values by the name of their key."""
        common = {name: getattr(self, name) for name in keys_of(*COMMON)}
        return {**common, **self.settings.values()}

    def resolve(self) -> Config:
        """Return the configuration with everything that depends on the dataset written out."""
        if self.sites or self.dataset == OWN:
            return self._resolve_own()
        row = lookup(self.dataset)
        return dataclasses.replace(
            self,
            partition=row.partition if self.partition == AUTO else self.partition,
            clients=self.clients or row.clients,
            samples_per_client=self.samples_per_client or row.samples_per_client or 0,
            validation_size=self.validation_size or row.validation_size or 0,
            test_size=self.test_size or row.test_size or 0,
            rho=_papers_rho(self.split) if self.rho == -1.0 else self.rho,
            model=row.model if self.model == AUTO else self.model,
        )

    def _resolve_own(self) -> Config:
        """Check a configuration on one's own samples: noise and partition are those of the data."""
        for name, key in keys_of(DataKeys).items():
            given = self.value(name) != key.default
            if given and name not in {"dataset", "clients", "labels"}:
                raise ConfigError(f"{name} is for built-in datasets; leave it out with own data")
        return dataclasses.replace(self, dataset=OWN, clients=len(self.sites) or self.clients)

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the keys in their tables."""
        out: dict[str, dict[str, Any]] = {}
        known = method_keys(self.method)
        for name, value in self.values().items():
            plain = list(value) if isinstance(value, tuple) else value
            out.setdefault(known[name].table, {})[name] = plain
        return out

    def to_toml(self) -> str:
        """Return the configuration as TOML."""
        return tomli_w.dumps(self.tables())


def method_keys(method: str) -> dict[str, Key]:
    """Return the common keys and those of a method."""
    return keys_of(*COMMON, *METHODS[method].groups)


def all_keys() -> dict[str, Key]:
    """Return the keys of all methods."""
    return {name: key for method in METHODS for name, key in method_keys(method).items()}


def read_by(method: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of some keys that a method reads, for a comparison of methods."""
    known = method_keys(method)
    return {name: value for name, value in values.items() if name in known}


def unread(name: str, *methods: str) -> ConfigError:
    """Return the error for a key that none of the methods reads, or that does not exist."""
    if name not in (known := all_keys()):
        return ConfigError(f"unknown key '{name}'{hint(name, known)}")
    able = ", ".join(other for other, row in METHODS.items() if row.reads(name))
    who, verb = (methods[0], "does") if len(methods) == 1 else (" and ".join(methods), "do")
    advice = "" if METHODS[methods[0]].choose is None else "choose one of them as the method; "
    return ConfigError(
        f"{who} {verb} not read the key '{name}'; methods that read it: {able}; {advice}"
        f"`fedsift run --keys {methods[0]}` prints the keys of {methods[0]}"
    )


def from_mapping(values: Mapping[str, Any], where: str) -> Config:
    """Make a configuration from keys, in tables or not; errors start with ``where``."""
    with _blame(where):
        return Config.of(**flatten(values))


def from_file(path: Path, changes: Mapping[str, Any], where: str) -> Config:
    """Make a configuration from a TOML file and changes to it, which may name another method.

    Errors start with the file's name or with ``where``, whichever has the error.
    """
    read = read_toml(path)
    with _blame(str(path)):
        given = flatten(read)
        if changes.get("method") in METHODS:  # a file without a method is for any that reads it
            given = {"method": changes["method"], **given}
        config = Config.of(**given)
    return change(config, changes, where)


def change(config: Config, changes: Mapping[str, Any], where: str) -> Config:
    """Return the configuration with other values; errors start with ``where``."""
    with _blame(where):
        return config.replace(**changes)


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys without their tables."""
    known = all_keys()
    tables = tuple(dict.fromkeys(key.table for key in known.values()))
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in tables:
            raise ConfigError(f"unknown table [{name}]{hint(name, tables)}")
        keys = value if isinstance(value, Mapping) else {name: value}
        for key in keys:
            if key not in known:
                raise ConfigError(f"unknown key '{key}'{hint(key, known)}")
            table = known[key].table
            if keys is value and table != name:
                raise ConfigError(f"key '{key}' is in table [{name}]; move it to [{table}]")
            if key in flat:
                raise ConfigError(
                    f"key '{key}' is given twice, inside and outside a table; remove one"
                )
        flat |= keys
    return flat


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value`` as it would be written in TOML; a bare word is a string."""
    name, sign, raw = text.partition("=")
    name, raw = name.strip().rpartition(".")[2], raw.strip()
    if not sign or not name:
        raise ConfigError(f"--set {text!r} is not of the form key=value")
    try:
        return name, tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return name, raw


def _papers_rho(split: str) -> float | tuple[float, float]:
    rate = SPLITS[split]
    return rate if isinstance(rate, float) else (rate[0], rate[1])


@contextmanager
def _blame(where: str) -> Iterator[None]:
    """Put the place of an error before its sentence."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
