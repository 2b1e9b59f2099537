"""What ``fedsift site`` does; a module of its own, since its imports take seconds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import jvp

from fedsift.cli.site_options import site_origin, site_policy
from fedsift.device import resolve
from fedsift.errors import InputError
from fedsift.experiment.config import from_mapping
from fedsift.experiment.setup import load_data
from fedsift.federation.encoding import Parts
from fedsift.files import read_toml, write_atomically
from fedsift.problem.inputs import whole
from fedsift.site.host import Host
from fedsift.site.ledger import Ledger
from fedsift.site.process import serve
from fedsift.site.question_log import QuestionLog
from fedsift.site.run import SiteData


def handle(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    if options.split is not None:
        return _split(options.split, options.folder)
    if options.what == "log":
        print(*QuestionLog(options.folder).lines(), sep="\n")
        return 0
    if options.what == "approve":
        return _approve(Ledger(options.folder), options.run)
    if options.client is None or options.data is None:
        raise InputError("--client or --data is missing; give both")
    folder = options.folder.absolute()
    resolve(options.device)  # before anything is opened

    def load() -> Callable[[Parts], Parts]:
        jvp(
            torch.sin, (torch.ones(1),), (torch.ones(1),)
        )  # the first call loads much of torch: not within a request
        host = Host(load_site(options, folder))
        print(f"site {host.data.origin.name}: {host.data.size} samples", flush=True)
        for note in () if host.data.samples is None else host.data.samples.notes:
            print(f"  {note}", flush=True)
        return host.handle

    serve(folder, load)
    return 0


def load_site(options: argparse.Namespace, folder: Path) -> SiteData:
    """Load a site's samples."""
    origin = site_origin(options)
    policy = site_policy(options)
    where = resolve(options.device)
    shared = options.share_summary
    own = origin.own_problem()
    samples = origin.samples() if own is None else None
    return SiteData(options.client, samples, folder, origin, shared, policy, where, own)


def _approve(ledger: Ledger, run: str | None) -> int:
    """Show the runs that wait for the owner, or say yes to one."""
    if run is not None:
        ledger.approve(run)
        print(f"{run} may start at this site")
        return 0
    waiting = ledger.proposals()
    for name, settings in waiting.items():
        shown = {k: v for k, v in settings.items() if k != "schema"}
        print(f"{name}: " + ", ".join(f"{k} = {v}" for k, v in shown.items()))
    print(f"{len(waiting)} runs wait for approval")
    return 0


def _split(path: Path, folder: Path) -> int:
    config = from_mapping(read_toml(path), str(path)).resolve()
    for m, client in enumerate(load_data(config).clients):
        arrays = {"inputs": whole(client.inputs).numpy(), "labels": client.labels.numpy()}
        target = folder / f"{m}.npz"
        write_atomically(target, lambda temporary, a=arrays: _save(temporary, a))  # type: ignore[misc]
        print(f"{target}: {len(client)} samples")
    return 0


def _save(path: Path, arrays: dict[str, Any]) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
