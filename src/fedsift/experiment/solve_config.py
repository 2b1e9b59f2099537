"""The configuration of ``solve``: a method's keys, plain, with numbers for those that are "auto".

What we add to the paper for noisy labels is off: no head start, no self-pacing, no damping, the
Hessian itself. Nothing is compressed unless ``rate`` is given. Where ``inner_lr`` is "auto" it
becomes 1/L, with L the largest eigenvalue of
∇²_yy G at the start, by Lanczos steps with the clients' products (one exchange each).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import tomli_w
import torch
from torch import Tensor

from fedsift.algorithms import Algorithm, Server, ServerState
from fedsift.algorithms.method import Method
from fedsift.algorithms.optimizers import OPTIMIZERS, Optimizer
from fedsift.algorithms.personal import personal_of
from fedsift.algorithms.registry import METHODS
from fedsift.errors import ConfigError, InputError
from fedsift.federation import Optimised, WithoutDrift
from fedsift.federation.drift import TRAINS
from fedsift.hypergradient import CurvatureSettings, Point
from fedsift.hypergradient.products import exact_product
from fedsift.keys import BuildContext, Keys, Settings, hint, key, keys_of
from fedsift.messages import Cohort, Federation
from fedsift.problem.largest_curvature import STEPS, lanczos
from fedsift.randomness import generator

PLAIN: Mapping[str, Any] = {
    "curvature": "hessian",
    "curvature_batch": 0,
    "damping": 0.0,
    "head_start": 0,
    "rate": 1.0,
    "scored": 0,
    "value_bits": 32,
    "outer_rule": "gradient",
    "outer_decay": 0,
    "self_paced": 0.0,
    "train_share": 1.0,
    "weight_mean": 0.0,
    "bootstrap": 0.0,
}
"""Defaults of ``solve`` that are not those of ``fit``."""


@dataclass(frozen=True)
class SolveKeys(Keys):
    """What every solve is asked for, whatever its method."""

    table: ClassVar[str] = "solve"
    rounds: int = key(100, "rounds at most", low=1)
    seed: int = key(0, "seed of everything random", low=0)
    cohort: int = key(0, "clients that are drawn per round; 0: all", low=0)
    min_clients: int = key(1, "stop with an error if fewer reply", low=1)
    tolerance: float = key(0.0, "stop when the hypergradient is no larger", low=0)
    patience: int = key(5, "in this many rounds in a row", low=1)
    update_rate: float = key(1.0, "compresses what clients send back; 1: not at all", low=1)
    model_rate: float = key(1.0, "compresses y, v and x down; 1: not at all", low=1)
    correct_drift: bool = key(False, "local steps with control variates (SCAFFOLD)")
    inner_optimizer: str = key(
        "sgd", "what the server makes of the mean update of y", choices=lambda: tuple(OPTIMIZERS)
    )
    inner_optimizer_step: float = key(0.0, "its step; 0: 1, of adam 0.01", low=0)
    outer_optimizer: str = key(
        "sgd", "what the server makes of the step of x", choices=lambda: tuple(OPTIMIZERS)
    )
    outer_optimizer_step: float = key(0.0, "its step; 0: 1, of adam 0.01", low=0)

    @property
    def inner(self) -> Optimizer:
        """The optimiser of y."""
        return Optimizer(self.inner_optimizer, self.inner_optimizer_step)

    @property
    def outer(self) -> Optimizer:
        """The optimiser of x."""
        return Optimizer(self.outer_optimizer, self.outer_optimizer_step)

    def check(
        self, method: str | Algorithm, *, x_is_private: bool, y_is_private: bool = False
    ) -> None:
        """Refuse what the method or the problem leaves no room for."""
        if x_is_private and not self.outer.is_plain:
            raise ConfigError(
                "outer_optimizer steps an x that the server holds and this one is private to the "
                "clients; leave it out"
            )
        used = {
            "inner_optimizer": not self.inner.is_plain,
            "correct_drift": self.correct_drift,
        }
        if isinstance(method, str):
            trains = bool(general_method(method).sequence.actions & set(TRAINS))
        else:
            trains = True
        for name in (name for name, is_used in used.items() if is_used):
            if y_is_private:
                raise ConfigError(
                    f"{name} is about the clients' mean update of y, and here y is their own; "
                    "leave it out"
                )
            if not trains:
                raise ConfigError(
                    f"{method} has local steps of its own kind and no {name}; use single-loop, or "
                    "leave it out"
                )

    def around(self, algorithm: Algorithm) -> Algorithm:
        """Return the method with the layers that were asked for."""
        if not (self.inner.is_plain and self.outer.is_plain):
            algorithm = Optimised(algorithm, self.inner, self.outer)
        return WithoutDrift(algorithm) if self.correct_drift else algorithm


@dataclass(frozen=True)
class SolveConfig:
    """What a solve was asked for; an algorithm that is given as an object has no settings."""

    method: str
    settings: Settings
    common: Mapping[str, Any]
    found: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, method: str | Algorithm, given: Mapping[str, Any], common: Mapping[str, Any]
    ) -> SolveConfig:
        """Check the method and its settings."""
        if not isinstance(method, str):
            if given:
                raise ConfigError(
                    f"solve got an algorithm and the setting '{next(iter(given))}'; put it into "
                    "the algorithm"
                )
            return cls(type(method).__name__, Settings(), {**common, "algorithm": repr(method)})
        row = general_method(method)
        known = keys_of(*row.groups)
        for name in given:
            if name not in known:
                raise ConfigError(f"{method} has no setting '{name}'{hint(name, known)}")
        plain = {name: value for name, value in PLAIN.items() if name in known}
        settings = Settings.of(row.groups, {**plain, **given})
        return cls(method, settings, dict(common), settings.automatic())

    def with_steps(self, inner: float) -> SolveConfig:
        """Return the configuration with a number for every key that was "auto"."""
        steps = {"inner_lr": inner, "solver_lr": inner, "damping": 0.0}
        return replace(
            self, settings=self.settings.replace({name: steps[name] for name in self.found})
        )

    def build(self, context: BuildContext, *, personal: bool = False) -> Algorithm:
        """Build the method that was named; ``personal``: for a y of every client's own."""
        if personal:
            return personal_of(self.method, self.settings)
        return METHODS[self.method].build(self.settings, replace(context, found=self.found))

    def values(self) -> dict[str, Any]:
        """Return everything by name."""
        return {"method": self.method, **self.common, **self.settings.values()}

    def to_toml(self) -> str:
        """Return the configuration as TOML."""
        shown = {name: value for name, value in self.values().items() if value is not None}
        found = {"found": list(self.found)} if self.found else {}
        return tomli_w.dumps({**shown, **found})


