"""Two endpoints that talk to each other without a wire."""

from typing import Any, NamedTuple

import msgspec

from accord import types as t
from accord.protocol.codec import Limits
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Event, Exchange, RequestReceived
from accord.protocol.revisions import REVISIONS

HANDSHAKE = [row.id for row in REVISIONS.values() if row.handshake]
STATELESS = [row.id for row in REVISIONS.values() if not row.handshake]

INFO = t.Implementation("someone", "1")
ALL_OF_CLIENT = t.ClientCapabilities(
    roots=t.RootsCapability(list_changed=True),
    sampling=t.SamplingCapability(),
    elicitation=t.ElicitationCapability(),
)
ALL_OF_SERVER = t.ServerCapabilities(
    tools=t.ToolsCapability(list_changed=True),
    resources=t.ResourcesCapability(subscribe=True, list_changed=True),
    prompts=t.PromptsCapability(list_changed=True),
    completions={},
    logging={},
)
NOTHING_OF_CLIENT = t.ClientCapabilities()
NOTHING_OF_SERVER = t.ServerCapabilities()

META = "io.modelcontextprotocol/"
MODERN = {
    f"{META}protocolVersion": STATELESS[-1],
    f"{META}clientCapabilities": {},
    f"{META}clientInfo": {"name": "someone", "version": "1"},
}


class Pair(NamedTuple):
    client: Endpoint
    server: Endpoint


def only(events: Any) -> Any:
    """The one event there is."""
    (event,) = events
    return event


def plain(data: bytes | None) -> Any:
    """What bytes say."""
    assert data is not None
    return msgspec.json.decode(data)


def error_of(event: Event) -> tuple[Any, int]:
    """The id and the code of the error that an event asks to send back."""
    reply = plain(event.reply)  # type: ignore[union-attr]
    assert reply["jsonrpc"] == "2.0"
    assert reply["error"]["message"]
    return reply["id"], reply["error"]["code"]


def initialize(revision: str, capabilities: Any = ALL_OF_CLIENT) -> t.InitializeParams:
    return t.InitializeParams(revision, capabilities, INFO)


def initialized(revision: str, capabilities: Any = ALL_OF_SERVER) -> t.InitializeResult:
    return t.InitializeResult(revision, capabilities, INFO)


def opened(
    revision: str,
    *,
    client: Any = ALL_OF_CLIENT,
    server: Any = ALL_OF_SERVER,
    enforce: bool = True,
    limits: Limits | None = None,
) -> Pair:
    """A client and a server that have agreed on a revision."""
    pair = Pair(
        Endpoint("client", enforce=enforce, limits=limits),
        Endpoint("server", enforce=enforce, limits=limits),
    )
    _, data = pair.client.request("initialize", initialize(revision, client))
    event = only(pair.server.receive(data))
    answer = pair.server.respond(event.exchange, initialized(revision, server))
    assert answer is not None
    pair.client.receive(answer)
    pair.server.receive(pair.client.notify("notifications/initialized"))
    return pair


def asked(asker: Endpoint, answerer: Endpoint, name: str, params: Any = None) -> Exchange:
    """A request that has arrived; returns the exchange as the answerer sees it."""
    _, data = asker.request(name, params)
    event = only(answerer.receive(data))
    assert isinstance(event, RequestReceived), event
    return event.exchange


def request(id: Any, method: str, params: Any = None) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method}
    return msgspec.json.encode(message if params is None else {**message, "params": params})


def notification(method: str, params: Any = None) -> bytes:
    message = {"jsonrpc": "2.0", "method": f"notifications/{method}"}
    return msgspec.json.encode(message if params is None else {**message, "params": params})


def result(id: Any, body: Any) -> bytes:
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "result": body})


def error(id: Any, code: int = -32603) -> bytes:
    body = {"code": code, "message": "failed"}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": id, "error": body})


def batch(*messages: bytes) -> bytes:
    return b"[%b]" % b",".join(messages)
