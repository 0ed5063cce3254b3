"""Sessions that serve one message, without a handshake. Their endpoints are used again.

An endpoint keeps nothing of a conversation in which every request is answered, so the next message
of the same revision may use it. Everything that handlers can see of a session is new.
"""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.party import Peer, capability_paths
from accord.protocol.revisions import REVISIONS
from accord.runtime.dispatcher import Write
from accord.server.session import Session
from accord.types import RevisionId

if TYPE_CHECKING:
    from accord.protocol.endpoint import Endpoint
    from accord.server.server import Server

# About as many as are in use at one time under high load.
_SPARE_MOST: Final = 256


class StatelessSessions:
    """Opens sessions that serve one message, and takes their endpoints back."""

    def __init__(self, server: "Server[Any]") -> None:
        self._server = server
        self._declared: frozenset[str] = frozenset()
        self._generation = -1
        self._spare: dict[RevisionId, list[Endpoint]] = {}

    def begin(self, write: Write, state: object, revision: RevisionId) -> Session:
        """Open a session for one message of this revision."""
        server = self._server
        paths = self._paths()
        spare = self._spare.get(revision)
        if spare:
            return Session(server, write, state, spare.pop())
        session = Session(server, write, state)
        session.endpoint.conversation.begin(REVISIONS[revision], server=paths)
        session.peer = Peer(REVISIONS[revision], log_level=server.log_level)
        return session

    def _paths(self) -> frozenset[str]:
        """Return the capabilities of the server as paths; they depend on its entries."""
        server, resources = self._server, self._server.resource_entries
        # Generations only grow, so that any change makes another sum.
        generation = (
            server.tool_entries.generation
            + server.prompt_entries.generation
            + resources.fixed.generation
            + resources.templates.generation
        )
        if generation != self._generation:
            self._declared = capability_paths(server.capabilities(is_lasting=False))
            self._generation = generation
            self._spare.clear()
        return self._declared

    def end(self, session: Session) -> None:
        """End a session, unless it still works: then it ends by itself."""
        dispatcher, endpoint = session.dispatcher, session.endpoint
        if dispatcher.running:
            return
        dispatcher.let_go()
        conversation = endpoint.conversation
        client, server = conversation.parties.values()
        # An endpoint that knows a client must not serve the next one.
        is_reusable = client.capabilities is None and server.capabilities is self._declared
        is_reusable = is_reusable and session.peer.log_level == self._server.log_level
        if is_reusable and conversation.revision is not None and conversation.is_blank:
            spare = self._spare.setdefault(conversation.revision.id, [])
            if len(spare) < _SPARE_MOST:
                spare.append(endpoint)
