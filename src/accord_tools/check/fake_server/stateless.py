"""Requests that stand on their own, as a fake server reads and answers them.

Revisions without a handshake have no sessions: each request names its revision and what the client
can do in its `_meta`, and each result says of which type it is and how long it may be kept.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from accord.errors import InvalidParams, MethodNotFound, RequestError, UnsupportedRevision
from accord.protocol.exchange import (
    META_CAPABILITIES,
    META_SERVER,
    META_SUBSCRIPTION,
    META_VERSION,
    meta_of,
)
from accord.protocol.revisions import REVISIONS, Revision
from accord.types import JsonObject
from accord_tools.check.probing.messages import params_of

STATELESS: Final[Revision] = [row for row in REVISIONS.values() if not row.handshake][-1]
"""The newest revision without a handshake."""

SERVER_INFO: Final = {"name": "accord-check", "version": "1"}
TASKS: Final = "io.modelcontextprotocol/tasks"
LISTEN: Final = "subscriptions/listen"
ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""The methods whose results say how long they may be kept."""

_NOT_KEPT: Final[Mapping[str, object]] = {"ttlMs": 0, "cacheScope": "private"}
_OF_CHANGES: Final[Mapping[str, tuple[str, str]]] = {
    "toolsListChanged": ("tools", "listChanged"),
    "promptsListChanged": ("prompts", "listChanged"),
    "resourcesListChanged": ("resources", "listChanged"),
    "resourceSubscriptions": ("resources", "subscribe"),
}


def names_own_revision(message: object) -> bool:
    """Return whether a message names the revision that it belongs to."""
    return isinstance(message, dict) and META_VERSION in meta_of(message.get("params"))


def capabilities_in(request: Mapping[str, object]) -> JsonObject:
    """Return what a request says that the client can do."""
    declared = meta_of(request.get("params")).get(META_CAPABILITIES)
    return declared if isinstance(declared, dict) else {}


def has_extension(capabilities: Mapping[str, object], name: str) -> bool:
    """Return whether an extension is declared."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and name in extensions


def find_refusal(request: JsonObject, supported: Sequence[str]) -> RequestError | None:
    """Return why a correct server refuses a request before it looks at the parameters."""
    method = str(request.get("method"))
    meta = meta_of(request.get("params"))
    named = meta.get(META_VERSION)
    if method == "initialize" or (isinstance(named, str) and named != STATELESS.id):
        if named is None:
            named = params_of(request).get("protocolVersion")
        text = f"this server speaks {', '.join(supported)}"
        return UnsupportedRevision(text, data={"supported": list(supported), "requested": named})
    if not isinstance(named, str) or not isinstance(meta.get(META_CAPABILITIES), dict):
        return InvalidParams(f"the _meta of {method[:80]} has no revision or no capabilities")
    if method not in STATELESS.requests["client"]:
        return MethodNotFound(f"there is no method {method[:80]}")
    return None


def complete_result(
    method: str, result: Mapping[str, object], hints: Mapping[str, object] | None
) -> JsonObject:
    """Return a result with what every result of a server has; what it has already stays.

    Args:
        method: of the request.
        result: what answers it.
        hints: how long it may be kept; None leaves that out.
    """
    made: JsonObject = {"resultType": "complete", **result}
    made["_meta"] = {META_SERVER: SERVER_INFO, **meta_of(result)}
    if method in CACHEABLE and made["resultType"] == "complete":
        made = {**({} if hints is None else {**_NOT_KEPT, **hints}), **made}
    return made


def acknowledged_part(request: JsonObject, capabilities: Mapping[str, object]) -> JsonObject:
    """Return the notifications that a server will send, of those that a client listens for."""
    wanted = params_of(request).get("notifications")
    found: JsonObject = {}
    for name, value in wanted.items() if isinstance(wanted, dict) else ():
        area, capability = _OF_CHANGES.get(name, ("", ""))
        offered = capabilities.get(area)
        if isinstance(offered, dict) and offered.get(capability) and value:
            found[name] = value
    return found


def tag(id: object, params: Mapping[str, object] | None = None) -> JsonObject:
    """Return the parameters of a notification for a subscription, with the id of it."""
    given = params or {}
    return {**given, "_meta": {**meta_of(given), META_SUBSCRIPTION: id}}
