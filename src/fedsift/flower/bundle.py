"""The bundle of a run, a Flower app: a name, two entry points, and the client app's one file.

The server app is imported from the fedsift that is installed at the server. No site fetches the
bundle.
"""

from __future__ import annotations

import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w

from fedsift.flower.run_keys import RunKeys

CLIENT_APP = "fedsift_client_app"  # the module's name in the bundle


def write_bundle(folder: Path) -> Path:
    """Write the app into an empty folder and return it."""
    parts = {"serverapp": "fedsift.flower.server_app:app", "clientapp": f"{CLIENT_APP}:app"}
    keys = RunKeys().to_mapping()
    app: dict[str, Any] = {"publisher": "fedsift", "components": parts, "config": keys}
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
    shutil.copy(Path(__file__).with_name("client_app.py"), folder / f"{CLIENT_APP}.py")
    return folder
