"""Between Flower's node and the site's process: takes a message, asks the site, hands back.

The file needs only the standard library and flwr, so that no torch is loaded. It works in two ways:

- run as a program (``python relay.py ADDRESS SECRET_FILE``) it is the node's executor: it takes the
  node's tasks over Flower's Runtime API, one after the other, in one process that stays. Flower's
  own executor starts a new Python process per message and runs the code that came with the run;
  this one runs nothing but itself, whatever the server sends.
- as ``app`` it is a client app for Flower's own executor: the file travels in the run's bundle.

It holds no data and no state. Where no site listens, it starts one as ``site.json`` says.

| environment | is |
|---|---|
| `FEDSIFT_SITE` | the site's folder: `site.sock`, `site.json`, `site.log` |
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from multiprocessing.connection import Client, Connection
from pathlib import Path

import httpx
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode, SubStatus
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.interceptors import (
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supernode.runtime.run_clientapp import pull_task_input, push_message, push_task_output

RECORD = "fedsift"
START = 600.0  # seconds for a site to load its data
POLL = 0.1
ACQUIRE = "/flwr.proto.Runtime/AcquireTask"

app = ClientApp()
_started: list[subprocess.Popen[bytes]] = []  # sites outlive this process; nobody waits for them


@app.query()
def relay(message: Message, context: Context) -> Message:  # noqa: ARG001
    """Pass the question on."""
    record = message.content.config_records[RECORD]
    parts = {str(name): data for name, data in record.items() if isinstance(data, bytes)}
    answer = ask_site(Path(os.environ["FEDSIFT_SITE"]), parts)
    return Message(RecordDict({RECORD: ConfigRecord(dict(answer))}), reply_to=message)


def main(address: str, secret: Path) -> None:
    """Take the node's tasks until ended."""
    sign = SuperExecAuthHttpInterceptor(
        master_secret=secret.read_bytes(), protected_methods={ACQUIRE}
    )
    client = _client(address, sign)
    request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
    while True:
        try:
            found = client.AcquireTask(request)
        except httpx.TransportError:  # the node is not up yet, or is being started again
            time.sleep(1)
            continue
        if found.HasField("task") and found.token:
            _do(address, found.token)
        time.sleep(POLL)


def _do(address: str, token: str) -> None:
    """Answer one message; a failure is an answer too."""
    client = _client(address, RuntimeTokenHttpInterceptor(token))
    beats = HeartbeatSender(lambda: _beat(client))
    try:
        beats.start()
        message, context, _, _ = pull_task_input(client)
        status, details = SubStatus.COMPLETED, ""
        try:
            reply = relay(message, context)
        except Exception as error:
            status, details = SubStatus.FAILED, f"{type(error).__name__}: {error}"
            code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
            reply = Message(Error(code, details), reply_to=message)
        push_message(client, reply, context)
        push_task_output(client, context, status, details)
    except Exception as error:
        print(f"a task was lost: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        beats.stop()
        client.close()


def _beat(client: RuntimeHttpClient) -> bool:
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.TransportError:
        return False
    except httpx.HTTPError:
        return True  # the node has given the task up; what comes of it shows when it is answered
    return True


def _client(address: str, interceptor: ProtobufClientInterceptor) -> RuntimeHttpClient:
    version = RuntimeVersionHttpInterceptor(component_name="SuperExec")
    return RuntimeHttpClient.from_server_address(address, True, None, [version, interceptor])


def ask_site(folder: Path, parts: dict[str, bytes]) -> dict[str, bytes]:
    """Ask the site of a folder, once more if it ended before it could answer."""
    for last in (False, True):
        try:
            with connect(folder) as connection:
                sizes = [[name, len(data)] for name, data in parts.items()]
                connection.send_bytes(json.dumps(sizes).encode())
                for data in parts.values():
                    connection.send_bytes(data)
                names = [str(name) for name, _ in json.loads(connection.recv_bytes())]
                return {name: connection.recv_bytes() for name in names}
        except (EOFError, ConnectionError):
            if last:
                raise
    raise AssertionError


def connect(folder: Path) -> Connection:
    """Return a connection to the site, which is started if it does not listen."""
    end, process = time.monotonic() + START, None
    while True:
        try:
            return Client(str(folder / "site.sock"), family="AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            if process is None:
                process = start(folder)
            if process.poll() not in {None, 0} or time.monotonic() > end:
                raise RuntimeError(f"the site did not start; see {folder / 'site.log'}") from None
            time.sleep(0.05)


def start(folder: Path) -> subprocess.Popen[bytes]:
    """Start the site; where another caller was faster, the second one ends by itself."""
    how = json.loads((folder / "site.json").read_text(encoding="utf-8"))
    with (folder / "site.log").open("ab") as log:
        process = subprocess.Popen(
            how["command"],
            cwd=how["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it outlives this process
        )
    _started[:] = [*(p for p in _started if p.poll() is None), process]
    return process


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
