"""The site's host: ``client.answer`` with a journal.

(run, round, number) identifies a request. A repeated request gets the stored reply; a request of
a past round, or a repeated one with other content, is refused. State and reply are on disk
before the reply leaves, so that a crash at any point repeats nothing and loses nothing.

    <folder>/<run>/run.json                      the server's settings for the run
    <folder>/<run>/journal/                      the state (see ``journal``)
    <folder>/<run>/clients/<name>/weights.parquet  index, label, weight: never sent

The server's schema says how samples become inputs (``data.schema``); it is fitted nowhere else.
When the run ends the site gets the model and audits its labels with it (see ``result``).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fedsift.audit import AnyCalibration, NoiseCalibration, SiteRecord
from fedsift.audit.record import path_of
from fedsift.client import Client, ClientState, answer, initial_state
from fedsift.client.out_of_fold import judgement
from fedsift.compress import wire
from fedsift.data import check_client
from fedsift.data.samples import Samples
from fedsift.data.schema import Schema, Workspace, prepare
from fedsift.errors import DataError, FedsiftError, InputError, WireError
from fedsift.federation.encoding import (
    ENVELOPE,
    REQUEST_ID,
    Kept,
    Parts,
    RequestId,
    decode_request,
    encode_reply,
)
from fedsift.federation.remote import CLOSE, HELLO
from fedsift.files import write_atomically, write_text
from fedsift.messages import Reply, Scalar
from fedsift.problem import FlatModel, Reweighting, batch_of, bind
from fedsift.problem.inputs import Inputs
from fedsift.problem.networks import MODELS, build_model
from fedsift.problem.predict import predict
from fedsift.site.journal import Entry, Journal
from fedsift.site.result import Origin, SiteResult

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
SETTINGS = {
    "seed": int,
    "l2": float,
    "initial_weight": float,
    "bootstrap": float,
    "parameters": int,
    "frozen": str,
    "schema": str,
    "model": str,
    "attempt": str,
}


@dataclass(frozen=True, eq=False)
class SiteData:
    """What a site has: its number in the federation, samples, a folder of its own.

    ``origin`` says where samples and model came from; ``share`` allows the server to know how many
    labels are suspicious.
    """

    client: int
    samples: Samples
    folder: Path
    origin: Origin = field(default_factory=Origin)
    share: bool = False


class _Run:
    """One run at this site."""

    def __init__(self, data: SiteData, folder: Path) -> None:
        self.folder = folder
        self.settings = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        self.schema = Schema.from_json(self.settings["schema"])
        workspace = Workspace(encoder=data.origin.encoder or None)
        self.inputs, self.labels = prepare(self.schema, data.samples, workspace)
        check_client(self.inputs, self.labels, len(self.schema.classes), data.samples.where)
        self.model = _model(data, self.settings, self.schema, self.inputs)
        terms = (self.settings[key] for key in ("l2", "initial_weight", "bootstrap"))
        problem = Reweighting(self.model, *terms)
        batch = batch_of(self.inputs, self.labels)
        self.client = Client(data.client, problem, batch, self.settings["seed"])
        self.journal = Journal(folder / "journal")
        self.site = data.origin.name

    @property
    def state(self) -> ClientState:
        return initial_state(self.client) if self.journal.last is None else self.journal.last.state

    @property
    def kept(self) -> Mapping[str, Kept]:
        return {} if self.journal.last is None else self.journal.last.kept


class Host:
    """Replies to the requests of any number of runs, one at a time."""

    def __init__(self, data: SiteData) -> None:
        self.data = data
        self._runs: dict[str, _Run] = {}

    def handle(self, parts: Mapping[str, bytes]) -> Parts:
        """Return the reply to a message; whatever goes wrong becomes an error reply."""
        request_id = None
        try:
            request_id = RequestId.decode(parts)
            if not RUN_NAME.fullmatch(request_id.run):
                raise WireError(
                    f"{request_id.run!r} is not a run name; use letters, digits, '-' and '_'"
                )
            reply = self._handle(request_id, parts)
        except FedsiftError as error:
            reply = self._error(str(error))
        except Exception as error:  # what it says may be about a sample: it stays here
            traceback.print_exc()
            reply = self._error(f"the site failed ({type(error).__name__}); its log says where")
        return reply if request_id is None else {**reply, REQUEST_ID: request_id.encode()}

    def _handle(self, request_id: RequestId, parts: Mapping[str, bytes]) -> Parts:
        if request_id.action == HELLO:
            return self._hello(request_id, parts)
        run = self._open(request_id.run)
        if request_id.action == CLOSE:
            return self._close(run, parts)
        key = (request_id.round, request_id.number)
        digest = _digest(parts)
        if (done := run.journal.find(key)) is not None:
            if done.digest != digest:
                raise InputError(
                    f"request {request_id.number} of round {request_id.round + 1} came again with "
                    "other content; resume the run"
                )
            return dict(done.answer)
        if run.journal.last is not None and key < run.journal.last.key:
            raise InputError(
                f"a request of round {request_id.round + 1} is too late; the site has moved on"
            )
        request, kept = decode_request(parts, run.kept)
        if (request.round, request.action) != (request_id.round, request_id.action):
            raise WireError("the round or the action of a request differs from its id")
        before = run.state
        reply, state = answer(run.client, before, request)
        encoded = encode_reply(reply)
        if reply.error is None:
            run.journal.append(Entry(key, digest, encoded, state, kept))
            if state.average is not before.average:
                self._write_weights(run, state)
        return encoded

    def _hello(self, request_id: RequestId, parts: Mapping[str, bytes]) -> Parts:
        """Open a run, or resume it, and reply with the client's number and size."""
        opening = wire.decode(parts.get(ENVELOPE, b""))
        if not isinstance(opening, dict) or type(opening.get("next_round")) is not int:
            raise WireError("the opening message does not say in which round the run starts")
        settings = {name: kind(opening.get(name) or kind()) for name, kind in SETTINGS.items()}
        folder = self.data.folder / request_id.run
        again = (folder / "run.json").exists() and self._open(request_id.run).settings == settings
        if not again:
            self._start(folder, settings, int(opening["next_round"] or 0))
            self._runs.pop(request_id.run, None)
        run = self._open(request_id.run)
        versions = {f"{n}_version": k.version for n, k in run.kept.items()}
        return encode_reply(self._reply({"name": self.data.origin.name, **versions}))

    def _start(self, folder: Path, settings: dict[str, Any], next_round: int) -> None:
        """Write a run's settings; what the site cannot run is refused and nothing is written."""
        try:
            with tempfile.TemporaryDirectory() as trial:
                write_text(Path(trial) / "run.json", json.dumps(settings))
                _Run(self.data, Path(trial))
        except DataError as error:  # its sentence may have values, labels and ids in it
            print(f"a run was refused: {error}", file=sys.stderr, flush=True)
            raise InputError(
                "the site's samples do not fit the server's schema; the site's log says why"
            ) from None
        Journal(folder / "journal").rewind(next_round)
        write_text(folder / "run.json", json.dumps(settings))

    def _close(self, run: _Run, parts: Mapping[str, bytes]) -> Parts:
        """Keep the final model and audit the site's labels with it."""
        own, average = self.data, run.state.average
        closing, y = (wire.decode(parts.get(name, b"")) for name in (ENVELOPE, "y"))
        fits = isinstance(y, Tensor) and y.shape == (run.model.length,)
        if not isinstance(closing, dict) or not isinstance(y, Tensor) or not fits:
            raise WireError("the closing message has no model of this run")
        assert average is not None  # weights are always a site's own
        result = SiteResult.of(own.origin, closing, run.schema)
        found, clean = self._probabilities(run, parts, y, result.calibration)
        ids = own.samples.ids
        record = SiteRecord(own.origin.name, run.labels, average, found, ids, clean=clean)
        audit = result.audit(record, lambda: own.samples.content)
        result.write(run.folder, run.model, y, audit)
        shared = own.share and closing.get("share_summary") is True
        return encode_reply(self._reply({"flagged": audit.summary.flagged} if shared else {}))

    def _probabilities(
        self, run: _Run, parts: Mapping[str, bytes], y: Tensor, calibration: AnyCalibration
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the audit rests on: the model's probabilities, or out-of-fold ones."""
        if not isinstance(calibration, NoiseCalibration):
            return predict(run.model, y, run.inputs), None
        sent = {name: wire.decode(parts.get(name, b"")) for name in ("heads", "centre")}
        arrays = {name: value for name, value in sent.items() if isinstance(value, Tensor)}
        return judgement(run.client, run.state, arrays)

    def _open(self, name: str) -> _Run:
        folder = self.data.folder / name
        if name not in self._runs:
            if not (folder / "run.json").exists():
                raise InputError(f"the site has no run '{name}'; the server must open it first")
            self._runs[name] = _Run(self.data, folder)
        return self._runs[name]

    def _write_weights(self, run: _Run, state: ClientState) -> None:
        if state.average is None:
            return
        columns = {
            "index": np.arange(len(run.labels)),
            "label": run.labels.numpy(),
            "weight": state.average.numpy(),
        }
        path = path_of(run.folder, run.site)
        write_atomically(path, partial(pd.DataFrame(columns).to_parquet, index=False))
        path.chmod(0o600)

    def _reply(self, scalars: Mapping[str, Scalar] | None = None) -> Reply:
        return Reply(self.data.client, len(self.data.samples), scalars=scalars or {})

    def _error(self, sentence: str) -> Parts:
        reply = Reply(self.data.client, len(self.data.samples), error=sentence)
        return encode_reply(reply)


def _model(
    data: SiteData, settings: Mapping[str, Any], schema: Schema, inputs: Inputs
) -> FlatModel:
    """Build the run's model; refuse one that differs from the server's."""
    named = data.origin.model
    if named == "auto":
        named = settings["model"]
        if named not in MODELS:  # above all not module:function, which would be imported
            raise InputError(
                "the server uses a model of its own; join with --model module:function"
            )
    model = FlatModel(build_model(named, schema.shape, len(schema.classes), settings["seed"]))
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


def _digest(parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(f"{name}:{len(parts[name])}\n".encode())
        total.update(parts[name])
    return total.hexdigest()
