"""One connection to the other server: the calls that are under way on it, and what it asks."""

import asyncio
import contextlib
import logging
from contextvars import ContextVar
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.client.callbacks import Callbacks
from accord.client.client import Client
from accord.client.connect import Target, open_client
from accord.compose.proxies.options import ProxySettings, build_capabilities
from accord.errors import AccordError, InternalError, MethodNotFound, MissingCapability
from accord.protocol.exchange import Exchange, NotificationReceived
from accord.runtime.dispatcher import Dispatcher
from accord.server.context import Context
from accord.server.questions.input_requests import check_declared, refuse_later_mode
from accord.types import ClientCapabilities, EmptyResult, LoggingLevel

if TYPE_CHECKING:
    from accord.compose.proxies.calls import ParkedCall
    from accord.compose.proxies.upstream import UpstreamServer
    from accord.server.session import Session


# -- questions of the other server, asked in the way and the revision of the client

_CAPABILITIES: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


async def ask_client(
    session: "Session", exchange: Exchange, name: str, params: Any, *, key: str | None = None
) -> Any:
    """Ask the client within one of its requests.

    Args:
        session: the session that serves the request.
        exchange: the request.
        name: the method of the question.
        params: its params.
        key: names the question within the request.

    Raises:
        MissingCapability: the client cannot be asked this.
        RequestError: it refused.
    """
    context: Context[Any] = Context(session, exchange)
    capability = _CAPABILITIES[name]
    peer = exchange.peer
    assert peer is not None  # every request that a server receives has one
    if name == "sampling/createMessage":
        check_declared(params, peer)
    elif name == "elicitation/create":
        if params.mode == "url":
            capability = "elicitation.url"
        refuse_later_mode(params, peer.revision, "form for this question")
        if params.mode == "url" and peer.revision.handshake and params.elicitation_id is None:
            params.elicitation_id = token_urlsafe(16)  # elicitation.url.elicitation-id
    if name == "roots/list":
        params = None
    if getattr(params, "task", None) is not None:
        params.task = None
    if session.dispatcher.closed is not None:
        raise MissingCapability(f"{name}: the client is gone")
    return await context._ask(capability, name, params, None, key)


log = logging.getLogger("accord.compose")

_LOG: Final = "notifications/message"
_COMPLETE: Final = "notifications/elicitation/complete"
# Calls wait for it, whatever the other server does about levels.
_LEVEL_TIMEOUT: Final = 5.0
LeaseKey: TypeAlias = tuple[frozenset[str], tuple[str | None, ...] | None]
_QUESTIONS: Final = ("sampling/createMessage", "elicitation/create", "roots/list")


class CallOver(Exception):
    """The call in which a question was to be asked is over; another one may ask it."""


class CallInFlight:
    """A request of a client that is being answered by the other server."""

    __slots__ = ("_exchange", "_session", "parked")

    def __init__(
        self, session: "Session", exchange: Exchange, parked: "ParkedCall | None" = None
    ) -> None:
        self._session = session
        self._exchange = exchange
        self.parked = parked

    @property
    def session(self) -> "Session":
        """The session that serves it; of several rounds, the latest one."""
        return self._session if self.parked is None else self.parked.request.session

    @property
    def exchange(self) -> Exchange:
        """The request; of several rounds, the latest one."""
        return self._exchange if self.parked is None else self.parked.request.exchange

    @property
    def is_followed(self) -> bool:
        """Whether the client waits for it now."""
        return self.parked is None or self.parked.is_followed


ASKING: Final[ContextVar[CallInFlight | None]] = ContextVar("asking", default=None)
"""The call whose task asks, where the other server asks by its answers."""


class ProxyCallbacks(Callbacks):
    """Passes on what the other server asks and reports."""

    def __init__(self, settings: ProxySettings, connection: "Connection") -> None:
        super().__init__(settings)
        self._declared = settings.declared
        self._connection = connection

    @property
    def capabilities(self) -> ClientCapabilities:
        call = ASKING.get()
        peer = None if call is None else call.exchange.peer
        return self._declared if peer is None else build_capabilities(peer.capabilities)

    def request(self, exchange: Exchange, params: Any, dispatcher: Dispatcher) -> Any:
        if exchange.name == "ping":
            return EmptyResult()
        if exchange.name not in _QUESTIONS:
            raise MethodNotFound(f"method {exchange.name!r} is not served by this client")
        params.meta = {
            name: value for name, value in exchange.meta.items() if name != "progressToken"
        } or None
        return self._connection.answer(exchange.name, params)

    def notification(self, event: NotificationReceived, dispatcher: Dispatcher) -> None:
        if event.name == _LOG:
            self._connection.pass_log(event.params)
        elif event.name == _COMPLETE:
            self._connection.pass_notice(event)
        else:
            super().notification(event, dispatcher)


