"""All that fedsift uses of Flower beyond its public modules, and the versions it was tested with.

    Session       a node's side: join, receive, pull, reply, leave (Flower's Fleet API)
    ServerReplies the server app's side: replies as they come (Runtime API)
    Control       register, remove and list nodes (Control API)

Flower has no public client of these, so the imports below may change with any release; hence
``TESTED``, the minor versions with which a deployment gave the bits of one process and refused what
it must refuse (``tests/flower``). 1.41.0 is what ``constraints.txt`` installs; 1.42.0 was put over
its dependencies, because it asks for a newer certifi (``tests/flower/test_versions.py``).

Flower's own ``http_request_response`` is not used: it ends the process when it is refused, retries
without end, and fixes the heartbeat at 30 s, so that a lost node is held for a minute.
"""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self

from fedsift.errors import InputError, RunError

TESTED = ("1.41", "1.42")


def check_version(installed: str) -> None:
    """Refuse a Flower that fedsift was not tested with."""
    if ".".join(installed.split(".")[:2]) not in TESTED:
        raise InputError(
            f"Flower {installed} is installed but fedsift was tested with {', '.join(TESTED)} "
            "only; run pip install 'fedsift[flower]'"
        )


check_version(version("flwr"))  # before the imports, which another version may not have

import httpx  # noqa: E402
from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric import ec  # noqa: E402
from flwr.app import ConfigRecord, Error, Message, RecordDict  # noqa: E402
from flwr.app.message import remove_content_from_message  # noqa: E402
from flwr.common.constant import ErrorCode  # noqa: E402
from flwr.common.serde import message_from_proto, message_to_proto  # noqa: E402
from flwr.proto import control_pb2, fleet_pb2, heartbeat_pb2, message_pb2  # noqa: E402
from flwr.proto.node_pb2 import Node, NodeInfo  # noqa: E402
from flwr.proto.runtime_pb2 import PullAppMessagesRequest  # noqa: E402
from flwr.serverapp import Grid  # noqa: E402
from flwr.supercore.control import ControlHttpClient  # noqa: E402
from flwr.supercore.inflatable.inflatable_object import (  # noqa: E402
    get_all_nested_objects,
    get_object_tree,
    iterate_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents  # noqa: E402
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor  # noqa: E402
from flwr.supercore.primitives.asymmetric import public_key_to_bytes  # noqa: E402
from flwr.supernode.fleet_http_client import FleetHttpClient  # noqa: E402
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor  # noqa: E402

HEARTBEAT = 15.0  # seconds; the server holds a lost node for twice as long
AT_ONCE = 4  # objects of a message that are pulled or pushed at once
LARGEST = 2**31  # bytes of a message; a larger one is refused
RECORD = "fedsift"  # the record of a message that holds its parts


class Away(Exception):  # noqa: N818 - reads as a fact
    """The server does not answer, or cannot at the moment."""


class RunOver(Exception):  # noqa: N818
    """The run of a message has ended."""


class Refused(InputError):  # noqa: N818
    """The server does not accept the node; ``code`` is HTTP's."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@contextmanager
def _spoken() -> Iterator[None]:
    """Turn errors of the connection into ours."""
    try:
        yield
    except httpx.HTTPStatusError as error:
        code = error.response.status_code
        if code == httpx.codes.FORBIDDEN:
            raise RunOver from None
        if code in {401, 412}:
            raise Refused(f"the server refused ({error.response.text[:200]})", code) from None
        raise Away(f"it answered {code}") from None
    except httpx.HTTPError as error:
        if "certificate" in str(error).lower():
            raise InputError(str(error)) from None
        raise Away(str(error) or type(error).__name__) from None


@dataclass(eq=False)
class Incoming:
    """A message that was announced: its head, the objects it has, and those that have arrived."""

    head: Message
    ids: list[str]
    contents: dict[str, bytes] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)
    tries: int = 0

    @property
    def run(self) -> int:
        """Flower's number of the run."""
        return int(self.head.metadata.run_id)

    @property
    def expired(self) -> bool:
        """True if no reply is wanted any more."""
        return time.monotonic() - self.since > self.head.metadata.ttl

    def pull(self, get: Callable[[str], Any], pool: ThreadPoolExecutor) -> bool:
        """Get the objects that are missing; return True if none is left."""
        missing = [id_ for id_ in self.ids if id_ not in self.contents]
        for id_, found in zip(missing, pool.map(get, missing), strict=True):
            if not found.object_found:
                raise RunOver
            if found.object_available:
                self.contents[id_] = found.object_content
        if sum(map(len, self.contents.values())) > LARGEST:
            raise RunError(f"a message has more than {LARGEST} bytes")
        return len(self.contents) == len(self.ids)

    def message(self) -> Message:
        """Return the message, once all of it is there."""
        id_ = self.head.metadata.message_id
        message: Any = inflate_object_from_contents(id_, dict(self.contents))
        message.metadata.__dict__["_message_id"] = id_
        assert isinstance(message, Message)
        return message


def parts_of(message: Message) -> dict[str, bytes] | None:
    """Return the parts that a message holds; None if it is not one of ours."""
    record = message.content.config_records.get(RECORD)
    if record is None:
        return None
    return {str(name): data for name, data in record.items() if isinstance(data, bytes)}


class Session:
    """A node's connection: ``address`` is host:port, ``ca`` a file, ``key`` the site's own."""

    def __init__(
        self,
        address: str,
        ca: Path | None,
        key: ec.EllipticCurvePrivateKey,
        register: bool = False,
    ) -> None:
        self._public, self._register = public_key_to_bytes(key.public_key()), register
        named = RuntimeVersionHttpInterceptor(component_name="SuperNode")
        sign = NodeAuthHttpInterceptor(key, key.public_key())
        with _trusted(ca):
            self._client = FleetHttpClient.from_server_address(
                address, ca is None, None if ca is None else ca.read_bytes(), [named, sign]
            )
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._node, self._stop, self._lost = Node(), threading.Event(), threading.Event()
        self._beats: threading.Thread | None = None

    def join(self, before: int | None) -> int:
        """Begin a session and return the node's id; ``before`` is that of a session to replace."""
        with _spoken():
            if before is not None:
                request = fleet_pb2.DeactivateNodeRequest(node_id=before)
                with suppress(httpx.HTTPStatusError):  # it has lapsed, or was another server's
                    self._client.DeactivateNode(request)
            if self._register:  # without TLS: whoever asks is let in
                with suppress(httpx.HTTPStatusError):  # it is registered
                    asked = fleet_pb2.RegisterNodeFleetRequest(public_key=self._public)
                    self._client.RegisterNode(asked)
            found = self._client.ActivateNode(
                fleet_pb2.ActivateNodeRequest(public_key=self._public, heartbeat_interval=HEARTBEAT)
            )
        self._node = Node(node_id=found.node_id)
        self._lost.clear()
        if self._beats is None:
            self._beats = threading.Thread(target=self._beat, daemon=True)
            self._beats.start()
        return int(found.node_id)

    def receive(self) -> Incoming | None:
        """Return the next message's announcement; None if there is none."""
        if self._lost.is_set():
            raise Away("the server no longer knows the session")
        with _spoken():
            found = self._client.PullMessages(fleet_pb2.PullMessagesRequest(node=self._node))
        if not found.messages_list:
            return None
        ids = [tree.object_id for tree in iterate_object_tree(found.message_object_trees[0])]
        return Incoming(message_from_proto(found.messages_list[0]), list(dict.fromkeys(ids)))

    def pull(self, incoming: Incoming) -> bool:
        """Get what is missing of a message; return True if it is whole."""

        def get(id_: str) -> Any:
            wanted = message_pb2.PullObjectRequest(
                node=self._node, run_id=incoming.run, object_id=id_
            )
            return self._client.PullObject(wanted)

        with _spoken():
            return incoming.pull(get, self._pool)

    def reply(self, incoming: Incoming, parts: dict[str, bytes] | str, seconds: float) -> None:
        """Send the reply to a message, or the sentence on why there is none."""
        if isinstance(parts, str):
            content: Any = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, parts)
        else:
            content = RecordDict({RECORD: ConfigRecord(dict(parts))})
        reply = Message(content, reply_to=incoming.message())
        with _spoken(), no_object_id_recompute():
            reply.metadata.__dict__["_message_id"] = reply.object_id
            objects, tree = get_all_nested_objects(reply), get_object_tree(reply)
            bare = remove_content_from_message(reply) if reply.has_content() else reply
            sent = self._client.PushMessages(
                fleet_pb2.PushMessagesRequest(
                    node=self._node,
                    messages_list=[message_to_proto(bare)],
                    message_object_trees=[tree],
                    clientapp_runtime_list=[seconds],
                )
            )

            def put(id_: str) -> None:
                self._client.PushObject(
                    message_pb2.PushObjectRequest(
                        node=self._node,
                        run_id=incoming.run,
                        object_id=id_,
                        object_content=objects[id_].deflate(),
                        session_id=sent.session_id,
                    )
                )

            list(self._pool.map(put, set(sent.objects_to_push) & set(objects)))
            self._client.ConfirmMessageReceived(
                message_pb2.ConfirmMessageReceivedRequest(
                    node=self._node,
                    run_id=incoming.run,
                    message_object_id=incoming.head.metadata.message_id,
                )
            )

    def leave(self) -> None:
        """End the session; the server knows at once."""
        self._stop.set()
        if self._node.node_id:
            with suppress(httpx.HTTPError, RuntimeError):
                asked = fleet_pb2.DeactivateNodeRequest(node_id=self._node.node_id)
                self._client.DeactivateNode(asked)
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._client.close()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT / 3):
            beat = heartbeat_pb2.SendNodeHeartbeatRequest(
                node=self._node, heartbeat_interval=HEARTBEAT
            )
            with suppress(httpx.HTTPError, RuntimeError, ValueError):
                if not self._client.SendNodeHeartbeat(beat).success:
                    self._lost.set()


