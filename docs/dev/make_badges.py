"""Draw the badges of the README as files of this repository, from pyproject.toml.

python docs/dev/make_badges.py
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
WIDTH = 6.2  # of a letter at 11 pixels
BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{full}" height="20" role="img" aria-label="{left}: {right}">
<title>{left}: {right}</title>
<clipPath id="r"><rect width="{full}" height="20" rx="3"/></clipPath>
<g clip-path="url(#r)"><rect width="{split}" height="20" fill="#555"/>
<rect x="{split}" width="{rest}" height="20" fill="{colour}"/></g>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{middle_left}" y="14">{left}</text><text x="{middle_right}" y="14">{right}</text></g>
</svg>
"""  # noqa: E501


def badges() -> dict[str, str]:
    """Return every badge by the name of its file."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", about["requires-python"]).groups()
    shown = {
        "version": ("version", about["version"], "#5a67b8"),
        "python": ("python", f"3.{low} to 3.{int(high) - 1}", "#3572a5"),
        "licence": ("licence", about["license"], "#3d8b40"),
        "typed": ("types", "mypy --strict", "#3d8b40"),
        "paper": ("paper", "KDD 2022", "#8a5a9e"),
    }
    return {f"badge-{name}.svg": _badge(*parts) for name, parts in shown.items()}


def _badge(left: str, right: str, colour: str) -> str:
    split, rest = (round(WIDTH * len(text) + 14) for text in (left, right))
    return BADGE.format(
        left=left,
        right=right,
        colour=colour,
        split=split,
        rest=rest,
        full=split + rest,
        middle_left=split / 2,
        middle_right=split + rest / 2,
    )


if __name__ == "__main__":
    for name, text in badges().items():
        (IMAGES / name).write_text(text, encoding="utf-8")
