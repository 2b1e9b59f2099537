"""The bill of materials names all that fedsift asks for; no licence binds who uses it."""

import re
import runpy
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

pytest.importorskip("flwr", reason="pip install 'fedsift[flower]'")
ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "dev" / "make_sbom.py"))
BINDING = re.compile(r"GPL|SSPL|Affero|Commons Clause|BUSL|not stated")


@pytest.fixture(scope="module")
def made():
    return SCRIPT["bill"]("fedsift", {"flower"})


def test_direct_and_indirect_requirements_are_listed_with_their_versions(made):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] + project["optional-dependencies"]["flower"]
    direct = {re.match(r"[\w-]+", text)[0].lower() for text in asked}
    listed = {part["name"]: part["version"] for part in made["components"]}
    assert direct <= set(listed)
    assert {"httpx", "certifi"} <= set(listed)  # Flower's
    assert all(version(name) == found for name, found in listed.items())
    graph = {row["ref"]: row["dependsOn"] for row in made["dependencies"]}
    assert len(graph) == len(listed) + 1
    mine = graph[made["metadata"]["component"]["bom-ref"]]
    assert {ref.rpartition("/")[2].partition("@")[0] for ref in mine} == direct


def test_no_licence_binds_who_uses_fedsift(made):
    rows = SCRIPT["table"](made).splitlines()[2:]
    assert sum(int(row.split(" | ")[1]) for row in rows) == len(made["components"])
    assert not [row for row in rows if BINDING.search(row)]
    assert BINDING.search("GNU Lesser General Public License v3 (LGPLv3)")
