"""The app that a run sends: its entry points exist, and nothing else travels."""

import runpy
import tomllib
from importlib import import_module

from fedsift.flower.bundle import write_bundle
from fedsift.flower.run_keys import RunKeys


def test_entry_points_are_where_the_bundle_says(tmp_path):
    bundle = write_bundle(tmp_path / "app")
    project = tomllib.loads((bundle / "pyproject.toml").read_text())
    app = project["tool"]["flwr"]["app"]
    server, client = (app["components"][f"{side}app"].split(":") for side in ("server", "client"))
    assert hasattr(import_module(server[0]), server[1])
    assert client[1] in runpy.run_path(str(bundle / f"{client[0]}.py"))
    assert {p.name for p in bundle.iterdir()} == {"pyproject.toml", f"{client[0]}.py"}
    assert RunKeys.from_mapping(app["config"]) == RunKeys()
    assert project["project"]["dependencies"] == []
