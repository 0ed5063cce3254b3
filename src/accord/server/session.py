"""One client's connection to a server: its subscriptions, its log level, its running requests.

`Session` is what the library uses, `ClientSession` what handlers see of it. `StatelessSessions` has
those that serve one message.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from accord.errors import (
    InternalError,
    LocalProtocolError,
    MessageTooLarge,
    MethodNotFound,
    SessionRequired,
)
from accord.principal import Principal
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import Exchange, NotificationReceived, Refused
from accord.protocol.party import PartyState, Peer
from accord.protocol.revisions import REVISIONS, Phase
from accord.runtime.dispatcher import Dispatcher
from accord.runtime.handlers import DONE, Delayed, Done, Write
from accord.server.access import Visibility, set_visible
from accord.server.context import Context, current, new_context
from accord.server.hub import UPDATED, ListKind, Notices, ServerChange, list_change
from accord.server.methods import METHODS, find_rare_handler
from accord.server.middleware import LayeredRequest
from accord.server.questions.channels import Channel, Duplex
from accord.types import LoggingLevel, RequestId, RevisionId, Root

if TYPE_CHECKING:
    from accord.runtime.handlers import ClientFlow
    from accord.server.core import ServerCore
    from accord.server.sources.sessions import MountedSession
    from accord.server.subscription import Subscription


log = logging.getLogger("accord.server")
Value = TypeVar("Value")

# What a client that does not read may cost; beyond it, progress and logs are left out.
_BACKLOG_MOST: Final = 8 * 1024 * 1024
# So many messages a thread may send before it looks how well the client reads.
_IN_TRANSIT_MOST: Final = 16
# Shared by all sessions: it is held for the time of an addition, and only by threads.
_TRANSIT: Final = threading.Lock()
# As many resources as a client may subscribe to: templates have any number of them.
_SUBSCRIPTIONS_MOST: Final = 10_000
_NO_REQUESTS: Final[Mapping[Any, Any]] = MappingProxyType({})


class Session:
    """A server talking to one client. Made by `Server.session`, on the loop that serves it.

    Attributes:
        subscriptions: the URIs that the client subscribed to after a handshake; None without any.
        listening: its open `subscriptions/listen` requests, by their ids.
        is_lasting: whether it serves more than one message, so that clients hear of changes.
        is_shown: whether a handler has got hold of it.
    """

    # What each session has. What few have is in the dictionary that they get for it: an idle
    # session owns no collections.
    __slots__ = (
        "__dict__",
        "__weakref__",
        "dispatcher",
        "endpoint",
        "is_lasting",
        "is_shown",
        "lifespan_state",
        "loop",
        "principal",
        "server",
    )

    flow: "ClientFlow | None" = None
    subscriptions: set[str] | None = None
    listening: "Mapping[RequestId, Subscription]" = _NO_REQUESTS
    _notices: Notices | None = None
    closers: tuple[Callable[[], None], ...] = ()  # called once, at the end
    _contexts: dict[Any, Context[Any]] | None = None
    _in_transit = 0
    has_kept_values = False
    visibility: Visibility | None = None
    state_values: dict[str, Any] | None = None
    is_shared = False  # whether other workers serve the same session
    is_changed = False  # whether this one has changed it
    # Whether what others keep of it could not be read yet: the store does not answer.
    is_unread = False
    mounted_sessions: "dict[ServerCore, MountedSession] | None" = None

    def __init__(
        self, server: "ServerCore", write: Write, state: Any, endpoint: Endpoint | None = None
    ) -> None:
        self.server = server
        self.lifespan_state = state
        self.is_lasting = False
        self.is_shown = False
        watchdog = server.watchdog()
        self.loop = watchdog.loop
        if endpoint is None:
            endpoint = Endpoint("server", settings=server.endpoint_settings)
            endpoint.peer = server.unknown_peer
        self.endpoint = endpoint
        self.dispatcher = Dispatcher(
            self.endpoint, write, self, in_flight=server.in_flight, watchdog=watchdog
        )
        self.principal: Principal | None = server.principal

    @property
    def peer(self) -> Peer:
        """The facts about the client for its next request."""
        peer = self.endpoint.peer
        assert peer is not None
        return peer

    @peer.setter
    def peer(self, peer: Peer) -> None:
        self.endpoint.peer = peer
        self._note_change()

    def _note_change(self) -> None:
        if self.is_shared:
            self.is_changed = True

    @property
    def thread(self) -> int:
        """The thread in which its loop runs."""
        watchdog = self.dispatcher.watchdog
        assert watchdog is not None
        return watchdog.thread

    @property
    def client(self) -> PartyState:
        """The client's side of the conversation: its open requests, its tokens."""
        return self.endpoint.conversation.client

    @property
    def face(self) -> "ClientSession":
        """The session as handlers see it; from then on it is not used for another client."""
        self.is_shown = True
        members = vars(self)
        found: ClientSession | None = members.get("_face")
        # Of several threads that ask at once, all get the same.
        return found or members.setdefault("_face", ClientSession(self))

    # -- the sender of a request

    def principal_of(self, exchange: Exchange) -> Principal | None:
        """Return the sender of a request; over HTTP each request has its own token."""
        origin = exchange.origin
        return self.principal if origin is None else origin.principal

    def forbid(self, exchange: Exchange, scopes: frozenset[str]) -> None:
        """Let the transport answer that a request lacks scopes, where it has its own way to."""
        if exchange.origin is not None and exchange.batch is None:
            exchange.origin.forbid(scopes)

    # -- kept for the client from one request to the next

    @property
    def state(self) -> dict[str, Any]:
        """The values that are kept; see `ClientSession.state`."""
        self._require_session("state")
        if self.state_values is None:
            self.state_values = {}
        return self.state_values

    def set_visible(
        self, names: tuple[str, ...], tags: Iterable[str], kind: ListKind | None, *, shows: bool
    ) -> None:
        """Show or hide entries; see `ClientSession.show`."""
        self._require_session("show()" if shows else "hide()")
        set_visible(self, names, tags, kind, shows=shows)
        self._note_change()

    def _require_session(self, member: str) -> None:
        if self.is_unread:
            raise InternalError(f"session.{member} cannot be read now: the store does not answer")
        row = self.endpoint.conversation.revision
        if row is not None and row.handshake and self.is_lasting:
            return
        has_handshake = row is not None and row.handshake
        why = "the server keeps none" if has_handshake else "the revision of the client has none"
        raise SessionRequired(
            f"session.{member}: this request is not part of a session ({why}); keep values in a "
            "store of your own, under ctx.principal or an argument"
        )

    # -- called by the dispatcher

    def request(self, exchange: Exchange, params: object, dispatcher: Dispatcher) -> Any:
        """Serve one request."""
        handler = METHODS.get(exchange.name) or find_rare_handler(self.server, exchange)
        if handler is None:
            raise MethodNotFound(f"method {exchange.name!r} is not served here")
        if not exchange.revision.handshake:
            if exchange.origin is not None:
                exchange.origin.check(exchange, params)
            if exchange.name not in self.server.offered_methods:
                raise MethodNotFound(f"{exchange.name}: the server does not declare its capability")
        if not self.server.layers.are_used:
            return handler(self, exchange, params)
        layers = self.server.layers.around(exchange.name)
        if not layers:
            return handler(self, exchange, params)
        return LayeredRequest(self, exchange, params, handler, layers).serve()

    def notification(self, event: NotificationReceived, dispatcher: Dispatcher) -> None:
        """Handle a notification of the client."""
        if event.name == "notifications/cancelled" and event.exchange is not None:
            self.request_cancelled(event.exchange)
        elif event.name == "notifications/roots/list_changed":
            for callback in self.server.roots_callbacks:
                dispatcher.spawn(callback(self.face))
            for mounted in [*(self.mounted_sessions or {}).values()]:
                mounted.notification(event, dispatcher)

    def request_cancelled(self, exchange: Exchange) -> None:
        """Note that the answer to a request is no longer wanted."""
        if exchange.channel is not None:
            exchange.channel.release()
        context = (self._contexts or {}).get(exchange.id)
        if context is not None:
            context._cancel()
        subscription = self.listening.get(exchange.id)
        if subscription is not None:
            subscription.release()

    def breach(self, event: Refused) -> None:
        """Log a message of the client that was refused."""
        log.info("refused a message: %s", event.why)

    # -- how handlers ask

    def channel(self, exchange: Exchange) -> Channel:
        """Return how the handler of a request asks the client."""
        if not exchange.revision.rounds:
            return Duplex(self, exchange)
        from accord.server.questions.rounds import Rounds

        return Rounds(self, exchange, exchange.params)

    # -- contexts of running requests, for cancellation of work in threads

    def context(self, exchange: Exchange, params: object = None) -> Context[Any]:
        """Return the context of a request; one that middleware made is kept.

        Args:
            exchange: the request.
            params: those of the request as the server of this session sees them.
        """
        if self.server.layers.are_used:
            context = current.get(None)
            if context is not None and context._exchange is exchange:
                return context
        made: Context[Any] = new_context(Context)  # without __init__, as is said there
        made._session = self
        made._exchange = exchange
        return made

    async def run_in_thread(
        self, context: Context[Any], work: Callable[[], Value], *, timeout: float | None = None
    ) -> Value:
        """Run work of a request in a thread, where cancellation reaches its context.

        Raises:
            OutOfTime: the time ran out.
            InternalError: no thread came free in time.
        """
        from accord.runtime.threads import run_in_thread

        current.set(context)
        flow = self.begin_in_thread(context)
        try:
            return await run_in_thread(
                self.server.threads,
                work,
                timeout=timeout,
                name=context._exchange.state,
                flow=flow,
            )
        finally:
            self.end_in_thread(context)

    def begin_in_thread(self, context: Context[Any]) -> "ClientFlow | None":
        """Let cancellation reach a context in a thread; return how its client reads."""
        exchange = context._exchange
        if exchange.channel is not None and context.task is not None:
            return None  # it goes on without the request and the connection
        if self._contexts is None:
            self._contexts = {}
        self._contexts[exchange.id] = context
        return self.flow if exchange.origin is None else None

    def end_in_thread(self, context: Context[Any]) -> None:
        """Forget a context whose work in a thread is no longer waited for."""
        contexts, id = self._contexts, context._exchange.id
        if contexts is not None and contexts.get(id) is context:
            del contexts[id]

    # -- sending

    def run_here(self, function: Callable[..., None], *args: Any) -> None:
        """Run something on the session's loop: at once when we are on it, else soon."""
        if threading.get_ident() == self.thread:
            function(*args)
        else:
            with suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(function, *args)

    def send(self, send: Callable[[Any], None], params: Any, exchange: Exchange) -> Done:
        """Send a message of a running handler; a client that reads slowly slows it down."""
        flow = self.flow if exchange.origin is None else exchange.origin
        if threading.get_ident() != self.thread:
            self._tell_from_thread(send, params, flow)
            return DONE
        if flow is None or not flow.is_congested:
            send(params)
            return DONE
        # A handler that does not await is not slowed down, so there must be a limit.
        if flow.backlog < _BACKLOG_MOST:
            send(params)
        return Delayed(flow.writable)

    def _tell_from_thread(
        self, send: Callable[[Any], None], params: object, flow: "ClientFlow | None"
    ) -> None:
        with _TRANSIT:
            self._in_transit += 1
            is_full = self._in_transit % _IN_TRANSIT_MOST == 0
        with suppress(RuntimeError):  # the loop is closed
            if flow is not None and (is_full or flow.is_congested):
                asyncio.run_coroutine_threadsafe(flow.writable(), self.loop).result()
            self.loop.call_soon_threadsafe(send, params)

    def is_open(self, exchange: Exchange) -> bool:
        """Whether a request still waits for its answer."""
        return self.endpoint.conversation.open_exchange("client", exchange.id) is exchange

    @property
    def is_spare(self) -> bool:
        """Whether it can serve another request that stands on its own, once one is answered.

        No handler can keep something in it, none still runs, and the server has not changed.
        """
        if self.is_shown or self.dispatcher.running or self.dispatcher.closed is not None:
            return False
        if self.has_kept_values:  # of dependencies, and the next request may be another caller's
            return False
        declared = self.endpoint.conversation.server.capabilities
        return declared is self.server.capability_paths()

    @property
    def is_begun(self) -> bool:
        """Whether the client has opened the session."""
        return self.endpoint.conversation.phase is not Phase.OPENING

    @property
    def is_ready(self) -> bool:
        """Whether the opening is over and the connection alive."""
        return self.endpoint.conversation.phase is Phase.READY and self.dispatcher.closed is None

    def wants_log(self, level: LoggingLevel, peer: Peer, *, is_kept: bool = False) -> bool:
        """Whether a peer wants log messages of this level, and can still get them.

        Args:
            level: that of the message.
            peer: the client.
            is_kept: whether the message may be asked for later, as that of a task.
        """
        return is_wanted(level, peer.log_level) and (is_kept or self.dispatcher.closed is None)

    def notify(self, name: str, params: object = None, within: Exchange | None = None) -> None:
        """Send a notification; one that the protocol forbids now is left out and logged."""
        if within is not None and not within.revision.handshake and not self.is_open(within):
            return  # logging.own-stream-only: without a session nothing follows the answer
        try:
            self.dispatcher.notify(name, params, within=within)
        except MessageTooLarge as error:
            log.warning("left out %s", error)
        except LocalProtocolError as error:
            log.debug("left out %s: %s", name, error)

    # -- changes

    def hear(self, change: ServerChange) -> None:
        """Notify the client of a change: bursts of a list are joined. From any thread."""
        # Of a shared session, the worker with the client's stream reads changes from their log.
        if not self.is_shared:
            self.run_here(self._hear, change)

    def _hear(self, change: ServerChange) -> None:
        if not self.is_ready:
            return
        if self._notices is None:
            self._notices = Notices(self.loop, self.flow, self._tell_change)
        self._notices.add(change)

    def _tell_change(self, change: ServerChange) -> None:
        self.notify(change.name, change.params)

    def list_changed(self, kind: ListKind) -> None:
        """Notify this client; see `ClientSession.list_changed`."""
        self.run_here(self._hear, list_change(kind))

    def subscribe(self, uri: str) -> None:
        """Let the client hear of changes of a resource.

        Raises:
            InternalError: it has too many subscriptions.
        """
        if self.subscriptions is None:
            self.subscriptions = set()
        if len(self.subscriptions) >= _SUBSCRIPTIONS_MOST and uri not in self.subscriptions:
            raise InternalError(f"busy: the client subscribed to {_SUBSCRIPTIONS_MOST} resources")
        self.subscriptions.add(uri)
        self.server.hub.listen(self, [(UPDATED, uri)])
        self._note_change()

    def unsubscribe(self, uri: str) -> None:
        """Let the client hear no more of a resource."""
        if self.subscriptions is not None:
            self.subscriptions.discard(uri)
            self.server.hub.ignore(self, [(UPDATED, uri)])
            self._release_source(uri)
            self._note_change()

    def _release_source(self, uri: str) -> None:
        """Let the source of a mounted resource know that the client hears no more of it."""
        if self.server.parts():
            found = self.server.find_resource(uri)
            if found is not None:
                found.unsubscribe(self, uri)

    def end_subscriptions(self) -> None:
        """End the open `subscriptions/listen` requests: each gets its answer."""
        for subscription in [*self.listening.values()]:
            subscription.end()

    def _forget_changes(self) -> None:
        """Hear of no change any more."""
        if self.subscriptions:
            self.server.hub.ignore(self, [(UPDATED, uri) for uri in self.subscriptions])
            for uri in self.subscriptions:
                self._release_source(uri)
        for subscription in [*self.listening.values()]:
            subscription.release()
        if self._notices is not None:
            self._notices.stop()

    async def roots(self) -> list[Root]:
        """Ask the client for its roots; see `ClientSession.roots`."""
        found = await self.dispatcher.request("roots/list", timeout=self.server.ask_timeout)
        roots: list[Root] = found.roots
        return roots

    def list_in(self, group: "Iterable[Session]") -> None:
        """Let `server.sessions` find the session in a group, held weakly, from now on."""
        self.server.hub.list_in(group, self)

    def close(self) -> None:
        """End the connection."""
        if self.dispatcher.closed is None:
            self.end_subscriptions()
        self._forget_changes()
        for context in list((self._contexts or {}).values()):
            context._cancel()
        self.dispatcher.close()
        self.release_values()
        closers, self.closers = self.closers, ()
        for closer in closers:
            closer()

    def release_values(self) -> None:
        """End what servers keep for the session."""
        if self.has_kept_values:
            self.server.scopes.end_session(self)
        if self.mounted_sessions is not None:
            mounted, self.mounted_sessions = self.mounted_sessions, None
            for each in mounted.values():
                each.release_values()


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


