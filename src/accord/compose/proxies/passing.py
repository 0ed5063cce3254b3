"""What a request brings along that is passed on as it is: `_meta`, and unknown members."""

from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from accord.compose.proxies.options import build_capabilities
from accord.errors import InvalidParams, lower_first
from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES, Exchange
from accord.protocol.party import META_LOG_LEVEL
from accord.protocol.unknown import UnknownMembers, known_members
from accord.types import LoggingLevel, RevisionId

# What each hop says of itself is not passed on.
OWN_MEMBERS: Final = "io.modelcontextprotocol/"
PROGRESS: Final = "progressToken"
_TASKS: Final = "io.modelcontextprotocol/tasks"
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_meta: Final = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode


class Passing(NamedTuple):
    """What is passed on of a request, beside its params.

    Attributes:
        meta: the members of its `_meta` that are not about one hop, encoded.
        unknown: members of the params that no revision defines.
    """

    meta: dict[str, Any]
    unknown: UnknownMembers | None


def read_passing(exchange: Exchange, kind: type) -> Passing:
    """Read what is passed on of a request.

    Args:
        exchange: the request.
        kind: the type of the params that are sent.

    Raises:
        InvalidParams: it cannot be read.
    """
    raw = exchange.raw
    if raw is msgspec.UNSET or not raw:
        return Passing({}, None)
    try:
        members = _members(raw)
        own = members.get("_meta")
        meta = {} if own is None else _meta(own) or {}
    except ValueError as error:
        raise InvalidParams(f"{exchange.name}: {lower_first(error)}") from None
    kept = {
        name: value
        for name, value in meta.items()
        if name != PROGRESS and not name.startswith(OWN_MEMBERS)
    }
    received: Any = type(exchange.params)
    known = known_members(received)
    if members.keys() <= known.keys():
        return Passing(kept, None)
    unknown = {name: value for name, value in members.items() if name not in known}
    return Passing(kept, UnknownMembers(kind, unknown, {}))


@lru_cache(maxsize=256)
def introduce(
    declared: frozenset[str], level: LoggingLevel | None, revision: RevisionId
) -> dict[str, Any]:
    """Return what a request without a handshake says of the client behind it.

    Args:
        declared: what the client can answer.
        level: the log messages that it wants.
        revision: that of the request.
    """
    able = build_capabilities(declared)
    able.extensions = {_TASKS: {}}  # the proxy waits for tasks by itself
    encoded = msgspec.json.encode(shape.narrow(able, revision))
    members: dict[str, Any] = {META_CAPABILITIES: msgspec.Raw(encoded)}
    return members if level is None else {**members, META_LOG_LEVEL: level}