class ServerReplies:
    """Replies to a server app, pulled as they come; one that is still uploaded holds up no other.

    The Grid's own ``pull_messages`` waits for such a reply, a second at first and then longer.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid: Any = grid
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._coming: dict[str, Incoming] = {}  # by the message that it replies to

    def pull(self, ids: list[str]) -> list[Message]:
        """Return the replies to these messages that have come."""
        client, node = self._grid._runtime_client, self._grid.node
        wanted = [id_ for id_ in ids if id_ not in self._coming]
        if wanted:
            found = client.PullMessages(PullAppMessagesRequest(message_ids=wanted))
            for head, tree in zip(found.messages_list, found.message_object_trees, strict=True):
                objects = dict.fromkeys(t.object_id for t in iterate_object_tree(tree))
                incoming = Incoming(message_from_proto(head), list(objects))
                self._coming[incoming.head.metadata.reply_to_message_id] = incoming
        ready = []
        for asked in [id_ for id_ in ids if id_ in self._coming]:
            incoming = self._coming[asked]

            def get(id_: str, run: int = incoming.run) -> Any:
                request = message_pb2.PullObjectRequest(node=node, run_id=run, object_id=id_)
                return client.PullObject(request)

            try:
                whole = incoming.pull(get, self._pool)
            except RunOver:  # its upload was given up: the node sends it again when it is back
                del self._coming[asked]
                continue
            if whole:
                del self._coming[asked]
                ready.append(incoming.message())
                client.ConfirmMessageReceived(
                    message_pb2.ConfirmMessageReceivedRequest(
                        node=node,
                        run_id=incoming.run,
                        message_object_id=incoming.head.metadata.message_id,
                    )
                )
        return ready


class Control:
    """The server's register of nodes; for whoever runs the server."""

    def __init__(self, address: str, ca: Path | None) -> None:
        named = RuntimeVersionHttpInterceptor(component_name="CLI")
        with _trusted(ca):
            self._client = ControlHttpClient.from_server_address(
                address, ca is None, None if ca is None else ca.read_bytes(), [named]
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def register(self, key: bytes, name: str) -> bool:
        """Let a site's public key (OpenSSH's format) in; return False if it was already."""
        public = public_bytes(key, name)
        request = control_pb2.RegisterNodeRequest(public_key=public, name=name)
        try:
            self._client.RegisterNode(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.CONFLICT or "already" in (
                error.response.text.lower()
            ):
                return False
            raise RunError(
                f"the key of {name} was not registered: {error.response.text[:300]}"
            ) from None
        return True

    def nodes(self) -> list[NodeInfo]:
        """Return the registered nodes."""
        with _spoken():
            return list(self._client.ListNodes(control_pb2.ListNodesRequest()).nodes_info)

    def remove(self, node: int) -> None:
        """Refuse a node from now on."""
        with _spoken():
            self._client.UnregisterNode(control_pb2.UnregisterNodeRequest(node_id=node))


def reaches(address: str, ca: Path | None) -> bool:
    """Return True if a server answers there, as a node would ask: also through a proxy."""
    scheme = "http" if ca is None else "https"
    with _trusted(ca):
        verify = False if ca is None else ssl.create_default_context(cafile=str(ca))
    try:
        with _spoken():
            httpx.get(f"{scheme}://{address}/", verify=verify, timeout=10.0)
    except Away:
        return False
    except InputError as error:
        raise InputError(
            f"the certificate of {address} cannot be verified with {ca} ({error}); give the CA "
            "that signed it"
        ) from None
    return True


def public_bytes(key: bytes, name: str) -> bytes:
    """Return a public key in Flower's form; refuse what is not an EC key of OpenSSH's format."""
    try:
        found = serialization.load_ssh_public_key(key)
    except ValueError as error:
        raise InputError(f"{name} is not a public key in OpenSSH's format ({error})") from None
    if not isinstance(found, ec.EllipticCurvePublicKey):
        raise InputError(f"{name} is not an EC key; make one with `fedsift keys --site`")
    return public_key_to_bytes(found)


@contextmanager
def _trusted(ca: Path | None) -> Iterator[None]:
    """Refuse a CA file that cannot be read."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise InputError(f"{ca} is not a certificate ({error}); ask for ca.crt") from None
