"""``fedsift status``: which sites are connected and since when, and how far the runs are.

The SuperLink knows the nodes; the server's folder has a line per round of every run.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

from fedsift.errors import InputError
from fedsift.flower.compat import Away, Control
from fedsift.flower.programs import Address


class Known(Protocol):
    """A registered node, as far as it is shown."""

    name: str
    status: str
    last_activated_at: str
    online_until: float
    heartbeat_interval: float


def sites(nodes: Iterable[Known]) -> Iterator[str]:
    """Yield a line per site that may join."""
    for node in sorted(nodes, key=lambda n: n.name):
        if node.status == "unregistered":
            continue
        if node.status != "online":
            yield f"{node.name:16} away"
            continue
        last = _clock(node.online_until - 2 * node.heartbeat_interval)
        yield f"{node.name:16} connected since {node.last_activated_at[:19]}, last heard of {last}"


def runs(folder: Path) -> Iterator[str]:
    """Yield a line per run of a server's folder: its last round and when that was."""
    for path in sorted((folder / "runs").glob("*/rounds.jsonl"), key=lambda p: p.stat().st_mtime):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        state = "finished" if (path.parent / "summary.json").exists() else "unfinished"
        when = _clock(path.stat().st_mtime)
        yield f"{path.parent.name:24} {state}, round {_round(lines)}, last answer {when}"


def status(address: Address, folder: Path | None) -> Iterator[str]:
    """Yield what is known of sites and runs."""
    try:
        with Control(str(address), address.ca) as control:
            found: Any = control.nodes()
    except Away as error:
        raise InputError(f"{address} does not answer ({error}); is the server running?") from None
    yield from sites(found)
    yield from () if folder is None else runs(folder)


def revoke(address: Address, keys: Path, name: str) -> None:
    """Refuse a site from now on, also after the server's next start."""
    public = keys / "sites" / f"{name}.pub"
    with Control(str(address), address.ca) as control:
        found = [n for n in control.nodes() if n.name == name and n.status != "unregistered"]
        for node in found:
            control.remove(int(node.node_id))
    if public.exists():
        public.rename(public.with_name(f"{public.name}.revoked"))
    elif not found:
        raise InputError(f"the server knows no site {name!r}; `fedsift status` lists them")


def _round(lines: list[str]) -> int:
    try:
        return int(json.loads(lines[-1])["round"])
    except (IndexError, ValueError, KeyError, TypeError):
        return len(lines)


def _clock(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S}"
