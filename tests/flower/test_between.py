"""What stands between a site and the server: nginx with the file of the examples, a proxy."""

import shutil
import socket
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest

from fedsift.errors import RunError
from fedsift.flower.compat import Away, Control, reaches
from fedsift.flower.deploy import free_port, listens
from fedsift.flower.programs import LOOPBACK_HOSTS, Address, environment, spare_loopback

pytestmark = pytest.mark.timeout(280)  # a server
FILE = Path(__file__).parents[2] / "examples" / "deployment" / "nginx.conf"


@pytest.fixture
def nginx(server, tmp_path):
    """Run nginx with the file of the examples before the server; return its port."""
    if shutil.which("nginx") is None:
        pytest.skip("nginx is not installed; make test installs Debian's")
    port, text = free_port(), FILE.read_text()
    for was, now in (
        ("listen 8443", f"listen 127.0.0.1:{port}"),
        ("127.0.0.1:8000", server.address),
        ("keys/", f"{server.keys}/"),
        ("http {", f"http {{\n    access_log off;\n    client_body_temp_path {tmp_path}/body;"),
    ):
        assert was in text
        text = text.replace(was, now)
    (tmp_path / "nginx.conf").write_text(f"daemon off;\npid {tmp_path}/pid;\n{text}")
    command = ["nginx", "-c", str(tmp_path / "nginx.conf"), "-e", str(tmp_path / "log")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            end = time.monotonic() + 60
            while not listens(Address("127.0.0.1", port, server.keys / "ca.crt")):
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < end
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()


def test_nginx_lets_a_site_in_and_nothing_else(server, nginx, link):
    session = link(server.keys / "sites" / "site-1", port=nginx)
    session.join(None)
    assert session.receive() is None
    with Control(f"127.0.0.1:{nginx}", server.keys / "ca.crt") as control:
        public = (server.keys / "sites" / "site-0.pub").read_bytes()
        with pytest.raises(RunError, match="403"):
            control.register(public, "site-0")


@pytest.fixture
def no_proxies(monkeypatch):
    """Take every proxy out of the environment, and every exception from one."""
    for name in ("NO_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "")  # so that it is put back after the test
        monkeypatch.setenv(name.lower(), "")
        monkeypatch.delenv(name)
        monkeypatch.delenv(name.lower())


@pytest.fixture
def proxy(monkeypatch, no_proxies):
    """Run an HTTP proxy that knows CONNECT; return its address and what it was asked for."""
    asked = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def carry(source, target):
            try:
                while data := source.recv(2**16):
                    target.sendall(data)
            except OSError:
                pass
            for end in (source, target):
                end.close()

        def serve():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                head = near.recv(2**16).decode()
                asked.append(head.split()[:2])
                host, _, port = head.split()[1].rpartition(":")
                far = socket.create_connection((host, int(port)))
                near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=carry, args=pair, daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listener.getsockname()[1]}")
        yield asked
        listener.shutdown(socket.SHUT_RDWR)


def test_a_site_goes_through_the_proxy_and_past_it(server, proxy, link, monkeypatch):
    key, wanted = server.keys / "sites" / "site-1", ["CONNECT", server.address]
    session = link(key)
    node = session.join(None)
    assert session.receive() is None
    assert reaches(server.address, server.keys / "ca.crt")
    assert proxy
    assert all(request == wanted for request in proxy)
    count = len(proxy)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert link(key).join(node) == node
    assert reaches(server.address, server.keys / "ca.crt")
    assert len(proxy) == count


def test_a_proxy_that_is_away_is_said(server, no_proxies, link, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Away):
        link(server.keys / "sites" / "site-1").join(None)


def test_programs_here_are_reached_without_the_proxy(no_proxies, monkeypatch, tmp_path):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", "intranet.example.org")
    spare_loopback()
    spare_loopback()  # again: nothing is said twice
    wanted = ",".join(["intranet.example.org", *LOOPBACK_HOSTS])
    assert environment(tmp_path)["NO_PROXY"] == environment(tmp_path)["no_proxy"] == wanted
    client = httpx.Client()
    for host in LOOPBACK_HOSTS:
        shown = f"[{host}]" if ":" in host else host
        assert client._transport_for_url(httpx.URL(f"https://{shown}:1")) is client._transport
