"""systemd units, Docker and nginx files: what they start is what the command line takes."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from fedsift.cli.main import parser
from fedsift.flower.keys import make_keys

FILES = Path(__file__).parents[2] / "examples" / "deployment"


@pytest.mark.parametrize("name", ["server", "join"])
def test_a_unit_starts_a_command_that_exists(name):
    unit = configparser.ConfigParser()
    unit.optionxform = str
    unit.read(FILES / f"fedsift-{name}.service")
    program, *words = shlex.split(unit["Service"]["ExecStart"])
    assert Path(program).name == "fedsift"
    assert words[:2] == [name, "--config"]
    options = parser([name]).parse_args([*words[:2], str(FILES / Path(words[2]).name), *words[3:]])
    assert options.command == name
    assert options.folder.is_relative_to(unit["Service"]["ReadWritePaths"])
    assert unit["Service"]["Restart"] == "always"
    assert unit["Service"]["UMask"] == "0077"


def test_compose_starts_commands_that_exist():
    yaml = pytest.importorskip("yaml")
    services = yaml.safe_load((FILES / "compose.yaml").read_text())["services"]
    assert list(services) == ["server", "site-0", "site-1"]
    for service in services.values():
        words = shlex.split(service["command"])
        assert parser(words[:1]).parse_args(words).command == words[0]


def test_the_dockerfile_copies_what_exists():
    text = (FILES / "Dockerfile").read_text()
    root = FILES.parents[1]
    for line in re.findall(r"^COPY (.+) \S+$", text, re.MULTILINE):
        assert all((root / name).exists() for name in line.split())
    assert 'ENTRYPOINT ["fedsift"]' in text


def test_nginx_lets_only_sites_through():
    text = (FILES / "nginx.conf").read_text()
    assert re.findall(r"location (\S+) ", text) == ["/v1/fleet/", "/"]
    assert "location / { return 403; }" in text


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_accepts_the_file(tmp_path):
    make_keys(tmp_path / "keys", [])
    text = (FILES / "nginx.conf").read_text().replace("keys/", f"{tmp_path}/keys/")
    (tmp_path / "nginx.conf").write_text(f"pid {tmp_path}/pid;\n{text}")
    command = ["nginx", "-t", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