class ClientSession:
    """The session of one client: `ctx.session`, the same object for all requests of the session."""

    __slots__ = ("__weakref__", "_core")

    def __init__(self, core: "Session") -> None:
        self._core = core

    @property
    def state(self) -> dict[str, Any]:
        """Values that are kept from one request of the session to the next, until it ends.

        Raises:
            SessionRequired: there is no session: each request stands on its own.
            InternalError: several workers share it, and their store does not answer.
        """
        return self._core.state

    def show(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Show entries to this client that are hidden; it is notified of lists that change.

        Args:
            names: of tools and prompts, and URIs of resources.
            tags: entries with one of them.
            kind: "tools", "prompts" or "resources"; all of them by default.

        Raises:
            ValueError: nothing is named, or the kind does not exist.
            KeyError: no entry has one of the names.
            SessionRequired: there is no session.
        """
        self._core.set_visible(names, tags, kind, shows=True)

    def hide(self, *names: str, tags: Iterable[str] = (), kind: ListKind | None = None) -> None:
        """Hide entries from this client: they are neither listed nor found. See `show`."""
        self._core.set_visible(names, tags, kind, shows=False)

    def list_changed(self, kind: ListKind) -> None:
        """Notify this client alone, once per burst, that a list has changed. From any thread.

        Raises:
            ValueError: the kind is not "tools", "prompts" or "resources".
        """
        self._core.list_changed(kind)

    async def roots(self) -> list[Root]:
        """Ask the client for its roots, outside of any request: say, when they have changed.

        Raises:
            LocalProtocolError: the client did not declare roots.
        """
        return await self._core.roots()


_SEVERITY: Final = {level: rank for rank, level in enumerate(get_args(LoggingLevel))}


def is_wanted(level: LoggingLevel, least: LoggingLevel | None) -> bool:
    """Whether a client that wants messages from a level on wants one of this level.

    Args:
        level: of the message.
        least: the level that the client has asked for; None if it wants no messages.

    Raises:
        ValueError: there is no such level.
    """
    try:
        rank = _SEVERITY[level]
    except KeyError:
        levels = ", ".join(_SEVERITY)
        raise ValueError(f"there is no log level {level!r}; expected one of {levels}") from None
    return least is not None and rank >= _SEVERITY[least]
