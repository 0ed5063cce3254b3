"""Exchanges, steps and events.

An exchange is one request until its reply; a step is one message as the conversation sees it; an
event is what an endpoint returns for a message it receives.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from accord.errors import InvalidParams, RemoteProtocolError, RequestError, lower_first
from accord.protocol.json_text import count_values
from accord.protocol.jsonrpc import ErrorBody, Kind
from accord.protocol.revisions import Method, Revision
from accord.protocol.violation import Party, Violation
from accord.types._base import JsonObject, ProgressToken, RequestId

if TYPE_CHECKING:
    from accord.protocol.party import Peer
    from accord.protocol.unknown import UnknownMembers
    from accord.trace import Record

META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SERVER: Final = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
META_NOTICES: Final = "accord/notices"
"""Progress and log messages of a task, for which its extension has no notifications."""


class BatchReply(msgspec.Struct):
    """The answers to one batch, which leave together when nothing is waited for any more.

    Waited for are the open requests, and the end of the batch itself. `values` are those of the
    answers so far, with what separates them.
    """

    waiting: int = 1
    parts: list[bytes] = []
    size: int = 0
    values: int = 0

    def add(self, reply: bytes) -> bytes | None:
        """Take an answer; returns the whole array with the last one."""
        self.parts.append(reply)
        self.size += len(reply) + 1
        self.values += count_values(reply) + 1
        return self.release()

    def release(self) -> bytes | None:
        """Wait for one thing less; returns the whole array after the last."""
        self.waiting -= 1
        if self.waiting or not self.parts:
            return None
        return b"[%b]" % b",".join(self.parts)


class Exchange(msgspec.Struct):
    """One request until its reply.

    `peer` are the facts about the party that sent it, where that is known. `raw` are the params as
    they were received. `params` are kept by monitors, and for handlers that ask. `progress` is the
    last value reported. `duplicates` counts further requests received under the same id while this
    one was open. `batch` collects the answers of the batch it is part of. `fault` is the code of
    the error that answered it. `is_task` says that its answer is a task, which keeps its progress
    token in use. `origin` is where it was received, for transports with several streams; `state` is
    free for the driver of the endpoint, and `channel` for how its handler asks the sender.
    `unknown` are members for its result that no revision defines. `raw` of an own request are the
    members of its result as they were received.
    """

    id: RequestId
    name: str
    sender: Party
    revision: Revision
    method: Method | None
    token: ProgressToken | None = None
    peer: "Peer | None" = None
    raw: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    params: Any = None
    batch: BatchReply | None = None
    progress: float | None = None
    cancelled: bool = False
    duplicates: int = 0
    fault: int | None = None
    is_task: bool = False
    since: float | None = None
    number: int | None = None
    state: Any = None
    origin: Any = None
    channel: Any = None
    unknown: "UnknownMembers | None" = None

    @property
    def meta(self) -> JsonObject:
        """All of the `_meta` that it was received with; empty without one.

        Raises:
            InvalidParams: a value in it that the protocol does not know cannot be read.
        """
        if self.raw is msgspec.UNSET:
            return {}
        try:
            return _decode_meta(self.raw).meta or {}
        except ValueError as error:
            raise InvalidParams(f"{self.name}: {lower_first(error)}") from None

    @property
    def is_lasting(self) -> bool:
        """Whether this request stays open by design."""
        return self.name == "subscriptions/listen"


class _Params(msgspec.Struct):
    meta: JsonObject | None = msgspec.field(name="_meta", default=None)


_decode_meta: Final = msgspec.json.Decoder(_Params).decode


class Step(msgspec.Struct, gc=False):
    """One message on its way.

    `name` is the method; of a reply, the method it answers, or empty where no request is known.
    `body` holds the params or the result: a message type at an endpoint, plain JSON in a monitor.
    `exchange` is the request itself, the one that is answered, or the one that a notification is
    about. `record` has the facts of the transport, in monitors. `parts` are the objects inside the
    body, once a rule asked for them.
    """

    sender: Party
    kind: Kind
    name: str
    revision: Revision
    id: RequestId | None = None
    body: Any = None
    error: ErrorBody | None = None
    exchange: Exchange | None = None
    record: "Record | None" = None
    in_batch: bool = False
    parts: Any = None


def step_of(
    sender: Party, kind: Kind, exchange: Exchange, body: object, error: ErrorBody | None = None
) -> Step:
    """Describe a request, or the reply to it, where its exchange is at hand."""
    return Step(sender, kind, exchange.name, exchange.revision, exchange.id, body, error, exchange)


def member(body: object, name: str) -> Any:
    """Read a member by its wire name from plain JSON or a message type; None if absent."""
    if isinstance(body, dict):
        return body.get(name)
    return getattr(body, _attribute(name), None)


@cache
def _attribute(name: str) -> str:
    if name == "_meta":
        return "meta"
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def meta_of(body: object) -> JsonObject:
    """Return the `_meta` of params or of a result; empty without one."""
    meta = body.get("_meta") if isinstance(body, dict) else getattr(body, "meta", None)
    return meta if isinstance(meta, dict) else {}


class RequestReceived(msgspec.Struct, gc=False):
    """The peer sends a request; the answer goes to `respond` or `fail`."""

    exchange: Exchange
    params: Any
    violations: Sequence[Violation] = ()


class NotificationReceived(msgspec.Struct):
    """The peer reports something; `exchange` is the request it is about, if it is about one.

    `reply` is what to send now: the answers to a batch that waited for nothing but the request that
    is cancelled here.
    """

    name: str
    params: Any
    exchange: Exchange | None = None
    violations: Sequence[Violation] = ()
    reply: bytes | None = None


class ResultReceived(msgspec.Struct, gc=False):
    """The peer has answered our request."""

    exchange: Exchange
    result: Any
    violations: Sequence[Violation] = ()


class FaultReceived(msgspec.Struct):
    """Our request failed: by an error of the peer, or by a reply that breaks the protocol.

    Without an `exchange`, the peer could not read what we sent.
    """

    exchange: Exchange | None
    error: RequestError | RemoteProtocolError


class Refused(msgspec.Struct):
    """A message that has no effect; `reply` is what to send back, None where nothing is.

    `is_ignored` says that it is not wrong to send it: it is late, or means nothing to us.
    """

    why: str
    reply: bytes | None = None
    violations: Sequence[Violation] = ()
    is_ignored: bool = False


Event: TypeAlias = RequestReceived | NotificationReceived | ResultReceived | FaultReceived | Refused


def look_up(exchanges: dict[RequestId, Exchange], key: object) -> Exchange | None:
    """Return the exchange that a message names by its id or token, whatever type that has."""
    # Only strings and integers are ids; true would find what 1 names.
    is_id = isinstance(key, int | str) and not isinstance(key, bool)
    return exchanges.get(key) if is_id else None  # type: ignore[call-overload]


def if_lasting(exchange: Exchange | None) -> Exchange | None:
    """Return an exchange if it is a subscription: the server names these, too."""
    return exchange if exchange is not None and exchange.is_lasting else None


def answered_method(exchange: Exchange | None, body: object) -> str:
    """Return the method that a reply answers; empty where that is unknown.

    Of two requests under one id (jsonrpc.request.id-unique) either may be meant, and the server is
    not to blame for it. Only the answer to initialize shows which request it answers.
    """
    if exchange is None:
        return ""
    is_known = exchange.name == "initialize" and member(body, "protocolVersion") is not None
    return "" if exchange.duplicates and not is_known else exchange.name
