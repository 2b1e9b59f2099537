"""``fit``: train with a method on what ``simulate`` made."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Unpack, get_type_hints

from fedsift.errors import ConfigError
from fedsift.experiment.common_keys import (
    NOT_SETTINGS,
    OWN,
    OWN_MODEL,
    RunKeys,
)
from fedsift.experiment.config import Config, all_keys, from_mapping
from fedsift.experiment.progress import shown_progress
from fedsift.experiment.result import Result
from fedsift.experiment.run import execute, train
from fedsift.experiment.saving import keep_all, result_of
from fedsift.experiment.settings import FitSettings
from fedsift.experiment.setup import Setup, from_data
from fedsift.experiment.simulation import Simulation

LOG = logging.getLogger("fedsift")


def fit(
    federation: Simulation,
    method: str = RunKeys.method,
    rounds: int = 60,
    seed: int = 0,
    device: str = "auto",
    observe: Callable[[dict[str, Any]], None] | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool | None = None,
    diagnose: bool = False,
    **settings: Unpack[FitSettings],
) -> Result:
    """Train one model on all sites and audit every site's labels.

    Notes on what the clean set cannot tell are warnings of the logger ``fedsift``.

    Args:
        federation: The sites and the model, from ``fs.simulate``.
        method: How to train. ``"auto"`` chooses by the model: ``out-of-fold`` where only a last
            linear layer on fixed features is trained, else ``posterior``, or ``single-loop`` where
            the clean set has fewer than five samples per class; the result says which.
            ``fedsift run --help`` lists all methods.
        rounds: How many times the sites and the server exchange models.
        seed: The seed of everything random.
        device: ``"cpu"``, ``"cuda"``, ...; ``"auto"`` takes a GPU where there is one.
        observe: Called with the record of every round, a dictionary.
        out: A run folder to write, with checkpoints; ``fedsift audit``, ``review`` and ``report``
            read it.
        resume: Whether to go on with the run that ``out`` holds.
        progress: Whether to show a progress bar; None: where standard error is a terminal.
        diagnose: Whether to measure, after the run, which estimator of the hypergradient fits it.
        **settings: Keys of the method, such as ``local_steps=10``; ``FitSettings`` has them all.

    Returns:
        The trained model, a row per round, and the label issues of every site.

    Raises:
        ConfigError: A setting is unknown, out of range, or not read by the method.
        RunError: The run failed although its input was fine.

    Examples:
        >>> import torch, fedsift as fs
        >>> X = torch.randn(90, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (X[:, 0] > 0).long()
        >>> sites = {"north": (X[:30], y[:30]), "south": (X[30:60], y[30:60])}
        >>> federation = fs.simulate(torch.nn.Linear(4, 2), sites, validation=(X[60:], y[60:]))
        >>> result = fs.fit(federation, rounds=2, seed=0, local_steps=3)
        >>> result.summary["method"], result.summary["rounds"]
        ('out-of-fold', 2)
        >>> len(result.label_issues("north"))
        30
    """
    run = {"method": method, "rounds": rounds, "seed": seed, "device": device, "diagnose": diagnose}
    known = from_mapping(run, "fit").values()
    for name in settings:
        if name not in all_keys() or name in NOT_SETTINGS:
            takes = ", ".join(key for key in known if key not in NOT_SETTINGS)
            raise ConfigError(f"fit has no setting '{name}'; {method} takes {takes}")
    if resume and out is None:
        raise ConfigError("resume needs the folder of the run; give it as out")
    own = {
        "dataset": OWN,
        "clients": len(federation.data.clients),
        "model": federation.model_name or OWN_MODEL,
        "digest": federation.data.digest(),
    }
    config = from_mapping({**run, **own, **settings}, "fit")

    with shown_progress(method, rounds, progress) as (shown, say):

        def build(config: Config) -> Setup:
            setup = from_data(config, federation.data, federation.module(seed), federation.modes)
            setup = setup.of_own_data(federation.schema, federation.notes)
            if setup.choice is not None:
                say(str(setup.choice))
                LOG.info(str(setup.choice))
            for note in setup.notes:
                LOG.warning(note)
            return setup

        def tell(record: dict[str, Any]) -> None:
            shown(record)
            if observe is not None:
                observe(record)

        if out is None:
            finished = train(build(config), tell)
        else:
            finished = execute(config, Path(out), resume=resume, observe=tell, build=build)
    for notice in finished.summary["notices"]:
        LOG.warning(notice)
    if out is not None:
        keep_all(finished, Path(out))
    return result_of(finished)


def _with_keys(signature: inspect.Signature) -> inspect.Signature:
    """Return the signature of ``fit`` with a parameter per setting, for ``help`` and notebooks."""
    *own, rest = signature.parameters.values()
    assert rest.kind is rest.VAR_KEYWORD
    keys, types = all_keys(), get_type_hints(FitSettings)
    named = [
        inspect.Parameter(name, rest.KEYWORD_ONLY, default=keys[name].default, annotation=kind)
        for name, kind in types.items()
    ]
    return signature.replace(parameters=[*own, *named])


vars(fit)["__signature__"] = _with_keys(inspect.signature(fit))
