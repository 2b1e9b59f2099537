"""Write what fedsift stands on as a bill of materials: build/sbom.json, CycloneDX 1.6.

python docs/dev/make_sbom.py             every distribution that fedsift and its extras lead to
python docs/dev/make_sbom.py --table     the licences as a table, on standard output

What is listed is what is installed here: names, versions and licences from each distribution's own
metadata, found from fedsift's requirements on. A requirement that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

TARGET = Path(__file__).parents[2] / "build" / "sbom.json"
UNKNOWN = "not stated"


def name_of(found: Distribution) -> str:
    """Return a distribution's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", str(found.metadata["Name"])).lower()


def required(found: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """Yield what a distribution asks for here, with these extras of it."""
    for text in found.requires or []:
        wanted = Requirement(text)
        marker = wanted.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
            yield wanted


def closure(root: str, extras: set[str]) -> dict[str, tuple[Distribution, set[str]]]:
    """Return every installed distribution that one leads to, with the names that it asks for."""
    found: dict[str, tuple[Distribution, set[str]]] = {}
    asked: dict[str, set[str]] = {}
    waiting = [(root, extras)]
    while waiting:
        name, wanted = waiting.pop()
        try:
            here = distribution(name)
        except PackageNotFoundError:
            continue
        key = name_of(here)
        if key in found and wanted <= asked[key]:
            continue
        asked[key] = asked.get(key, set()) | wanted
        needs = list(required(here, asked[key]))
        names = {re.sub(r"[-_.]+", "-", need.name).lower() for need in needs}
        found[key] = (here, names)
        waiting += [(need.name, set(need.extras)) for need in needs]
    return found


def licence(found: Distribution) -> str:
    """Return the licence that is stated: an expression, else classifiers, else the first line."""
    if expression := found.metadata.get("License-Expression"):
        return str(expression)
    classified = [
        line.rpartition(" :: ")[2]
        for line in found.metadata.get_all("Classifier") or []
        if line.startswith("License :: ") and line.count("::") > 1
    ]
    stated = str(found.metadata.get("License") or "").strip().splitlines()
    return " and ".join(classified) or (stated[0].strip() if stated else UNKNOWN)


def bill(root: str, extras: set[str]) -> dict[str, Any]:
    """Return the bill of materials."""
    found = closure(root, extras)

    def component(key: str, kind: str) -> dict[str, Any]:
        here = found[key][0]
        reference = f"pkg:pypi/{key}@{here.version}"
        names = {"name": key, "version": here.version, "purl": reference, "bom-ref": reference}
        text = licence(here)
        exact = text == here.metadata.get("License-Expression")
        stated = {"expression": text} if exact else {"license": {"name": text}}
        return {"type": kind, **names, "licenses": [stated]}

    parts = {key: component(key, "library") for key in sorted(found) if key != root}
    parts[root] = component(root, "application")
    references = {key: part["bom-ref"] for key, part in parts.items()}
    dependencies = [
        {
            "ref": references[key],
            "dependsOn": sorted(references[n] for n in names if n in references),
        }
        for key, (_, names) in sorted(found.items())
    ]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": parts.pop(root)},
        "components": list(parts.values()),
        "dependencies": dependencies,
    }


def table(made: dict[str, Any]) -> str:
    """Return licences and the distributions that have them, the most frequent first."""
    by: dict[str, list[str]] = {}
    for part in made["components"]:
        stated = part["licenses"][0]
        text = stated.get("expression") or stated["license"]["name"]
        by.setdefault(text, []).append(part["name"])
    rows = sorted(by.items(), key=lambda row: (-len(row[1]), row[0]))
    lines = [f"| {text} | {len(names)} | {', '.join(names)} |" for text, names in rows]
    return "\n".join(["| licence | packages | which |", "|---|---|---|", *lines])


def main() -> None:
    """Write the bill, or show the licences."""
    parser = argparse.ArgumentParser(description="Bill of materials of fedsift.")
    parser.add_argument("--extras", nargs="*", default=["flower", "review", "secure", "hub"])
    parser.add_argument("--table", action="store_true", help="show the licences as a table")
    given = parser.parse_args()
    made = bill("fedsift", set(given.extras))
    if given.table:
        print(table(made))
        return
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(made['components'])} packages")


if __name__ == "__main__":
    main()
