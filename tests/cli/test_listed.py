"""What the help lists, and that it comes without torch."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "docs" / "dev" / "make_listed.py"))


def test_the_lists_are_those_of_the_tables():
    found = SCRIPT["TARGET"].read_text(encoding="utf-8")
    assert found == SCRIPT["written"](), "run python docs/dev/make_listed.py"


def test_help_of_every_command_needs_no_torch():
    code = (
        "import sys\n"
        "from fedsift.cli.main import COMMANDS, parser\n"
        "chosen = parser()._subparsers._group_actions[0].choices\n"
        "assert chosen.keys() == COMMANDS.keys()\n"
        "for command in chosen.values():\n"
        "    command.format_help()\n"
        "heavy = {'torch', 'pandas', 'sklearn', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
