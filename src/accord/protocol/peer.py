"""The facts about the other side that are valid for one message."""

import msgspec

from accord.protocol.capabilities import capability_paths
from accord.protocol.revision import Revision
from accord.types.lifecycle import Implementation, InitializeParams
from accord.types.server_features import LoggingLevel


class Peer(msgspec.Struct, frozen=True):
    """The client behind a request: what it said of itself, and which log messages it wants.

    One object serves all requests of a session; a further `initialize` or another log level makes a
    new one, and requests in flight keep theirs. `capabilities` are dotted paths.
    """

    revision: Revision
    info: Implementation | None = None
    capabilities: frozenset[str] = frozenset()
    log_level: LoggingLevel = "info"

    def with_log_level(self, level: LoggingLevel) -> "Peer":
        """Return the same peer, which wants log messages from this level on."""
        return msgspec.structs.replace(self, log_level=level)


def peer_from_initialize(
    params: InitializeParams, revision: Revision, log_level: LoggingLevel
) -> Peer:
    """Make the peer that an `initialize` request introduces.

    Args:
        params: those of the request.
        revision: the one that the server answers with.
        log_level: which log messages it gets until it asks for others.
    """
    return Peer(revision, params.client_info, capability_paths(params.capabilities), log_level)
