"""What requests without a handshake say about the client, and which ones a server can answer."""

import msgspec

from accord.protocol import shape
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.party import META_CLIENT, META_LOG_LEVEL, capability_paths
from accord.protocol.revisions import REVISIONS
from accord.protocol.violation import CLIENT
from accord.types import (
    ClientCapabilities,
    Implementation,
    JsonObject,
    LoggingLevel,
    RevisionId,
    ServerCapabilities,
)


def request_meta(
    revision: RevisionId,
    capabilities: ClientCapabilities,
    info: Implementation,
    level: LoggingLevel | None,
) -> JsonObject:
    """Return the `_meta` of each request."""
    meta: JsonObject = {
        META_VERSION: revision,
        META_CAPABILITIES: _encode(shape.narrow(capabilities, revision)),
        META_CLIENT: _encode(shape.narrow(info, revision)),
    }
    if level is not None:
        meta[META_LOG_LEVEL] = level
    return meta


def _encode(value: object) -> msgspec.Raw:
    """Encode once what each request repeats."""
    return msgspec.Raw(msgspec.json.encode(value))


def lacking_capabilities(revision: RevisionId, server: ServerCapabilities) -> dict[str, str]:
    """Return by method the capability that it needs and that a server did not declare."""
    row, declared = REVISIONS[revision], capability_paths(server)
    needs = {name: row.needed_for(CLIENT, name) for name in row.requests[CLIENT]}
    return {name: each for name, each in needs.items() if each and each not in declared}


def describe_lack(name: str, capability: str) -> str:
    """Return why a request is not sent."""
    return f"{name} needs the capability {capability}, which the server did not declare"
