"""The site's answers: ``client.answer`` with a memory.

A question is told by (run, round, number). The same one again gets the stored answer; one that the
site has moved past, or the same with other content, is refused. What is answered is on disk before
the answer leaves, so that a crash at any point repeats nothing and loses nothing.

    <folder>/<run>/run.json                      what the server said of the run
    <folder>/<run>/journal/                      the state (see ``journal``)
    <folder>/<run>/clients/<id>/weights.parquet  index, label, weight: for the site's own eyes

When the run ends the site gets the model and audits its labels with it (see ``findings``).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from fedsift.client import Client, ClientState, answer, initial_state
from fedsift.compress import wire
from fedsift.data import check_client
from fedsift.errors import FedsiftError, InputError, WireError
from fedsift.federation.encoding import (
    ABOUT,
    ENVELOPE,
    About,
    Kept,
    Parts,
    decode_request,
    encode_reply,
)
from fedsift.federation.remote import CLOSE, HELLO
from fedsift.files import write_atomically, write_text
from fedsift.messages import Reply, Scalar
from fedsift.problem import FlatModel, LabelledBatch, Reweighting
from fedsift.site.findings import Findings, Origin
from fedsift.site.journal import Entry, Journal

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
SETTINGS = {
    "seed": int,
    "l2": float,
    "initial_weight": float,
    "bootstrap": float,
    "parameters": int,
    "classes": int,
    "model": str,
    "attempt": str,
}


@dataclass(frozen=True, eq=False)
class Holdings:
    """What a site has: its number in the federation, samples, a folder of its own, a model.

    ``module`` makes the model from the server's name for it and the number of classes. ``origin``
    says where samples and model came from; ``share``, if the server may know how many labels are
    suspicious.
    """

    client: int
    module: Callable[[str, int], nn.Module]
    inputs: Tensor
    labels: Tensor
    folder: Path
    origin: Origin = field(default_factory=Origin)
    share: bool = False


class _Run:
    """One run at this site."""

    def __init__(self, holdings: Holdings, folder: Path) -> None:
        self.folder = folder
        self.settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.model = _model(holdings, self.settings)
        terms = (self.settings[key] for key in ("l2", "initial_weight", "bootstrap"))
        problem = Reweighting(self.model, *terms)
        batch = LabelledBatch.of(holdings.inputs, holdings.labels)
        self.client = Client(holdings.client, problem, batch, self.settings["seed"])
        self.journal = Journal(folder / "journal")
        self.weights = folder / "clients" / str(holdings.client) / "weights.parquet"

    @property
    def state(self) -> ClientState:
        return initial_state(self.client) if self.journal.last is None else self.journal.last.state

    @property
    def kept(self) -> Mapping[str, Kept]:
        return {} if self.journal.last is None else self.journal.last.kept


class Host:
    """Answers the questions of any number of runs, one at a time."""

    def __init__(self, holdings: Holdings, *, reread: bool = False) -> None:
        self.holdings = holdings
        self._runs: dict[str, _Run] = {}
        self._reread = reread  # the disk is the memory: several processes may take turns

    def handle(self, parts: Mapping[str, bytes]) -> Parts:
        """Return the answer to a message; whatever goes wrong is an answer too."""
        about = None
        try:
            about = About.decode(parts)
            if not RUN_NAME.fullmatch(about.run):
                raise WireError(f"{about.run!r} is no name for a run")
            reply = self._handle(about, parts)
        except FedsiftError as error:
            reply = self._error(str(error))
        except Exception as error:
            reply = self._error(f"the site failed: {type(error).__name__}: {error}")
        return reply if about is None else {**reply, ABOUT: about.encode()}

    def _handle(self, about: About, parts: Mapping[str, bytes]) -> Parts:
        if about.action == HELLO:
            return self._hello(about, parts)
        run = self._open(about.run)
        if about.action == CLOSE:
            return self._close(run, parts)
        key = (about.round, about.number)
        digest = _digest(parts)
        if (done := run.journal.find(key)) is not None:
            if done.digest != digest:
                raise InputError(
                    f"question {about.number} of round {about.round + 1} was answered before and "
                    "came again with other content; resume the run"
                )
            return dict(done.answer)
        if run.journal.last is not None and key < run.journal.last.key:
            raise InputError(f"round {about.round + 1} came late; the site has gone on")
        request, kept = decode_request(parts, run.kept)
        if (request.round, request.action) != (about.round, about.action):
            raise WireError("a request says two different things about its round or action")
        before = run.state
        reply, state = answer(run.client, before, request)
        encoded = encode_reply(reply)
        if reply.error is None:
            run.journal.append(Entry(key, digest, encoded, state, kept))
            if state.average is not before.average:
                self._write_weights(run, state)
        return encoded

    def _hello(self, about: About, parts: Mapping[str, bytes]) -> Parts:
        """Learn of a run, or of its resumption, and say who is here."""
        told = wire.decode(parts.get(ENVELOPE, b""))
        if not isinstance(told, dict) or type(told.get("next_round")) is not int:
            raise WireError("the opening question does not say in which round the run starts")
        settings = {name: kind(told.get(name) or 0) for name, kind in SETTINGS.items()}
        check_client(
            self.holdings.inputs, self.holdings.labels, settings["classes"], "the site's data"
        )
        _model(self.holdings, settings)
        folder = self.holdings.folder / about.run
        again = (folder / "run.json").exists() and self._open(about.run).settings == settings
        if not again:
            Journal(folder / "journal").rewind(int(told["next_round"] or 0))
            write_text(folder / "run.json", json.dumps(settings))
            self._runs.pop(about.run, None)
        run = self._open(about.run)
        return encode_reply(self._reply({f"{n}_version": k.version for n, k in run.kept.items()}))

    def _close(self, run: _Run, parts: Mapping[str, bytes]) -> Parts:
        """Keep the final model and audit the site's labels with it."""
        own, average = self.holdings, run.state.average
        told, y = (wire.decode(parts.get(name, b"")) for name in (ENVELOPE, "y"))
        fits = isinstance(y, Tensor) and y.shape == (run.model.length,)
        if not isinstance(told, dict) or not isinstance(y, Tensor) or not fits:
            raise WireError("the closing message has no model of this run")
        assert average is not None  # weights are always a site's own
        findings = Findings.of(own.client, own.origin, told, run.settings)
        audit = findings.audit(run.model, y, own.inputs, own.labels, average)
        self._write_weights(run, run.state)
        findings.write(run.folder, run.model, y, audit)
        shared = own.share and told.get("share_summary") is True
        return encode_reply(self._reply({"flagged": audit.summary.flagged} if shared else {}))

    def _open(self, name: str) -> _Run:
        folder = self.holdings.folder / name
        if name not in self._runs or self._reread:
            if not (folder / "run.json").exists():
                raise InputError(f"the site knows no run '{name}'; the server must open it first")
            self._runs[name] = _Run(self.holdings, folder)
        return self._runs[name]

    def _write_weights(self, run: _Run, state: ClientState) -> None:
        if state.average is None:
            return
        labels = self.holdings.labels.numpy()
        columns = {
            "index": np.arange(len(labels)),
            "label": labels,
            "weight": state.average.numpy(),
        }
        table = pd.DataFrame(columns)
        write_atomically(run.weights, partial(table.to_parquet, index=False))
        run.weights.chmod(0o600)

    def _reply(self, scalars: Mapping[str, Scalar] | None = None) -> Reply:
        return Reply(self.holdings.client, len(self.holdings.labels), scalars=scalars or {})

    def _error(self, sentence: str) -> Parts:
        reply = Reply(self.holdings.client, len(self.holdings.labels), error=sentence)
        return encode_reply(reply)


def _model(holdings: Holdings, settings: Mapping[str, Any]) -> FlatModel:
    """Build the run's model, or say that it is not the server's."""
    model = FlatModel(holdings.module(settings["model"], settings["classes"]))
    if settings["parameters"] != model.length:
        raise InputError(
            f"the site's model has {model.length} parameters and the server's has "
            f"{settings['parameters']}; give both the same --model"
        )
    return model


def _digest(parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(f"{name}:{len(parts[name])}\n".encode())
        total.update(parts[name])
    return total.hexdigest()
