"""All that fedsift uses of Flower beyond its public modules, and the versions it was tested with.

Flower's executor starts a new Python process per message and runs the code that came with the run.
Ours (``relay``) is one process that stays and runs only what is installed. For that it speaks the
SuperNode's Runtime API: acquire a task, pull its message, push the reply. Flower has no public
client of that API, so the imports below may change with any release; hence ``TESTED``, the minor
versions with which a deployment gave the bits of one process and refused what it must refuse
(``tests/flower``). 1.41.0 is what ``constraints.txt`` installs; 1.40.0 and 1.42.0 were put over its
dependencies (1.42 asks for a newer certifi).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from fedsift.errors import InputError

TESTED = ("1.40", "1.41", "1.42")


def check_version(installed: str) -> None:
    """Refuse a Flower that fedsift was not tested with."""
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise InputError(
            f"Flower {installed} is installed but fedsift was tested with {', '.join(TESTED)} "
            "only; run pip install 'fedsift[flower]'"
        )


check_version(version("flwr"))  # before the imports, which another version may not have

import httpx  # noqa: E402
from flwr.app import Context, Error, Message  # noqa: E402
from flwr.common.constant import ErrorCode, SubStatus  # noqa: E402
from flwr.proto.runtime_pb2 import AcquireTaskRequest, SendTaskHeartbeatRequest  # noqa: E402
from flwr.supercore.constant import TaskType  # noqa: E402
from flwr.supercore.heartbeat import HeartbeatSender  # noqa: E402
from flwr.supercore.interceptors import (  # noqa: E402
    RuntimeTokenHttpInterceptor,
    RuntimeVersionHttpInterceptor,
    SuperExecAuthHttpInterceptor,
)
from flwr.supercore.protobuf.client import ProtobufClientInterceptor  # noqa: E402
from flwr.supercore.runtime import RuntimeHttpClient  # noqa: E402
from flwr.supernode.runtime.run_clientapp import (  # noqa: E402
    pull_task_input,
    push_message,
    push_task_output,
)

ACQUIRE = "/flwr.proto.Runtime/AcquireTask"
Handler = Callable[[Message, Context], Message]


class TaskQueue:
    """The tasks of a SuperNode, for an executor that knows its secret."""

    def __init__(self, address: str, secret: Path) -> None:
        self._address = address
        sign = SuperExecAuthHttpInterceptor(
            master_secret=secret.read_bytes(), protected_methods={ACQUIRE}
        )
        self._client = _client(address, sign)

    def acquire(self) -> str | None:
        """Return the token of the next task; None if there is none.

        Raises ``ConnectionError`` where the SuperNode does not listen.
        """
        request = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP])
        try:
            found = self._client.AcquireTask(request)
        except httpx.TransportError as error:
            raise ConnectionError(str(error)) from None
        return found.token if found.HasField("task") and found.token else None

    def process(self, token: str, handle: Handler) -> None:
        """Reply to the message of a task; a failure is a reply too."""
        client = _client(self._address, RuntimeTokenHttpInterceptor(token))
        heartbeat = HeartbeatSender(lambda: _beat(client))
        try:
            heartbeat.start()
            message, context, _, _ = pull_task_input(client)
            status, details = SubStatus.COMPLETED, ""
            try:
                reply = handle(message, context)
            except Exception as error:
                status, details = SubStatus.FAILED, f"{type(error).__name__}: {error}"
                code = ErrorCode.CLIENT_APP_RAISED_EXCEPTION
                reply = Message(Error(code, details), reply_to=message)
            push_message(client, reply, context)
            push_task_output(client, context, status, details)
        except Exception as error:
            print(f"a task was lost: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            heartbeat.stop()
            client.close()


def _beat(client: RuntimeHttpClient) -> bool:
    """Return False if the SuperNode could not be reached."""
    try:
        client.SendTaskHeartbeat(SendTaskHeartbeatRequest())
    except httpx.TransportError:
        return False
    except httpx.HTTPError:
        return True  # it gave the task up, which shows when the reply is pushed
    return True


def _client(address: str, interceptor: ProtobufClientInterceptor) -> RuntimeHttpClient:
    named = RuntimeVersionHttpInterceptor(component_name="SuperExec")
    return RuntimeHttpClient.from_server_address(address, True, None, [named, interceptor])
