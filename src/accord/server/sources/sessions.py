"""A client's session as a mounted server sees it."""

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from accord.protocol.exchange import Exchange
from accord.server.context import Context, current
from accord.server.hub import ListKind
from accord.server.params import read_params
from accord.server.session import Session
from accord.server.sources.lifespans import LifespanRun, lifespan_of
from accord.server.visibility import NO_RULES
from accord.types import CallToolParams, GetPromptParams, ReadResourceParams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from accord.principal import Principal
    from accord.runtime.handlers import ClientFlow
    from accord.server.core import ServerCore
    from accord.server.questions.channels import Channel


class MountedContext(Context[Any]):
    """A request as the handler of a mounted server sees it: by the names of that server."""

    __slots__ = ("_key", "_outer", "_received")

    def __init__(
        self, session: Session, exchange: Exchange, key: str | None, outer: Context[Any] | None
    ) -> None:
        super().__init__(session, exchange)
        self._key = key
        self._outer = outer
        self._received: Any = None
        if outer is not None:
            if outer._values is None:
                outer._values = {}
            self._values = outer._values

    @property
    def params(self) -> Any:
        if self._params is not None:
            return self._params
        if self._received is not None:
            self._params = read_params(self._exchange, self._received)
            return self._params
        found = super().params
        if isinstance(found, CallToolParams | GetPromptParams) and self._key is not None:
            found.name = self._key
        elif isinstance(found, ReadResourceParams) and self._key is not None:
            found.uri = self._key
        return found

    def receive(self, params: Any) -> None:
        """Take the params of the request as the mounted server sees them."""
        self._params, self._received = None, params

    def _fail(self, error: BaseException | None) -> None:
        """Note what a tool raised, for the middleware of both servers."""
        super()._fail(error)
        if self._outer is not None:
            self._outer._fail(error)


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
    def _contexts(self) -> Any:
        return self.outer._contexts

    @_contexts.setter
    def _contexts(self, value: Any) -> None:
        self.outer._contexts = value

    @property
    def closers(self) -> "tuple[Callable[[], None], ...]":
        return self.outer.closers

    @closers.setter
    def closers(self, value: "tuple[Callable[[], None], ...]") -> None:
        self.outer.closers = value

    @property
    def is_lasting(self) -> bool:  # type: ignore[override]  # read from the outer one
        return self.outer.is_lasting

    def context(self, exchange: Exchange, key: str | None = None) -> Context[Any]:
        found = current.get(None)
        if found is None or found._exchange is not exchange:
            return MountedContext(self, exchange, key, None)
        if found._session is self:
            return found
        return MountedContext(self, exchange, key, found)

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