def general_method(name: str) -> Method:
    """Return the row of a method that solves any bilevel problem."""
    able = [method for method, row in METHODS.items() if row.general]
    if name not in able:
        raise ConfigError(
            f"solve has no method '{name}'; use one of {', '.join(able)}{hint(name, able)}"
        )
    return METHODS[name]


def largest_eigenvalue(federation: Federation, server: Server, state: ServerState) -> float:
    """Return that of ∇²_yy G at the start, by products of all clients."""
    cohort = Cohort(federation, tuple(federation.sizes), server.min_clients)
    point = Point(state.y, torch.zeros_like(state.y), 0, state.x)
    matrix = CurvatureSettings()

    def product(v: Tensor) -> Tensor:
        return exact_product(cohort, point, v, matrix)

    source = generator(server.seed, "largest eigenvalue")
    start = torch.randn(len(state.y), generator=source, dtype=torch.float64).to(state.y)
    found = lanczos(product, start, STEPS)
    if not 0 < found < float("inf"):
        raise InputError(
            f"the largest eigenvalue of the inner Hessian at the start is {found:.3g}, from which "
            "no step follows; give inner_lr"
        )
    return found


def digest(*vectors: Tensor | None) -> str:
    """Return a hash of where a solve starts."""
    total = hashlib.sha256()
    for vector in vectors:
        if vector is not None:
            total.update(vector.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return total.hexdigest()[:16]
