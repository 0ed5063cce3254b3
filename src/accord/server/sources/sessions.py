"""Mounted sources in use: their lifespans, and the sessions of clients as they see them."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from accord.protocol.exchange import Exchange
from accord.server.access import NO_RULES
from accord.server.context import Context, current
from accord.server.hub import ListKind
from accord.server.session import Session
from accord.server.sources.source import Views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from accord.principal import Principal
    from accord.runtime.handlers import ClientFlow
    from accord.server.core import ServerCore
    from accord.server.questions.channels import Channel


# -- lifespans


class SharedLifespan:
    """The lifespan of a source on each loop, entered by its first user and left by its last.

    It is entered and left in a task of its own: users come and go in any order, and what a lifespan
    opens may have to be closed by the task that opened it.
    """

    def __init__(self, source: Views) -> None:
        self._source = source
        self._runs: dict[asyncio.AbstractEventLoop, LifespanRun] = {}

    async def acquire(self) -> None:
        """Enter the lifespan, or wait until another user has entered it.

        Raises:
            Exception: what the lifespan raised; it is entered again by the next user.
        """
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is None:
            run = self._runs[loop] = LifespanRun(self._source)
        run.users += 1
        try:
            await asyncio.shield(run.ready)
        except BaseException:
            await self._leave(loop, run)
            raise

    async def release(self) -> None:
        """Leave the lifespan; the last user ends it, and waits for its end."""
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is not None:
            await self._leave(loop, run)

    async def _leave(self, loop: asyncio.AbstractEventLoop, run: "LifespanRun") -> None:
        run.users -= 1
        if run.users:
            return
        if self._runs.get(loop) is run:
            del self._runs[loop]
        await run.end()

    @property
    def is_running(self) -> bool:
        """Whether it has been entered on this loop, or is being entered."""
        return asyncio.get_running_loop() in self._runs

    @property
    def run(self) -> "LifespanRun | None":
        """What was entered on this loop; None before, and afterwards."""
        run = self._runs.get(asyncio.get_running_loop())
        return run if run is not None and run.is_ready else None

    @property
    def state(self) -> Any:
        """What it yielded on this loop; None where it was not entered."""
        run = self._runs.get(asyncio.get_running_loop())
        return None if run is None else run.state

    async def wait(self) -> None:
        """Wait until it has been entered on this loop.

        Raises:
            RuntimeError: it is not being entered.
        """
        run = self._runs.get(asyncio.get_running_loop())
        if run is None:
            raise RuntimeError(f"the lifespan of {self._source!r} is not running")
        await asyncio.shield(run.ready)


class LifespanRun:
    """A lifespan on one loop.

    Attributes:
        state: what it yielded.
        is_over: whether it was left; another run may have begun since.
    """

    def __init__(self, source: Views) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self.state: Any = None
        self.is_over = False
        self.ready: asyncio.Future[None] = loop.create_future()
        self._ending = asyncio.Event()
        self._task = loop.create_task(self._live(source), name=f"lifespan of {source!r}")

    @property
    def is_ready(self) -> bool:
        return self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None

    async def _live(self, source: Views) -> None:
        try:
            async with source.run_lifespan() as self.state:
                self.ready.set_result(None)
                await self._ending.wait()
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
            self.ready.exception()  # marked as retrieved: its user may be gone
            if not isinstance(error, Exception):
                raise
        finally:
            self.ready.cancel()

    async def end(self) -> None:
        """Leave the lifespan, and raise what it raises at its end."""
        self.is_over = True
        if not self.ready.done():
            self._task.cancel()
        self._ending.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and self._task.exception() is not None:
            raise self._task.exception()  # type: ignore[misc]  # it is not None


def lifespan_of(source: Views) -> SharedLifespan:
    """Return the shared lifespan of a source."""
    members = vars(source)
    found: SharedLifespan | None = members.get("_shared_lifespan")
    if found is None:
        found = members["_shared_lifespan"] = SharedLifespan(source)
    return found


# -- sessions


def inner_context(
    session: Session, exchange: Exchange, params: object, outer: Context[Any] | None
) -> Context[Any]:
    """Return the context of a request as the handler of a mounted server sees it.

    Args:
        session: the one of that server.
        exchange: the request.
        params: those of the request by the names of that server; None for those that were received.
        outer: the context of the outer server, whose values it has.
    """
    # What Context(session, exchange) makes, in a third of the time.
    context: Context[Any] = Context.__new__(Context)
    context._session = session
    context._exchange = exchange
    context._received = params
    if outer is not None:
        if outer._values is None:
            outer._values = {}
        context._values = outer._values
        context._outer = outer
    return context


class MountedSession(Session):
    """A session of an outer server, as a server that is mounted there sees it.

    The connection, the client and the caller are the same. The server, the state of its lifespan,
    `state` and what is shown or hidden are its own.

    Args:
        outer: the session of the server that mounts.
        server: the server that is mounted.
        run: its lifespan.
    """

    _has_kept_values = False

    def __init__(self, outer: Session, server: "ServerCore", run: LifespanRun) -> None:
        self.outer = outer
        self.server = server
        self.run = run
        self.loop = outer.loop
        self.endpoint = outer.endpoint
        self.dispatcher = outer.dispatcher

    @property
    def lifespan_state(self) -> Any:
        return self.run.state

    @property
    def flow(self) -> "ClientFlow | None":  # type: ignore[override]  # read from the outer one
        return self.outer.flow

    @property
    def has_kept_values(self) -> bool:
        return self._has_kept_values

    @has_kept_values.setter
    def has_kept_values(self, value: bool) -> None:
        # The outer session must not serve another caller either.
        self._has_kept_values = self.outer.has_kept_values = value

    @property
    def principal(self) -> "Principal | None":  # type: ignore[override]  # read from the outer one
        return self.outer.principal

    @property
    def is_shown(self) -> bool:
        return self.outer.is_shown

    @is_shown.setter
    def is_shown(self, value: bool) -> None:
        self.outer.is_shown = value

    @property
    def closers(self) -> "tuple[Callable[[], None], ...]":
        return self.outer.closers

    @closers.setter
    def closers(self, value: "tuple[Callable[[], None], ...]") -> None:
        self.outer.closers = value

    @property
    def is_lasting(self) -> bool:  # type: ignore[override]  # read from the outer one
        return self.outer.is_lasting

    def context(self, exchange: Exchange, params: object = None) -> Context[Any]:
        found = current.get(None)
        if found is None or found._exchange is not exchange:
            return inner_context(self, exchange, params, None)
        return found if found._session is self else inner_context(self, exchange, params, found)

    # Cancellation reaches the contexts of the outer session.

    def begin_in_thread(self, context: Context[Any]) -> "ClientFlow | None":
        return self.outer.begin_in_thread(context)

    def end_in_thread(self, context: Context[Any]) -> None:
        self.outer.end_in_thread(context)

    def channel(self, exchange: Exchange) -> "Channel":
        return self.outer.channel(exchange)

    def close(self) -> None:
        self.outer.close()

    def set_visible(
        self, names: tuple[str, ...], tags: "Iterable[str]", kind: ListKind | None, *, shows: bool
    ) -> None:
        session = outermost(self)
        if session.visibility is None:
            session.visibility = NO_RULES  # so that its lists look at what is shown
        super().set_visible(names, tags, kind, shows=shows)

    def list_changed(self, kind: ListKind) -> None:
        self.outer.list_changed(kind)


def outermost(session: Session) -> Session:
    """Return the session of the server that the client is connected to."""
    while isinstance(session, MountedSession):
        session = session.outer
    return session


def enter(session: Session, server: "ServerCore") -> MountedSession | None:
    """Return a session as a mounted server sees it; None while its lifespan is being entered."""
    mounted = session.mounted_sessions
    found = None if mounted is None else mounted.get(server)
    if found is not None and not found.run.is_over:
        return found
    run = lifespan_of(server).run
    if run is None:
        return None
    if found is not None:  # it was unmounted, and mounted again
        found.run = run
        return found
    if mounted is None:
        mounted = session.mounted_sessions = {}
    for gone in [each for each, entered in mounted.items() if entered.run.is_over]:
        mounted.pop(gone).release_values()
    entered = mounted[server] = MountedSession(session, server, run)
    return entered


async def enter_when_ready(session: Session, server: "ServerCore") -> MountedSession:
    """Return a session as a mounted server sees it, once its lifespan has been entered."""
    lifespan = lifespan_of(server)
    if not lifespan.is_running:  # it was mounted just now
        with suppress(Exception):  # of another one, or logged where it was started
            await session.server.mounts.wait()
    await lifespan.wait()
    entered = enter(session, server)
    assert entered is not None
    return entered
