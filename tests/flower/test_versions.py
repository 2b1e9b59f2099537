"""The window of Flower's versions, tested at both ends: TLS, keys, two methods, the same bits.

A version is put over the dependencies that are installed (`--no-deps`), so what it asks of them
beyond that is not tested; tests/flower then runs with it.
"""

import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from fedsift.flower.compat import TESTED

pytestmark = [pytest.mark.deep, pytest.mark.timeout(2400)]
ROOT = Path(__file__).parents[2]
TESTS = ("test_parity.py", "test_refusals.py", "test_compat.py")


@pytest.mark.fault("the oldest and the newest Flower of the window", "the bits of one process")
@pytest.mark.parametrize("minor", [TESTED[0], TESTED[-1]])
def test_a_deployment_gives_the_same_bits(tmp_path, minor):
    venv.create(tmp_path, with_pip=True)
    python = str(tmp_path / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", f"flwr=={minor}.*"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"Flower {minor} cannot be installed: {done.stderr.strip()[-300:]}")
    [own] = tmp_path.glob("lib/python*/site-packages")
    # Flower from there comes first; all else from what is installed, and from this checkout.
    (own / "zz.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n")
    shown = "import importlib.metadata as m; print(m.version('flwr'))"
    found = subprocess.run([python, "-c", shown], capture_output=True, text=True, check=True)
    assert found.stdout.startswith(f"{minor}.")
    command = [python, "-m", "pytest", "-q", *(str(ROOT / "tests" / "flower" / t) for t in TESTS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "skipped" not in done.stdout
