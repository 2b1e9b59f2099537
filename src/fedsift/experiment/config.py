"""A run's configuration: every key with its default, its meaning and what it may be.

Keys are unique, so ``--set rate=50`` needs no table; in ``config.toml`` they stand in tables for
the reader. ``Config.resolve`` replaces what depends on the dataset by its value, and the resolved
configuration is what a run folder keeps.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.data import DATASETS, lookup
from fedsift.errors import ConfigError
from fedsift.experiment.methods import METHODS
from fedsift.hypergradient import SYSTEMS
from fedsift.problem.networks import MODELS

AUTO = "auto"


def _key(
    default: Any,
    table: str,
    text: str,
    *,
    choices: tuple[str, ...] | None = None,
    low: float | None = None,
    high: float | None = None,
    open_low: bool = False,
) -> Any:
    rule = {"table": table, "text": text, "choices": choices}
    return field(default=default, metadata={**rule, "low": low, "high": high, "open": open_low})


@dataclass(frozen=True)
class Config:
    """All keys of a run. A value of 0 or ``auto`` means: as the text says."""

    method: str = _key("single-loop", "run", "how to train", choices=tuple(METHODS))
    rounds: int = _key(60, "run", "rounds K", low=1)
    seed: int = _key(0, "run", "seed of everything random", low=0)
    device: str = _key(AUTO, "run", "cpu, cuda, cuda:0 ...; auto: cuda where there is one")
    eval_every: int = _key(1, "run", "rounds between evaluations on the test set", low=1)
    checkpoint_every: int = _key(10, "run", "rounds between checkpoints", low=1)

    dataset: str = _key("digits", "data", "which data", choices=tuple(DATASETS))
    split: str = _key(
        "iid", "data", "iid: one noise rate; non-iid: one per client", choices=("iid", "non-iid")
    )
    partition: str = _key(
        AUTO,
        "data",
        "who gets which samples; auto: the dataset's own",
        choices=(AUTO, "iid", "dirichlet", "shards", "writer"),
    )
    clients: int = _key(0, "data", "number of clients M; 0: the dataset's own", low=0)
    samples_per_client: int = _key(0, "data", "samples a client; 0: the dataset's own", low=0)
    validation_size: int = _key(0, "data", "clean samples at the server; 0: the same", low=0)
    test_size: int = _key(0, "data", "test samples; 0: the same", low=0)
    noise: str = _key(
        "symmetric", "data", "how labels are made wrong", choices=("symmetric", "pair", "none")
    )
    rho: float | tuple[float, float] = _key(
        -1.0, "data", "noise rate, or [low, high] per client; -1: the paper's for the split"
    )
    alpha: float = _key(0.5, "data", "Dirichlet concentration", low=0, open_low=True)
    shards_per_client: int = _key(2, "data", "shards a client", low=1)
    labels: str = _key("", "data", "file or folder of corrected labels, from a review; empty: none")

    model: str = _key(AUTO, "model", "network; auto: the dataset's own", choices=(AUTO, *MODELS))
    l2: float = _key(1e-3, "model", "coefficient of ½‖y‖² in the inner loss", low=0)

    cohort: int = _key(0, "federation", "clients drawn per round S; 0: all", low=0)
    min_clients: int = _key(1, "federation", "stop below this many answers", low=1)
    share_summary: bool = _key(
        False, "federation", "sites tell the server how many of their labels are suspicious"
    )

    local_steps: int = _key(5, "inner", "local steps T", low=1)
    inner_lr: float = _key(0.1, "inner", "inner step γ", low=0, open_low=True)
    batch_size: int = _key(64, "inner", "samples a local step; 0: all", low=0)
    head_start: int = _key(
        500,
        "inner",
        "most steps of the bilevel methods on half the validation set before round 0; 0: none",
        low=0,
    )

    outer_lr: float = _key(0.1, "outer", "outer step η", low=0, open_low=True)
    outer_rule: str = _key(
        "scale-free", "outer", "step along ∇h or ∇h/rms(∇h)", choices=("scale-free", "gradient")
    )
    outer_decay: int = _key(
        10,
        "outer",
        "rounds after which the outer step may fall like 1/k; 0: never, nor self_paced",
        low=0,
    )
    self_paced: float = _key(
        1.0, "outer", "c: as η falls the model's own opinion takes over, once trusted; 0: no", low=0
    )
    bootstrap: float = _key(
        1.0,
        "outer",
        "κ: what a label loses in weight goes to the class the model takes instead; 0: nowhere",
        low=0,
        high=1,
    )
    initial_weight: float = _key(1.0, "outer", "weight to start from", low=0, high=1)
    focus_alpha: float = _key(1.0, "outer", "focus: how fast credibility falls with E", low=0)
    preprocess_steps: int = _key(
        500, "outer", "preprocess: SGD steps of the benchmark model", low=1
    )
    preprocess_threshold: float = _key(
        0.0, "outer", "preprocess: keep losses up to this; 0: by the distance of KS", low=0
    )

    rate: float = _key(20.0, "solver", "compression: d / numbers sent", low=1)
    compressor: str = _key(
        "auto",
        "solver",
        "of single-loop's products; auto: topk if all clients take part, else count-sketch",
        choices=("auto", "topk", "count-sketch"),
    )
    iterations: int = _key(1, "solver", "solver iterations I a round", low=1)
    solver_lr: float = _key(0.1, "solver", "solver step α", low=0, open_low=True)
    schedule: str = _key(
        "constant", "solver", "α or 8/(μ(i + a)), averaged", choices=("constant", "theorem")
    )
    mu: float = _key(1e-3, "solver", "μ of the theorem's schedule", low=0, open_low=True)
    shift: float = _key(1e4, "solver", "a of the theorem's schedule", low=1)
    warm_start: bool = _key(True, "solver", "keep v and its error between rounds")
    resample: bool = _key(False, "solver", "draw new clients at every solver iteration")
    curvature: str = _key(
        "gauss-newton", "solver", "matrix of the system", choices=("gauss-newton", "hessian")
    )
    damping: float = _key(0.5, "solver", "added to its diagonal", low=0)
    curvature_batch: int = _key(
        128, "solver", "samples a client draws for it each round; 0: all", low=0
    )
    sketch_rows: int = _key(5, "solver", "rows of the count-sketch", low=1, high=99)
    heavy: int = _key(0, "solver", "heavy hitters recovered; 0: columns // 16", low=0)
    r1: int = _key(0, "solver", "columns of the sketched system; 0: from the rate", low=0)
    r2: int = _key(0, "solver", "its rows; 0: 2 r1", low=0)
    system: str = _key(
        "least-squares", "solver", "of non-iter; galerkin: ours, r1 only", choices=SYSTEMS
    )
    fresh_seeds: bool = _key(True, "solver", "new sketches of the system every round")
    check_residual: bool = _key(False, "solver", "measure the residual: one dense exchange more")

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = _typed(spec.name, getattr(self, spec.name), str(spec.type))
            _check(spec.name, value, spec.metadata)
            object.__setattr__(self, spec.name, value)
        low, high = self.rho if isinstance(self.rho, tuple) else (self.rho, self.rho)
        if self.rho != -1.0 and not 0 <= low <= high <= 1:
            shown = list(self.rho) if isinstance(self.rho, tuple) else self.rho
            raise ConfigError(f"rho is {shown}; give a rate in [0, 1] or [low, high] within it")

    def resolve(self) -> Config:
        """Return the configuration with everything that depends on the dataset written out."""
        row = lookup(self.dataset)
        rho = self.rho
        if rho == -1.0:
            rho = 0.4 if self.split == "iid" else (0.2, 0.9)
        return replace(
            self,
            partition=row.partition if self.partition == AUTO else self.partition,
            clients=self.clients or row.clients,
            samples_per_client=self.samples_per_client or row.samples_per_client or 0,
            validation_size=self.validation_size or row.validation_size or 0,
            test_size=self.test_size or row.test_size or 0,
            rho=rho,
            model=row.model if self.model == AUTO else self.model,
        )

    def tables(self) -> dict[str, dict[str, Any]]:
        """Return the keys in their tables."""
        out: dict[str, dict[str, Any]] = {}
        for spec in fields(self):
            value = getattr(self, spec.name)
            out.setdefault(spec.metadata["table"], {})[spec.name] = (
                list(value) if isinstance(value, tuple) else value
            )
        return out

    def to_toml(self) -> str:
        """Return the configuration as TOML."""
        return tomli_w.dumps(self.tables())


KEYS = {spec.name: spec for spec in fields(Config)}
TABLES = tuple(dict.fromkeys(spec.metadata["table"] for spec in KEYS.values()))


def from_mapping(values: Mapping[str, Any], where: str) -> Config:
    """Make a configuration from keys, in tables or not; errors start with ``where``."""
    try:
        return Config(**flatten(values))
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys without their tables."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and name not in TABLES:
            raise ConfigError(f"unknown table [{name}]{_hint(name, TABLES)}")
        keys = value if isinstance(value, Mapping) else {name: value}
        for key in keys:
            if key not in KEYS:
                raise ConfigError(f"unknown key '{key}'{_hint(key, KEYS)}")
            table = KEYS[key].metadata["table"]
            if keys is value and table != name:
                raise ConfigError(f"key '{key}' is in table [{name}]; move it to [{table}]")
            if key in flat:
                raise ConfigError(f"key '{key}' is given twice, in a table and without; drop one")
        flat |= keys
    return flat


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no file {path}; give the path of a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}") from None


def parse_setting(text: str) -> tuple[str, Any]:
    """Read ``key=value`` as it would stand in TOML; a bare word is a string."""
    name, sign, raw = text.partition("=")
    name, raw = name.strip().rpartition(".")[2], raw.strip()
    if not sign or not name:
        raise ConfigError(f"--set {text!r} is not of the form key=value")
    try:
        return name, tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        return name, raw


_PAIR = "float | tuple[float, float]"
_KINDS: dict[str, tuple[Any, str]] = {
    "str": (str, "text"),
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "true or false"),
    _PAIR: ((int, float), "a number or a pair [low, high]"),
}


def _typed(name: str, value: Any, kind: str) -> Any:
    """Return the value in its key's type; a whole number may stand for a float."""
    if kind == _PAIR and isinstance(value, list | tuple) and len(value) == 2:
        return tuple(_typed(name, part, "float") for part in value)
    types, said = _KINDS[kind]
    fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise ConfigError(f"{name} is {value!r}; it must be {said}")
    return float(value) if "float" in kind else value


def _check(name: str, value: Any, rule: Mapping[str, Any]) -> None:
    if rule["choices"] is not None and value not in rule["choices"]:
        raise ConfigError(
            f"{name} is {value!r}; it must be one of {', '.join(rule['choices'])}"
            + _hint(str(value), rule["choices"])
        )
    low, high = rule["low"], rule["high"]
    if low is not None and not (value > low if rule["open"] else value >= low):
        raise ConfigError(
            f"{name} is {value}; it must be {'above' if rule['open'] else 'at least'} {low}"
        )
    if high is not None and value > high:
        raise ConfigError(f"{name} is {value}; it must be at most {high}")


def _hint(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""
