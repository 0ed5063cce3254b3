"""What all requests to one app share, and what the app needs of the server behind it."""

from asyncio import AbstractEventLoop
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from accord.protocol.codec import Limits
from accord.protocol.endpoint import Endpoint
from accord.protocol.party import PartyState
from accord.runtime.dispatcher import Dispatcher, Write
from accord.stores import EventStore, MemoryEventStore
from accord.transports.http.server.options import HttpOptions
from accord.transports.http.server.stream import Reader, RetiredStreams
from accord.types import RevisionId


class ServedSession(Protocol):
    """One client's protocol session, as the server behind the app has it."""

    dispatcher: Dispatcher
    endpoint: Endpoint
    loop: AbstractEventLoop

    @property
    def client(self) -> PartyState:
        """The client's part of the conversation."""

    @property
    def is_begun(self) -> bool:
        """Whether the client has sent `initialize`."""

    def close(self) -> None:
        """End the session."""


class ServedStatelessSessions(Protocol):
    """Sessions that serve one message each."""

    def begin(self, write: Write, state: Any, revision: RevisionId) -> ServedSession:
        """Begin one under a revision, without `initialize`."""

    def end(self, session: Any) -> None:
        """End one, unless its work goes on."""


class ServedServer(Protocol):
    """The server behind the app."""

    revisions: tuple[RevisionId, ...]
    limits: Limits

    @property
    def stateless_sessions(self) -> ServedStatelessSessions:
        """Its sessions of one message."""

    def run_lifespan(self) -> AbstractAsyncContextManager[object]:
        """Run its lifespan."""

    def session(
        self, write: Write, state: object = None, *, is_lasting: bool = True
    ) -> ServedSession:
        """Begin to serve one client."""


class AppState:
    """What all requests to one app share while it runs on one event loop.

    Args:
        server: the server behind the app.
        options: how it is reached.
        now: the clock.

    Attributes:
        lifespan: what the server's lifespan yielded.
        events: keeps what was sent on resumable streams.
        readers: the responses that follow a stream.
        retired: the streams that have ended and can be resumed for a while.
        listening: how many of the requests under way only listen.
        is_stopping: whether new sessions are refused.
        is_draining: whether new requests are refused.
    """

    def __init__(
        self, server: ServedServer, options: HttpOptions, now: Callable[[], float]
    ) -> None:
        self.server = server
        self.options = options
        self.now = now
        self.lifespan: object = None
        self.events: EventStore = options.events or MemoryEventStore()
        self.readers: set[Reader] = set()
        self.retired = RetiredStreams()
        self.listening = 0
        self.is_stopping = False
        self.is_draining = False
