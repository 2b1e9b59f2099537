"""The wheel in an environment of its own: what a user installs, far from the sources."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.deep

ROOT = Path(__file__).parents[1]
SOURCES = ("pyproject.toml", "README.md", "LICENSE")
SECONDS = 600  # the longest that a command may run


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel, and an empty folder to work in."""

    python: Path
    folder: Path

    def run(self, *command: str) -> str:
        """Run a program of the environment; it must succeed."""
        hidden = ("PYTHONPATH", "PYTHONHOME")
        clean = {name: value for name, value in os.environ.items() if name not in hidden}
        path = str(self.python.with_name(command[0]))
        return _run(path, *command[1:], cwd=self.folder, env=clean)


def _run(*command: str, **options: object) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Build from a copy: a build leaves folders behind, and takes what an older one left."""
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheels")
    for name in SOURCES:
        shutil.copy(ROOT / name, tree)
    leftovers = shutil.ignore_patterns("*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", tree / "src", ignore=leftovers)
    built = "pip", "wheel", "--no-deps", "--wheel-dir", str(out), *_isolation(), str(tree)
    _run(sys.executable, "-m", *built)
    (made,) = out.iterdir()
    return made


def _isolation() -> list[str]:
    """Use this environment's setuptools if it is new enough; pip would download one."""
    try:
        found = int(importlib.metadata.version("setuptools").split(".")[0])
    except importlib.metadata.PackageNotFoundError:
        found = 0
    return ["--no-build-isolation"] if found >= 77 else []


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    """Install the wheel alone; its dependencies are those of this environment, by path."""
    folder = tmp_path_factory.mktemp("environment")
    _run(sys.executable, "-m", "venv", str(folder / "venv"))
    python = folder / "venv" / "bin" / "python"
    _run(str(python), "-m", "pip", "install", "--no-deps", "--no-index", str(wheel))
    (own,) = folder.glob("venv/lib/python*/site-packages")
    shared = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (own / "dependencies.pth").write_text("\n".join(sorted(shared)), encoding="utf-8")
    empty = folder / "elsewhere"
    empty.mkdir()
    return Installed(python, empty)


def test_the_wheel_has_every_file_of_the_package(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src"
    files = (path for path in (source / "fedsift").rglob("*") if path.is_file())
    expected = {str(p.relative_to(source)) for p in files if "__pycache__" not in p.parts}
    assert {"fedsift/py.typed", "fedsift/report/template.html"} <= expected
    assert {name for name in inside if name.startswith("fedsift/")} == expected


def test_the_wheel_has_licence_and_entry_point(wheel):
    archive = zipfile.ZipFile(wheel)
    about = f"{wheel.name.split('-py3')[0]}.dist-info"
    assert archive.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    points = archive.read(f"{about}/entry_points.txt").decode().split("\n")
    assert points[:2] == ["[console_scripts]", "fedsift = fedsift.cli.main:main"]


def test_the_package_comes_from_the_wheel(installed):
    where = Path(installed.run("python", "-c", "import fedsift; print(fedsift.__file__)").strip())
    assert where.is_relative_to(installed.python.parents[1])


def test_the_program_knows_its_version_and_data(installed, wheel):
    assert installed.run("fedsift", "--version") == f"fedsift {wheel.name.split('-')[1]}\n"
    assert "digits" in installed.run("fedsift", "data", "list")


def test_a_run_and_its_report(installed):
    installed.run("fedsift", "run", "--set", "rounds=2", "--set", "clients=2", "--out", "run")
    installed.run("fedsift", "report", "run", "--out", "page.html")
    assert len((installed.folder / "run" / "rounds.jsonl").read_text().splitlines()) == 2
    assert "<svg" in (installed.folder / "page.html").read_text(encoding="utf-8")


def test_the_review_page_finds_its_files(installed):
    code = (
        "from importlib.resources import files\n"
        "from fedsift.audit.review.app import STATIC\n"
        "page = files('fedsift.audit.review')\n"
        "names = ['templates/review.html', *(f'static/{name}' for name in STATIC)]\n"
        "print(all(page.joinpath(name).read_bytes() for name in names))"
    )
    assert installed.run("python", "-c", code) == "True\n"
