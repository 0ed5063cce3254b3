"""The other server behind a proxy: its connections, while the proxy is in use on one loop."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from accord.client.connect import Target
from accord.compose.proxies.catalog import Catalog
from accord.compose.proxies.connection import ASKING, CallInFlight, Connection, LeaseKey
from accord.compose.proxies.options import ProxyPolicy, question_paths
from accord.errors import AccordError, ConnectionClosed, InternalError, RequestError
from accord.protocol.exchange import Exchange
from accord.server.hub import LIST_KINDS, ListKind
from accord.server.session import Session
from accord.server.sources.sessions import outermost
from accord.types import EmptyParams

if TYPE_CHECKING:
    from accord.compose.proxies.calls import ParkedCall
    from accord.compose.proxies.source import ProxySource
    from accord.server.core import ServerCore
    from accord.server.session import ClientSession

log = logging.getLogger("accord.compose")

# After a failed attempt, further ones wait: so long at first, and at most.
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 30.0
# A connection that is lost with its session is replaced a little later: the program may be ending.
_REPLACE_AFTER: Final = 1.0
# Connections of clients without a session: so many may be open for single calls in which the other
# server may ask, so many for the other calls of each principal, and so long an idle one is kept.
_ASKING_MOST: Final = 32
_PRINCIPALS_MOST: Final = 256
_LEASE_IDLE: Final = 60.0


class Unavailable(ConnectionClosed):
    """The other server cannot be reached now."""


def explain(error: BaseException) -> BaseException:
    """Return why the other server cannot be reached, where the message names the proxy already."""
    return error.__cause__ if isinstance(error, Unavailable) and error.__cause__ else error


class UpstreamServer:
    """The connections to the other server on one loop.

    Args:
        source: the proxy.
        target: what to connect to.
        policy: how connections are shared.
        settings: of each connection.
    """

    def __init__(
        self, source: "ProxySource", target: Target, policy: ProxyPolicy, settings: dict[str, Any]
    ) -> None:
        self.source = source
        self.parked: dict[str, ParkedCall] = {}
        self.catalog = Catalog(self)
        self._target = target
        self.policy = policy
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._shared: Connection | None = None
        # A connection without handshakes may declare something else with each request.
        self._sessions: dict[Session, dict[frozenset[str], Connection]] = {}
        self._leases: set[Connection] = set()
        self._opening_leases: Counter[bool] = Counter()
        self._locks: dict[object, asyncio.Lock] = {}
        self._failures = 0
        self._retry_at = 0.0
        self._last_error: AccordError | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._is_ending = False
        self._heard_servers: set[ServerCore] = set()

    def __repr__(self) -> str:
        return repr(self.source)

    # -- life

    async def start(self) -> None:
        """Connect and read the lists; where that fails, go on trying.

        Raises:
            AccordError: the other server is required, and cannot be reached.
        """
        first = self.spawn(self._connect_first())
        done, _ = await asyncio.wait([first], timeout=self.policy.start_timeout)
        error = first.exception() if done else None
        if self.policy.required and (error is not None or not done):
            await self.end()
            if error is None:
                error = Unavailable(
                    f"{self.source!r}: no connection within {self.policy.start_timeout:g} s "
                    "(start_timeout)"
                )
            raise error
        if error is not None:
            self.catalog.report_fault(explain(error), "%r is not available yet: %s")
        elif not done:
            log.warning("%r is not available yet: no answer so far", self.source)
        self.spawn(self.catalog.watch())

    async def _connect_first(self) -> None:
        await self.catalog.connect()

    async def end(self) -> None:
        """End all connections."""
        self._is_ending = True
        for server in self._heard_servers:
            server.roots_callbacks.remove(self._pass_roots_change)
        self._heard_servers.clear()
        for task in [*self._tasks]:
            task.cancel()
        open_now = {each for found in self._sessions.values() for each in found.values()}
        open_now |= self._leases
        if self._shared is not None:
            open_now.add(self._shared)
        if self.catalog.connection is not None:
            open_now.add(self.catalog.connection)
        for parked in [*self.parked.values()]:
            parked.cancel()
        await asyncio.gather(*(each.close() for each in open_now), return_exceptions=True)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something until it is done, or until the end."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, AccordError):
            log.error("%r: its work failed", self.source, exc_info=error)

    # -- changes; called by connections

    def list_changed(self, connection: Connection, kind: ListKind) -> None:
        """Read a list anew."""
        self.catalog.read_again(kind)

    def session_renewed(self, connection: Connection) -> None:
        """Read everything anew: the other server has begun a new session."""
        connection.forget_level()
        for kind in LIST_KINDS:
            self.catalog.read_again(kind)

    def resource_updated(self, uri: str) -> None:
        """Pass on that a resource has changed."""
        self.source.resource_updated(uri)

    # -- connections for calls

    def borrow(
        self, session: Session, exchange: Exchange, parked: "ParkedCall | None" = None
    ) -> "_Borrowing":
        """Hold a connection for one request, as an async context manager.

        Entering raises AccordError where the other server cannot be reached.
        """
        return _Borrowing(self, CallInFlight(session, exchange, parked))

    def find_open(self, session: Session, exchange: Exchange) -> Connection | None:
        """Return a connection that can be used at once, by several calls; None without one."""
        shared = self._shared
        if shared is not None and shared.is_open and (shared.has_rounds or self._is_shared):
            return shared
        own = self._sessions.get(outermost(session))
        peer = exchange.peer
        if own is None or peer is None:
            return None
        found = own.get(question_paths(peer.capabilities))
        return found if found is not None and found.is_open else None

    async def find(self, session: Session, exchange: Exchange) -> Connection:
        """Return a connection for a request, which is made if necessary."""
        shared = self._shared
        if shared is not None and shared.is_open and (shared.has_rounds or self._is_shared):
            return shared
        if self._is_shared:
            return await self.share()
        root = outermost(session)
        peer = exchange.peer
        declared = question_paths(peer.capabilities) if peer is not None else frozenset()
        if root.is_lasting:
            return await self._of_session(root, declared)
        principal = session.principal_of(exchange)
        # Unknown callers cannot be distinguished.
        if (principal is None and not declared) or await self._has_rounds():
            return await self.share()
        return await self._lease((declared, None if principal is None else principal.identity))

    async def must_park(self, session: Session, exchange: Exchange) -> bool:
        """Whether questions of a call outlive the request, because its client has rounds."""
        peer = exchange.peer
        if self._is_shared or peer is None or not question_paths(peer.capabilities):
            return False
        return not await self._has_rounds()

    async def _has_rounds(self) -> bool:
        connection = self.catalog.connection
        if connection is None or not connection.is_open:
            connection = await self.share()
        return connection.has_rounds

    @property
    def _is_shared(self) -> bool:
        return self.policy.connections == "shared"

    async def share(self) -> Connection:
        """Return the connection of unknown callers that cannot be asked anything, or of all."""
        async with self._lock("shared"):
            if self._shared is None or not self._shared.is_open:
                self._shared = await self.open(Connection(self, frozenset()))
                self.catalog.offer(self._shared)
            return self._shared

    def _lock(self, key: object) -> asyncio.Lock:
        return self._locks.setdefault(key, asyncio.Lock())

    async def open(self, connection: Connection) -> Connection:
        """Connect; attempts that fail are not repeated at once.

        Raises:
            Unavailable: there is no connection.
        """
        now = self._loop.time()
        if now < self._retry_at and self._last_error is not None:
            wait = self._retry_at - now
            raise Unavailable(f"{self._last_error} (tried again in {wait:.0f} s)")
        try:
            await connection.open(self._target, self.source.with_chain(self._settings))
        except AccordError as error:
            self._failures += 1
            pause = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE)
            self._retry_at = self._loop.time() + pause
            self._last_error = error
            raise Unavailable(f"{self.source!r} is not available: {error}") from error
        self._failures, self._last_error = 0, None
        if self._is_ending:
            await connection.close()
            raise Unavailable(f"{self.source!r} has ended")
        return connection

    @property
    def pause(self) -> float:
        """Seconds until another attempt to connect is made."""
        return max(0.0, self._retry_at - self._loop.time())

    # -- one for each session

    async def _of_session(self, root: Session, declared: frozenset[str]) -> Connection:
        own = self._sessions.get(root, {})
        found = own.get(declared)
        if found is not None and found.is_open:
            return found
        async with self._lock(root):
            own = self._sessions.get(root, {})
            found = own.get(declared)
            if found is not None and found.is_open:
                return found
            shared = await self.share() if not declared or self._shared is None else self._shared
            if shared.has_rounds:
                return shared
            connection = await self._adopt_or_open(shared, root, declared)
            is_known = root in self._sessions
            self._sessions.setdefault(root, {})[declared] = connection
            if not is_known:
                root.closers += (lambda: self._session_closed(root),)
                self._hear_roots(root)
            return connection

    async def _adopt_or_open(
        self, shared: Connection, root: Session, declared: frozenset[str]
    ) -> Connection:
        if not declared and shared is self._shared and not shared.was_used:
            # It was opened to read the lists; a server is not started twice for one client.
            self._shared, shared.session = None, root
            return shared
        connection = await self.open(Connection(self, declared, root))
        if shared is self._shared and not shared.calls and not self.catalog.has_subscriptions:
            self._shared = None
            self.catalog.move_to(connection)
            self.spawn(shared.close())
        return connection

    def _session_closed(self, root: Session) -> None:
        self._locks.pop(root, None)
        for connection in self._sessions.pop(root, {}).values():
            if self._is_ending:
                return
            self.spawn(connection.close())
            if self.catalog.connection is connection:
                self.catalog.lose(_REPLACE_AFTER)

    def _hear_roots(self, root: Session) -> None:
        if root.server not in self._heard_servers:
            self._heard_servers.add(root.server)
            root.server.roots_callbacks.append(self._pass_roots_change)

    def _pass_roots_change(self, session: "ClientSession") -> None:
        for declared, connection in self._sessions.get(session._core, {}).items():
            if connection.is_open and "roots.listChanged" in declared:
                connection.client._link.notify("notifications/roots/list_changed", EmptyParams())

    # -- where clients have no sessions: one for each call that may ask, and one for each principal

    async def _lease(self, key: LeaseKey) -> Connection:
        found = self._find_lease(key)
        if found is None and not key[0]:
            async with self._lock(key):
                return self._find_lease(key) or await self._open_lease(key)
        return found or await self._open_lease(key)

    def _find_lease(self, key: LeaseKey) -> Connection | None:
        fitting = (
            each
            for each in self._leases
            if each.lease_key == key and each.is_open and not (key[0] and each.calls)
        )
        return max(fitting, key=lambda each: each.idle_since, default=None)

    async def _open_lease(self, key: LeaseKey) -> Connection:
        may_ask = bool(key[0])
        others = [each for each in self._leases if bool(each.declared) == may_ask]
        most = _ASKING_MOST if may_ask else _PRINCIPALS_MOST
        if len(others) + self._opening_leases[may_ask] >= most:
            idle = [each for each in others if not each.calls]
            if not idle:
                what = "calls that may ask clients" if may_ask else "users without a session"
                raise InternalError(f"busy: {self.source!r} serves {most} {what} already")
            self._end_lease(min(idle, key=lambda each: each.idle_since))
        connection = Connection(self, key[0])
        connection.lease_key = key
        self._opening_leases[may_ask] += 1
        try:
            await self.open(connection)
        finally:
            self._opening_leases[may_ask] -= 1
        self._leases.add(connection)
        return connection

    def return_lease(self, connection: Connection, *, is_sound: bool) -> None:
        if self._is_ending:
            return
        if not connection.is_open or (connection.declared and not is_sound):
            # What its server asks later, in a call that was given up, is not for the next caller.
            self._end_lease(connection)
        elif not connection.calls:
            connection.idle_since = self._loop.time()
            self._loop.call_later(_LEASE_IDLE + 1, self._end_idle_leases)

    def _end_idle_leases(self) -> None:
        oldest = self._loop.time() - _LEASE_IDLE
        for connection in [*self._leases]:
            if not connection.calls and connection.idle_since <= oldest:
                self._end_lease(connection)

    def _end_lease(self, connection: Connection) -> None:
        if connection in self._leases and not self._is_ending:
            self._leases.remove(connection)
            self._locks.pop(connection.lease_key, None)
            self.spawn(connection.close())


class _Borrowing:
    """A connection that is held for one request. Every call makes one, so it is a plain class."""

    __slots__ = ("_call", "_connection", "_upstream")

    _connection: Connection

    def __init__(self, upstream: UpstreamServer, call: CallInFlight) -> None:
        self._upstream = upstream
        self._call = call

    async def __aenter__(self) -> Connection:
        call = self._call
        connection = await self._upstream.find(call.session, call.exchange)
        self._connection = connection
        connection.calls[call] = None
        connection.was_used = True
        if call.parked is not None:
            ASKING.set(call if connection.has_rounds else None)
        return connection

    async def __aexit__(self, kind: object, error: object, traceback: object) -> None:
        connection = self._connection
        del connection.calls[self._call]
        if connection.is_leased:
            is_sound = error is None or isinstance(error, RequestError)
            self._upstream.return_lease(connection, is_sound=is_sound)
