"""An exchange is one request until its reply; a step is one message as the conversation sees it."""

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.protocol.jsonrpc import ErrorBody, Kind
from accord.protocol.revision import Method, Revision
from accord.protocol.violation import Party
from accord.types._base import JsonObject, ProgressToken, RequestId

if TYPE_CHECKING:
    from accord.protocol.events import BatchReply
    from accord.protocol.peer import Peer
    from accord.trace import Record


META_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
META_SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"


class Exchange(msgspec.Struct):
    """One request until its reply.

    `peer` are the facts about the party that sent it, where that is known. `params` are kept by
    monitors alone. `progress` is the last value reported. `duplicates` counts further requests
    received under the same id while this one was open. `batch` collects the answers of the batch it
    is part of. `origin` is where it was received, for transports with several streams; `state` is
    free for the driver of the endpoint.
    """

    id: RequestId
    name: str
    sender: Party
    revision: Revision
    method: Method | None
    token: ProgressToken | None = None
    peer: "Peer | None" = None
    progress: float | None = None
    params: Any = None
    cancelled: bool = False
    duplicates: int = 0
    batch: "BatchReply | None" = None
    since: float | None = None
    number: int | None = None
    state: Any = None
    origin: Any = None

    @property
    def is_lasting(self) -> bool:
        """Whether this request stays open by design."""
        return self.name == "subscriptions/listen"


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