class Connection:
    """A connection to the other server, for one session or for several clients.

    Args:
        upstream: the other server.
        declared: what the client can answer, as dotted paths.
        session: the session that it is for, if it is for one alone.

    Attributes:
        calls: what is under way on it.
        was_used: whether there was a call on it, which may have left something in its session.
        lease_key: for a caller without a session: what it can answer, and its identity.
        idle_since: when its last call ended.
        has_rounds: whether the other server asks by answering with questions.
    """

    client: Client
    _dispatcher: Dispatcher

    def __init__(
        self, upstream: "UpstreamServer", declared: frozenset[str], session: "Session | None" = None
    ) -> None:
        self.upstream = upstream
        self.declared = declared
        self.session = session
        self.calls: dict[CallInFlight, None] = {}
        self.was_used = False
        self.lease_key: LeaseKey | None = None
        self.idle_since = 0.0
        self.has_rounds = False
        self._level: LoggingLevel | None = None
        self._level_lock = asyncio.Lock()

    async def open(self, target: Target, settings: dict[str, Any]) -> None:
        """Connect.

        Raises:
            AccordError: there is no connection.
        """
        upstream = self.upstream
        hears = upstream.list_changed
        self.client = await open_client(
            target,
            ProxySettings(
                **settings,
                declared=build_capabilities(self.declared),
                callbacks=lambda given: ProxyCallbacks(given, self),
                on_tools_changed=lambda: hears(self, "tools"),
                on_prompts_changed=lambda: hears(self, "prompts"),
                on_resources_changed=lambda: hears(self, "resources"),
                on_resource_updated=upstream.resource_updated,
                on_renewed=lambda: upstream.session_renewed(self),
            ),
        )
        link = self.client._link
        self._dispatcher = link.dispatcher
        self.has_rounds = link.revision.rounds

    @property
    def is_open(self) -> bool:
        """Whether it can be used."""
        return self._dispatcher.closed is None

    @property
    def is_leased(self) -> bool:
        """Whether it is for calls of one caller without a session."""
        return self.lease_key is not None

    @property
    def is_shared(self) -> bool:
        """Whether clients use it that know nothing of each other."""
        return self.session is None and not (self.lease_key is not None and self.declared)

    async def close(self) -> None:
        await self.client.close()

    # -- what the other server asks

    async def answer(self, name: str, params: Any) -> Any:
        """Ask the client on whose behalf the other server asks.

        Raises:
            RequestError: it refused, or it cannot be asked.
        """
        while True:
            call = self._find_asker()
            if call is None or call.parked is None:
                break
            with contextlib.suppress(CallOver):
                return await call.parked.ask(name, params)
        if call is None:
            session = self._spoken_session
            if session is None or not session.is_ready:
                raise InternalError(f"{name}: no request of a client is under way")
            return await session.dispatcher.request(
                name, params, timeout=session.server.ask_timeout
            )
        return await ask_client(call.session, call.exchange, name, params)

    def _find_asker(self) -> CallInFlight | None:
        """Return the call that a question belongs to.

        A connection whose server may ask has the calls of one client alone, so that any of them
        reaches the right one: the latest for which the client waits now.
        """
        asking = ASKING.get()
        if asking is not None:
            return asking if asking in self.calls else None
        followed = (call for call in reversed(self.calls) if call.is_followed)
        return next(followed, None) or next(reversed(self.calls), None)

    @property
    def _spoken_session(self) -> "Session | None":
        """The session in which the client may be asked and notified outside of its requests."""
        session = self.session
        revision = None if session is None else session.endpoint.conversation.revision
        return session if revision is not None and revision.handshake else None

    # -- what it reports

    def pass_log(self, params: Any) -> None:
        """Pass a log message to the client that it concerns; on shared connections, if known."""
        callers = {id(call.session) for call in self.calls}
        if self.session is None and len(callers) != 1:
            log.debug("a log message of %s is dropped: it may concern others", self.upstream)
            return
        call = next(reversed(self.calls), None)
        session = self._spoken_session if call is None else call.session
        if session is None:
            return
        peer = session.peer if call is None else call.exchange.peer
        if peer is not None and session.wants_log(params.level, peer):
            session.notify(_LOG, params, None if call is None else call.exchange)

    def pass_notice(self, event: NotificationReceived) -> None:
        """Pass on that a page was completed."""
        sessions = {call.session for call in self.calls if call.exchange.revision.handshake}
        for session in sessions | {self._spoken_session}:
            if session is not None and session.is_lasting:
                session.notify(event.name, event.params)

    def lacks_level(self, level: LoggingLevel | None) -> bool:
        """Whether the other server has to learn which log messages a client wants.

        Without a wish of the client it decides by itself.
        """
        if level is None or level == self._level or self.is_shared:
            return False
        return self.client.capabilities.logging is not None

    async def set_level(self, level: LoggingLevel | None) -> None:
        """Let the other server send the log messages that a client wants."""
        if level is None:
            return
        async with self._level_lock:
            if level == self._level:
                return
            self._level = level
            try:
                await self.client.set_log_level(level, timeout=_LEVEL_TIMEOUT)
            except AccordError as error:
                log.info("%s: the log level was not set: %s", self.upstream, error)

    def forget_level(self) -> None:
        """Note that the other server knows no level any more."""
        self._level = None
