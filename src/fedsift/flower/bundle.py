"""The Flower app that a run sends around: a name, two entry points, and the relay's one file.

The server app is imported from the fedsift that is installed at the server. The relay travels, so
that the process Flower starts per message imports neither fedsift nor torch.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w

RUN_KEYS: dict[str, str | float | bool] = {
    "config": "",
    "run": "",
    "resume": False,
    "timeout": 600.0,
    "wait": 300.0,
}


def write_bundle(folder: Path, client: str = "fedsift_relay:app") -> Path:
    """Write the app into an empty folder and return it."""
    parts = {
        "serverapp": "fedsift.flower.server_app:app",
        "clientapp": client,
    }
    app: dict[str, Any] = {"publisher": "fedsift", "components": parts, "config": RUN_KEYS}
    project = {
        "name": "fedsift",
        "version": version("fedsift"),
        "description": "Federated learning with labels that cannot all be trusted",
        "license": "Apache-2.0",
        "dependencies": [],  # nothing is installed at a site
    }
    folder.mkdir(parents=True, exist_ok=True)
    text = tomli_w.dumps({"project": project, "tool": {"flwr": {"app": app}}})
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("relay.py"), folder / "fedsift_relay.py")
    return folder
