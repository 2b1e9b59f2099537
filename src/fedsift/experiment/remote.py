"""A run whose clients are elsewhere: the server's half of ``execute``.

The server has a model, a clean validation set and a test set; of the clients' data it has nothing,
so the summary has no F1 and the run folder no weights. A checkpoint is written after every round:
clients can go back a round or two, not ten. At the end every client gets the model, so that it can
audit its own labels; those that allow it say how many are suspicious.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedsift.data import ClientData, FederatedData
from fedsift.experiment import checkpoint
from fedsift.experiment.config import Config
from fedsift.experiment.run import Observer, execute
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, from_data, load_data
from fedsift.federation import RemoteFederation
from fedsift.files import write_text
from fedsift.messages import Scalar
from fedsift.problem.networks import build_model

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Place:
    """What a server has of its own, where its data are no dataset of ours.

    ``module`` makes the model from its name in the configuration and the number of classes.
    """

    validation: Pair
    test: Pair
    module: Callable[[str, int], nn.Module]
    own_model: bool = False


def execute_remotely(
    config: Config,
    out: Path,
    federation: RemoteFederation,
    *,
    place: Place | None = None,
    resume: bool = False,
    observe: Observer = lambda _: None,
) -> dict[str, Any]:
    """Run a configuration with remote clients into a folder and return the summary."""
    config = replace(config.resolve(), checkpoint_every=1)
    setup = replace(server_side(config, place), federation=federation)

    def open_run(config: Config) -> Setup:
        point = None
        if resume:
            point = checkpoint.load_latest(RunFolder(out).checkpoints, config, setup.device)
        settings: dict[str, Scalar] = {
            "seed": config.seed,
            "l2": config.l2,
            "initial_weight": setup.weighting.initial_weight,
            "bootstrap": setup.weighting.bootstrap,
            "parameters": setup.model.length,
            "classes": setup.data.classes,
            "model": "" if place is not None and place.own_model else config.model,
        }
        federation.open(config.clients, 0 if point is None else point.next_round, settings)
        return setup

    summary = execute(config, out, resume=resume, observe=observe, build=open_run)
    return _close(setup, federation, RunFolder(out), summary) if setup.learns_weights else summary


def _close(
    setup: Setup, federation: RemoteFederation, folder: RunFolder, summary: dict[str, Any]
) -> dict[str, Any]:
    """Send every client the model; add to the summary what they tell of their labels."""
    point = checkpoint.load_latest(folder.checkpoints, setup.config, setup.device)
    assert point is not None
    told: dict[str, Scalar] = {
        "calibration": json.dumps(summary["calibration"]),
        "class_names": json.dumps(setup.data.class_names),
        "share_summary": setup.config.share_summary,
    }
    sites = {
        str(reply.client): {"samples": reply.num_samples, "flagged": flagged}
        for reply in federation.close(setup.config.rounds, point.state.y.cpu(), told)
        if isinstance(flagged := reply.scalars.get("flagged"), int)
    }
    if sites:
        summary = {**summary, "sites": sites}
        written = json.loads(folder.summary.read_text(encoding="utf-8"))
        write_text(folder.summary, json.dumps({**written, "sites": sites}, indent=2) + "\n")
    return summary


def server_side(config: Config, place: Place | None) -> Setup:
    """Build what the server has; in place of each client stands the validation set."""
    if place is None:
        known = load_data(config)
        data = replace(known, clients=_stand_ins(known.validation, config), noise_rate=None)
        module = build_model(config.model, data.shape, data.classes, config.seed)
    else:
        classes = 1 + int(max(place.validation[1].max(), place.test[1].max()))
        names = tuple(str(c) for c in range(classes))
        members = _stand_ins(place.validation, config)
        data = FederatedData("own data", members, place.validation, place.test, names)
        module = place.module(config.model, classes)
    return from_data(config, data, module)


def _stand_ins(samples: Pair, config: Config) -> list[ClientData]:
    inputs, labels = samples
    return [ClientData(inputs, labels, None, torch.arange(len(labels)))] * config.clients
