"""Tasks through a real Label Studio: import, annotate, export, train on it.

Runs where FEDSIFT_LABEL_STUDIO names the program `label-studio` (pip install label-studio, in an
environment of its own).
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from fedsift.audit import write_issues
from fedsift.data.corrected import correct_samples, read_corrections
from fedsift.data.samples import Samples

PROGRAM = os.environ.get("FEDSIFT_LABEL_STUDIO", "")
pytestmark = [
    pytest.mark.deep,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PROGRAM, reason="FEDSIFT_LABEL_STUDIO names no label-studio"),
]
START = 300.0


class Project:
    """A project of a Label Studio server on loopback."""

    def __init__(self, port: int, token: str) -> None:
        self.origin, self.token = f"http://127.0.0.1:{port}", token

    def ask(self, path, body=None, method=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(self.origin + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.read()

    def wait(self):
        end = time.monotonic() + START
        while time.monotonic() < end:
            try:
                return self.ask("/api/projects")
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(1)
        raise TimeoutError("Label Studio does not answer")


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token, folder = secrets.token_hex(20), tmp_path_factory.mktemp("label-studio")
    env = {**os.environ, "LABEL_STUDIO_BASE_DATA_DIR": str(folder), "COLLECT_ANALYTICS": "0"}
    env |= {
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    command = [PROGRAM, "start", "--internal-host", "127.0.0.1", "--port", str(port), "-b"]
    command += ["--username", "ana@example.org", "--password", secrets.token_hex(8)]
    command += ["--user-token", token, "--log-level", "ERROR"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True)
        try:
            project = Project(port, token)
            project.wait()
            yield project
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


@pytest.mark.parametrize("form", ["JSON", "JSON_MIN"])
def test_there_and_back(studio, images, tmp_path, form):
    tasks, config = write_issues(images, tmp_path / "tasks.json", "label-studio")
    made = json.loads(
        studio.ask("/api/projects", {"title": form, "label_config": config.read_text()})
    )
    number = made["id"]
    studio.ask(f"/api/projects/{number}/import", json.loads(tasks.read_text()))
    listed = json.loads(
        studio.ask(f"/api/projects/{number}/export?exportType=JSON&download_all_tasks=true")
    )
    assert [t["data"]["sample_id"] for t in listed] == [
        t["data"]["sample_id"] for t in json.loads(tasks.read_text())
    ]
    assert all(t["predictions"] for t in listed)
    choice = {"from_name": "label", "to_name": "sample", "type": "choices", "id": "a"}
    out = {**choice, "from_name": "unusable", "value": {"choices": ["unusable"]}}
    note = {"from_name": "comment", "to_name": "sample", "type": "textarea", "id": "b"}
    emu = [{**choice, "value": {"choices": ["emu"]}}, {**note, "value": {"text": ["a bird"]}}]
    for task, result in zip(listed[:2], (emu, [out]), strict=True):
        studio.ask(f"/api/tasks/{task['id']}/annotations/", {"result": result, "lead_time": 1.0})
    exported = tmp_path / "export.json"
    exported.write_bytes(studio.ask(f"/api/projects/{number}/export?exportType={form}"))
    given = tuple(images.class_names[n] for n in images.record.labels)
    samples = Samples("here", images.content, given, images.record.ids)
    back = correct_samples(samples, "north", exported)
    changed, gone = (t["data"]["index"] for t in listed[:2])
    expected = ["emu" if n == changed else name for n, name in enumerate(given)]
    assert back.labels == tuple(name for n, name in enumerate(expected) if n != gone)
    assert read_corrections(exported)["comment"].tolist() == ["a bird", ""]
