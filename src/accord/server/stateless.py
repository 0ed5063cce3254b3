"""Sessions that serve one message, where there is no handshake."""

from typing import TYPE_CHECKING, Final

from accord.protocol.party import Peer
from accord.protocol.revisions import REVISIONS
from accord.runtime.handlers import Write
from accord.server.session import Session
from accord.types import RevisionId

if TYPE_CHECKING:
    from accord.protocol.endpoint import Endpoint
    from accord.server.core import ServerCore

# As many endpoints as are in use at one time under high load.
_SPARE_MOST: Final = 256


class StatelessSessions:
    """Sessions that serve one message, without a handshake. Their endpoints are used again.

    An endpoint keeps nothing of a conversation in which every request is answered, so the next
    message of the same revision may use it. All that handlers can see of a session is new.
    """

    def __init__(self, server: "ServerCore") -> None:
        self._server = server
        self._spare: dict[RevisionId, list[Endpoint]] = {}

    def begin(self, write: Write, state: object, revision: RevisionId) -> Session:
        """Open a session for one message of this revision."""
        server, row = self._server, REVISIONS[revision]
        paths = server.capability_paths(is_lasting=not row.handshake)
        spare = self._spare.get(revision)
        while spare:
            endpoint = spare.pop()
            # What the server declares may have changed since.
            if endpoint.conversation.server.capabilities is paths:
                return Session(server, write, state, endpoint)
        session = Session(server, write, state)
        session.endpoint.conversation.begin(row, server=paths)
        session.peer = Peer(row, log_level=server.log_level)
        return session

    def end(self, session: Session) -> None:
        """End a session, unless it still works: then it ends by itself."""
        dispatcher, endpoint = session.dispatcher, session.endpoint
        if session.listening:
            session._forget_changes()
        session.release_values()
        if dispatcher.running:
            return
        dispatcher.let_go()
        conversation = endpoint.conversation
        row = conversation.revision
        # An endpoint that knows a client must not serve the next one.
        if row is None or conversation.client.capabilities is not None:
            return
        if conversation.is_blank and session.peer.log_level == self._server.log_level:
            spare = self._spare.setdefault(row.id, [])
            if len(spare) < _SPARE_MOST:
                spare.append(endpoint)
