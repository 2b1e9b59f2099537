"""A run whose clients are elsewhere: ``execute`` at the server, over a remote federation.

The server has a model, a clean validation set and a test set; of the clients' data it has nothing,
so the summary has no F1 and the run folder no weights. A checkpoint is written after every round:
clients can go back one or two rounds, not ten. At the end every client gets the model, so that it
can audit its own labels; those that allow it reply with how many are suspicious.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor, nn

from fedsift.data import ServerData
from fedsift.experiment import checkpoint
from fedsift.experiment.config import Config
from fedsift.experiment.run import Finished, Observer, execute
from fedsift.experiment.run_folder import RunFolder
from fedsift.experiment.setup import Setup, load_data, server_side
from fedsift.federation import RemoteFederation
from fedsift.messages import Scalar
from fedsift.problem.networks import build_model


@dataclass(frozen=True, eq=False)
class OwnServer:
    """A server with data of its own, in place of one of fedsift's datasets.

    ``module`` makes the model from its name in the configuration, the number of classes and the
    seed; ``own_model`` says that the sites cannot make it from that name.
    """

    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    module: Callable[[str, int, int], nn.Module]
    own_model: bool = False


def execute_remotely(
    config: Config,
    out: Path,
    federation: RemoteFederation,
    *,
    own: OwnServer | None = None,
    resume: bool = False,
    observe: Observer = lambda _: None,
) -> Finished:
    """Run a configuration with remote clients into a folder."""
    config = config.resolve().replace(checkpoint_every=1)
    setup = server_side(config, *data_and_model(config, own), federation)

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
            "model": "" if own is not None and own.own_model else config.model,
        }
        federation.open(config.clients, 0 if point is None else point.next_round, settings)
        return setup

    finished = execute(config, out, resume=resume, observe=observe, build=open_run)
    return _close(setup, federation, RunFolder(out), finished) if setup.learns_weights else finished


def data_and_model(config: Config, own: OwnServer | None) -> tuple[ServerData, nn.Module]:
    """Return what the server has: of a dataset, or of its own."""
    if own is None:
        data = ServerData.of(load_data(config))
        return data, build_model(config.model, data.shape, data.classes, config.seed)
    classes = 1 + int(max(own.validation[1].max(), own.test[1].max()))
    names = tuple(str(c) for c in range(classes))
    data = ServerData("own data", own.validation, own.test, names)
    return data, own.module(config.model, classes, config.seed)


def _close(
    setup: Setup, federation: RemoteFederation, folder: RunFolder, finished: Finished
) -> Finished:
    """Send every client the model; add to the summary what they reply about their labels."""
    scalars: dict[str, Scalar] = {
        "calibration": json.dumps(finished.summary["calibration"]),
        "class_names": json.dumps(setup.data.class_names),
        "share_summary": setup.config.share_summary,
    }
    sites = {
        str(reply.client): {"samples": reply.num_samples, "flagged": flagged}
        for reply in federation.close(setup.config.rounds, finished.state.y.cpu(), scalars)
        if isinstance(flagged := reply.scalars.get("flagged"), int)
    }
    if not sites:
        return finished
    summary = {**finished.summary, "sites": sites}
    folder.write_summary(summary)
    return replace(finished, summary=summary)
