"""One run at a site: the server's settings, the model, the client and its journal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from fedsift.client import Client, ClientState, initial_state
from fedsift.client.guard import Guard
from fedsift.client.policy import Policy
from fedsift.data import check_client
from fedsift.data.samples import Samples
from fedsift.data.schema import Schema, Workspace, prepare
from fedsift.errors import InputError, Refused
from fedsift.federation.encoding import Kept
from fedsift.federation.placing import CPU
from fedsift.problem import FlatModel, Reweighting, batch_of, bind
from fedsift.problem.inputs import Inputs
from fedsift.problem.networks import MODELS, build_model
from fedsift.problem.own_problem import OwnProblem
from fedsift.randomness import derive
from fedsift.site.journal import Journal
from fedsift.site.result import Origin

SETTINGS = {
    "seed": int,
    "l2": float,
    "initial_weight": float,
    "bootstrap": float,
    "parameters": int,
    "frozen": str,
    "schema": str,
    "model": str,
    "method": str,
    "problem": str,
    "attempt": str,
}


@dataclass(frozen=True, eq=False)
class SiteData:
    """What a site has: its number in the federation, samples, a folder of its own.

    ``origin`` says where samples and model came from; ``share`` allows the server to know how many
    labels are suspicious; ``policy`` is what it may ask at all; ``device`` is where it computes.
    ``own`` is a problem of its owner, which it then serves instead of labelled samples.
    """

    client: int
    samples: Samples | None
    folder: Path
    origin: Origin = field(default_factory=Origin)
    share: bool = False
    policy: Policy = field(default_factory=Policy)
    device: torch.device = CPU
    own: OwnProblem | None = None

    @property
    def size(self) -> int:
        """N_m."""
        return len(self.labelled) if self.own is None else len(self.own.batch)

    @property
    def labelled(self) -> Samples:
        """The samples of a site that trains on labels."""
        assert self.samples is not None
        return self.samples


class OpenRun:
    """One run at this site; ``secret`` is what its batches are drawn with."""

    def __init__(self, data: SiteData, folder: Path, secret: str = "") -> None:
        self.folder = folder
        self.settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        if self.settings["problem"]:
            raise InputError(
                "the server solves a problem of its own; join with --problem module:function"
            )
        self.guard = Guard(data.policy, self.settings["method"])
        self.schema = Schema.from_json(self.settings["schema"])
        _check_sizes(data.policy, self.settings, self.schema)
        workspace = Workspace(encoder=data.origin.encoder or None)
        self.inputs, self.labels = prepare(self.schema, data.labelled, workspace)
        check_client(self.inputs, self.labels, len(self.schema.classes), data.labelled.where)
        self.model = _model(data, self.settings, self.schema, self.inputs)
        terms = (self.settings[key] for key in ("l2", "initial_weight", "bootstrap"))
        problem = Reweighting(self.model, *terms)
        self.device = data.device
        batch = batch_of(self.inputs, self.labels, self.device)
        seed = self.settings["seed"]
        seed = derive(seed, secret) if data.policy.private_batches else seed
        fewest, secret_noise = self.guard.fewest, data.policy.private_noise
        self.client = Client(
            data.client, problem, batch, seed, fewest=fewest, secret_noise=secret_noise
        )
        self.journal = Journal(folder / "journal")
        self.site = data.origin.name

    @property
    def state(self) -> ClientState:
        """The state after the last request."""
        return initial_state(self.client) if self.journal.last is None else self.journal.last.state

    @property
    def kept(self) -> Mapping[str, Kept]:
        """The versioned arrays that the site has."""
        return {} if self.journal.last is None else self.journal.last.kept


def _check_sizes(policy: Policy, settings: Mapping[str, Any], schema: Schema) -> None:
    """Refuse a run that would build too much."""
    for what, found, most in (
        ("classes", len(schema.classes), policy.most_classes),
        ("parameters", settings["parameters"], policy.most_parameters),
    ):
        if found > most:
            raise Refused(f"the site's policy allows {most} {what}, not {found}")


def _model(
    data: SiteData, settings: Mapping[str, Any], schema: Schema, inputs: Inputs
) -> FlatModel:
    """Build the run's model; refuse one that differs from the server's."""
    named = data.origin.model
    if named == "auto":
        named, allowed = settings["model"], data.policy.models or tuple(MODELS)
        if named not in MODELS:  # above all not module:function, which would be imported
            raise InputError(
                "the server uses a model of its own; join with --model module:function"
            )
        if named not in allowed:
            raise Refused(
                f"the site's policy does not allow the model '{named}'; it allows "
                f"{', '.join(allowed)}"
            )
    module = build_model(named, schema.shape, len(schema.classes), settings["seed"])
    model = FlatModel(module, data.device)
    if settings["parameters"] != model.length:
        raise InputError(
            f"the site's model has {model.length} parameters and the server's has "
            f"{settings['parameters']}; give both the same --model"
        )
    if settings["frozen"] != model.frozen():
        raise InputError(
            "the site's model has other frozen parameters or statistics than the server's; load "
            "the same weights at both"
        )
    return bind(model, inputs, "the site's inputs")
