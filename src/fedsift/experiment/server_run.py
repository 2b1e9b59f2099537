"""A run whose clients are elsewhere: ``execute`` at the server, over a remote federation.

The server has a model, a clean validation set and a test set; of the clients' data it has nothing,
so the summary has no F1 and the run folder no weights. A checkpoint is written after every round:
clients can go back one or two rounds, not ten. At the end every client gets the model, so that it
can audit its own labels; those that allow it reply with how many are suspicious.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fedsift.algorithms import OutOfFold
from fedsift.data import ServerData
from fedsift.data.samples import Arrays, Samples
from fedsift.data.schema import Schema
from fedsift.errors import ConfigError
from fedsift.experiment import checkpoint
from fedsift.experiment.common_keys import OWN, DataKeys
from fedsift.experiment.config import Config
from fedsift.experiment.own_data import chosen_model, load_server
from fedsift.experiment.run import Finished, Observer, execute
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, load_data, server_side
from fedsift.federation import RemoteFederation
from fedsift.keys import keys_of
from fedsift.messages import Scalar
from fedsift.problem.networks import build_model
from fedsift.references import REFERENCE


@dataclass(frozen=True, eq=False)
class OwnServer:
    """A server with data of its own, in place of one of fedsift's datasets.

    ``keys`` are those of the configuration that only the server may set: model, encoder, classes.
    """

    validation: Samples
    test: Samples | None = None
    keys: Mapping[str, Any] = field(default_factory=dict)


def execute_remotely(
    config: Config,
    out: Path,
    federation: RemoteFederation,
    *,
    own: OwnServer | None = None,
    resume: bool = False,
    observe: Observer = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
    opened: Callable[[], None] = lambda: None,
) -> Finished:
    """Run a configuration with remote clients into a folder; ``say`` hears what was chosen.

    ``opened`` is called once the folder is this process's. A run to resume that was lost before it
    wrote anything begins.
    """
    resume = resume and RunFolder(out).config.exists()
    if config.diagnose:
        raise ConfigError(
            "diagnose asks for more products than sites allow; use it in one process, with fs.fit "
            "or fedsift run"
        )
    if own is not None:
        unused = {name: key.default for name, key in keys_of(DataKeys).items() if name != "clients"}
        config = config.replace(**{**unused, **own.keys, "dataset": OWN})
    config = config.resolve().replace(checkpoint_every=1)
    config, data, schema = _data(config, own)
    module = build_model(config.model, data.shape, data.classes, config.seed)
    setup = server_side(config, data, module, federation)
    setup = replace(setup, schema=schema) if own is None else setup.of_own_data(schema)
    if setup.choice is not None:
        say(str(setup.choice))

    def open_run(config: Config) -> Setup:
        opened()
        point = None
        if resume:
            point = checkpoint.load_latest(RunFolder(out).checkpoints, config, setup.device)
        settings: dict[str, Scalar] = {
            "seed": config.seed,
            "l2": config.l2,
            "initial_weight": setup.weighting.initial_weight,
            "bootstrap": setup.weighting.bootstrap,
            "parameters": setup.model.length,
            "frozen": setup.model.frozen(),
            "schema": schema.to_json(),
            "method": config.method,
            "model": "" if REFERENCE.fullmatch(config.model) else config.model,
        }
        next_round = 0 if point is None else point.next_round
        federation.open(config.clients, next_round, settings, say)
        return setup

    finished = execute(setup.config, out, resume=resume, observe=observe, build=open_run)
    for notice in finished.summary["notices"]:
        say(notice)
    return _close(setup, federation, RunFolder(out), finished) if setup.learns_weights else finished


def _data(config: Config, own: OwnServer | None) -> tuple[Config, ServerData, Schema]:
    """Return what the server has: of a dataset, or of its own."""
    if own is not None:
        data, schema = load_server(config, own.validation, own.test)
        return config.replace(model=chosen_model(config, schema)), data, schema
    data = ServerData.of(load_data(config))
    inputs, labels = data.validation
    names = tuple(data.class_names[n] for n in labels.tolist())
    clean = Samples(config.dataset, Arrays(inputs), names, classes=data.class_names)
    return config, data, Schema.fit(clean)


def _close(
    setup: Setup, federation: RemoteFederation, folder: RunFolder, finished: Finished
) -> Finished:
    """Send every client the model; add to the summary what they reply about their labels."""
    scalars: dict[str, Scalar] = {
        "calibration": json.dumps(finished.summary["calibration"]),
        "share_summary": setup.config.share_summary,
    }
    arrays = {"y": finished.state.y.cpu()}
    if isinstance(setup.algorithm, OutOfFold):
        closing = setup.algorithm.closing(finished.state)
        arrays |= {name: value.cpu() for name, value in closing.items()}
    sites = {
        federation.names[reply.client]: {"samples": reply.num_samples, "flagged": flagged}
        for reply in federation.close(setup.config.rounds, arrays, scalars)
        if isinstance(flagged := reply.scalars.get("flagged"), int)
    }
    if not sites:
        return finished
    summary = {**finished.summary, "sites": sites}
    folder.write_summary(summary)
    return replace(finished, summary=summary)
