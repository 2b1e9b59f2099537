"""Bytes from elsewhere, guided by coverage (atheris): only errors of our own come out.

Every target runs for a bounded time; how many inputs that were is recorded (`--record`).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SECONDS = int(os.environ.get("FEDSIFT_FUZZ_SECONDS", "300"))
pytestmark = [pytest.mark.deep, pytest.mark.timeout(SECONDS + 900)]


@pytest.mark.fault(
    "inputs guided by coverage, to the decoder, a configuration, a table, a request "
    "to a site, the review page",
    "a reply or one sentence",
)
@pytest.mark.parametrize("target", ["wires", "config", "table", "request", "review"])
def test_nothing_foreign_comes_out(tmp_path, record_property, target):
    pytest.importorskip("atheris", reason="pip install 'fedsift[fuzz]'")
    limits = [f"-max_total_time={SECONDS}", "-max_len=4096", "-rss_limit_mb=4096", "-seed=1"]
    limits += [f"-artifact_prefix={tmp_path}/", "-print_final_stats=1", "-timeout=60"]
    command = [sys.executable, str(HERE / "fuzz_targets.py"), target, str(tmp_path / "corpus")]
    done = subprocess.run(
        [*command, *limits],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])},
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    inputs = int(re.search(r"number_of_executed_units: (\d+)", done.stderr)[1])
    record_property("trials", inputs)
    record_property("inputs_target", target)
    assert inputs
