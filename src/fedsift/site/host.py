"""The site's host: ``client.answer`` with a journal.

(run, round, number) identifies a request. A repeated request gets the stored reply; a request of
a past round, or a repeated one with other content, is refused. State and reply are on disk
before the reply leaves, so that a crash at any point repeats nothing and loses nothing.

    <folder>/<run>/run.json                      the server's settings for the run
    <folder>/<run>/journal/                      the state (see ``journal``)
    <folder>/<run>/clients/<name>/weights.parquet  index, label, weight: never sent

A request is held against the site's policy (``client.guard``) before anything is done; what was
asked is counted (``ledger``) and logged (``question_log``).

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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fedsift.audit import AnyCalibration, NoiseCalibration, SiteRecord
from fedsift.audit.record import path_of
from fedsift.client import ClientState, answer
from fedsift.client.out_of_fold import judgement
from fedsift.compress import wire
from fedsift.errors import DataError, FedsiftError, InputError, Refused, WireError
from fedsift.federation.encoding import (
    ENVELOPE,
    ERROR,
    REQUEST_ID,
    Parts,
    RequestId,
    decode_request,
    encode_reply,
)
from fedsift.federation.placing import CPU, placed
from fedsift.federation.remote import CLOSE, HELLO
from fedsift.files import write_atomically, write_text
from fedsift.messages import Reply, Scalar
from fedsift.problem.predict import predict
from fedsift.site.journal import Entry, Journal
from fedsift.site.ledger import Ledger
from fedsift.site.own_run import OwnRun
from fedsift.site.question_log import QuestionLog
from fedsift.site.result import SiteResult
from fedsift.site.run import SETTINGS, OpenRun, SiteData

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Host:
    """Replies to the requests of any number of runs, one at a time."""

    def __init__(self, data: SiteData) -> None:
        self.data = data
        self.ledger, self.log = Ledger(data.folder), QuestionLog(data.folder)
        self._runs: dict[str, OpenRun | OwnRun] = {}
        self._kind: type[OpenRun] | type[OwnRun] = OpenRun if data.own is None else OwnRun

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
        if request_id is None:
            return reply
        self._note(request_id, parts, reply)
        return {**reply, REQUEST_ID: request_id.encode()}

    def _note(self, request_id: RequestId, asked: Mapping[str, bytes], reply: Parts) -> None:
        """Write the question into the site's log."""
        down, up = (sum(map(len, parts.values())) for parts in (asked, reply))
        error = None if ERROR not in reply else reply[ERROR].decode()
        self.log.write(request_id.run, request_id.round, request_id.action, down, up, error)

    def _handle(self, request_id: RequestId, parts: Mapping[str, bytes]) -> Parts:
        if request_id.action == HELLO:
            return self._hello(request_id, parts)
        run = self._open(request_id.run)
        if request_id.action == CLOSE:
            return self._close(run, parts) if isinstance(run, OpenRun) else self._end(run, parts)
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
        request, kept = decode_request(parts, run.kept, run.guard.policy.most_numbers)
        if (request.round, request.action) != (request_id.round, request_id.action):
            raise WireError("the round or the action of a request differs from its id")
        before = run.state
        known = self.ledger.asked(request_id.run)
        asked = run.guard.admit(run.client, before, request, known, digest)
        self.ledger.keep(request_id.run, asked)
        request = replace(request, arrays=placed(request.arrays, run.device))
        reply, state = answer(run.client, before.to(run.device), request)
        encoded, state = encode_reply(reply), state.to(CPU)  # the journal's are on the host
        if reply.error is None:
            run.journal.append(Entry(key, digest, encoded, state, kept))
            if isinstance(run, OpenRun) and state.average is not before.average:
                self._write_weights(run, state)
        return encoded

    def _hello(self, request_id: RequestId, parts: Mapping[str, bytes]) -> Parts:
        """Open a run, or resume it, and reply with the client's number and size."""
        opening = wire.decode(parts.get(ENVELOPE, b""))
        if not isinstance(opening, dict) or type(opening.get("next_round")) is not int:
            raise WireError("the opening message does not say in which round the run starts")
        settings = {name: kind(opening.get(name) or kind()) for name, kind in SETTINGS.items()}
        folder = self.data.folder / request_id.run
        self._check_opening(request_id.run, settings)
        again = (folder / "run.json").exists() and self._open(request_id.run).settings == settings
        if not again:
            self._start(folder, settings, int(opening["next_round"] or 0))
            self._runs.pop(request_id.run, None)
        run = self._open(request_id.run)
        versions = {f"{n}_version": k.version for n, k in run.kept.items()}
        return encode_reply(self._reply({"name": self.data.origin.name, **versions}))

    def _check_opening(self, name: str, settings: dict[str, Any]) -> None:
        """Refuse a run that its owner has not approved, and one of another run's name."""
        said = {key: value for key, value in settings.items() if key != "attempt"}
        if (self.data.folder / name / "run.json").exists():
            run = self._open(name)
            other = [key for key in said if run.settings.get(key) != said[key]]
            if other and run.journal.last is not None:
                raise InputError(
                    f"the site has a run '{name}' with another {other[0]}, and keeps it; start "
                    "yours under another name"
                )
        if self.data.policy.approve and not self.ledger.approved(name, said):
            self.ledger.propose(name, said)
            raise Refused(f"the run '{name}' waits until the owner of the site has approved it")
        self.ledger.begin(name, self.data.policy.most_runs)

    def _start(self, folder: Path, settings: dict[str, Any], next_round: int) -> None:
        """Write a run's settings; what the site cannot run is refused and nothing is written."""
        try:
            with tempfile.TemporaryDirectory() as trial:
                write_text(Path(trial) / "run.json", json.dumps(settings))
                self._kind(self.data, Path(trial))
        except DataError as error:  # its sentence may have values, labels and ids in it
            print(f"a run was refused: {error}", file=sys.stderr, flush=True)
            raise InputError(
                "the site's samples do not fit the server's schema; the site's log says why"
            ) from None
        Journal(folder / "journal").rewind(next_round)
        write_text(folder / "run.json", json.dumps(settings))

    def _close(self, run: OpenRun, parts: Mapping[str, bytes]) -> Parts:
        """Keep the final model and audit the site's labels with it."""
        own, average = self.data, run.state.average
        closing, y = (wire.decode(parts.get(name, b"")) for name in (ENVELOPE, "y"))
        fits = isinstance(y, Tensor) and y.shape == (run.model.length,)
        if not isinstance(closing, dict) or not isinstance(y, Tensor) or not fits:
            raise WireError("the closing message has no model of this run")
        assert average is not None  # weights are always a site's own
        result = SiteResult.of(own.origin, closing, run.schema)
        found, clean = self._probabilities(run, parts, y, result.calibration)
        ids = own.labelled.ids
        record = SiteRecord(own.origin.name, run.labels, average, found, ids, clean=clean)
        audit = result.audit(record, lambda: own.labelled.content)
        result.write(run.folder, run.model, y, audit)
        shared = own.share and closing.get("share_summary") is True
        return encode_reply(self._reply({"flagged": audit.summary.flagged} if shared else {}))

    def _end(self, run: OwnRun, parts: Mapping[str, bytes]) -> Parts:
        """Keep the solution of the owner's problem."""
        sent = {name: wire.decode(parts[name]) for name in ("x", "y") if name in parts}
        run.close({name: a for name, a in sent.items() if isinstance(a, Tensor)})
        return encode_reply(self._reply())

    def _probabilities(
        self, run: OpenRun, parts: Mapping[str, bytes], y: Tensor, calibration: AnyCalibration
    ) -> tuple[Tensor, Tensor | None]:
        """Return what the audit rests on: the model's probabilities, or out-of-fold ones."""
        if not isinstance(calibration, NoiseCalibration):
            return predict(run.model, y.to(run.device), run.inputs).cpu(), None
        sent = {name: wire.decode(parts.get(name, b"")) for name in ("heads", "centre")}
        arrays = {name: value for name, value in sent.items() if isinstance(value, Tensor)}
        here = {name: value.to(run.device) for name, value in arrays.items()}
        found, clean = judgement(run.client, run.state.to(run.device), here)
        return found.cpu(), None if clean is None else clean.cpu()

    def _open(self, name: str) -> OpenRun | OwnRun:
        folder = self.data.folder / name
        if name not in self._runs:
            if not (folder / "run.json").exists():
                raise InputError(f"the site has no run '{name}'; the server must open it first")
            self._runs[name] = self._kind(self.data, folder, self.ledger.secret(name))
        return self._runs[name]

    def _write_weights(self, run: OpenRun, state: ClientState) -> None:
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
        return Reply(self.data.client, self.data.size, scalars=scalars or {})

    def _error(self, sentence: str) -> Parts:
        reply = Reply(self.data.client, self.data.size, error=sentence)
        return encode_reply(reply)


def _digest(parts: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(f"{name}:{len(parts[name])}\n".encode())
        total.update(parts[name])
    return total.hexdigest()
