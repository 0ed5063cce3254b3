"""`Depends`: parameters that the server fills in, and that clients never see.

`Scopes` has the values that outlive requests: kept for a session, or for the server.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, get_args, get_origin

import msgspec

from accord.errors import RegistrationError

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.injection import InjectionStep
    from accord.server.session import Session


Scope: TypeAlias = Literal["request", "session", "server"]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)


class Dependency(msgspec.Struct, frozen=True):
    """What a parameter depends on: made by a function, once for each scope."""

    function: Callable[..., object]
    scope: Scope


def Depends(function: Callable[..., object], *, scope: Scope = "request") -> Any:  # noqa: N802
    """Let the server fill a parameter in, by the value of a function.

    As `db: Annotated[Database, Depends(open_database)]` or `db: Database = Depends(open_database)`.
    The parameter is not part of the schema, and no client can set it.

    Args:
        function: a function, a generator that yields the value once and cleans up after it, a
            class, or a function that returns a context manager (`@asynccontextmanager`); async or
            not. It may take the `Context`, arguments of the handler by their names, and
            dependencies of its own. For the scope "server" it takes no `Context`, and for the
            scopes "server" and "session" no arguments.
        scope: how long the value is kept: for one "request", one "session" or the "server".

    Raises:
        RegistrationError: the function cannot be called, or the scope does not exist.
    """
    if not callable(function):
        raise RegistrationError(
            f"Depends({function!r:.80}): expected a function or a class, without calling it"
        )
    if scope not in SCOPES:
        raise RegistrationError(f"scope is {scope!r}, expected one of {', '.join(SCOPES)}")
    return Dependency(function, scope)


def find_dependency(annotation: object, default: object) -> Dependency | None:
    """Return what a parameter depends on; None for one that a client fills in."""
    if isinstance(default, Dependency):
        return default
    if get_origin(annotation) is Annotated:
        for each in get_args(annotation)[1:]:
            if isinstance(each, Dependency):
                return each
    return None


class _KeptValues:
    """Values that are kept for a session or for the server, each made once."""

    def __init__(self) -> None:
        self.values: dict[Callable[..., object], Any] = {}
        self._locks: dict[Callable[..., object], asyncio.Lock] = {}
        self._stack = AsyncExitStack()

    async def get(
        self, step: "InjectionStep", bound: Any, context: "Context[Any]", values: list[Any]
    ) -> Any:
        function = step.dependency.function
        if function in self.values:
            return self.values[function]
        # Requests that come meanwhile wait; where the first one fails, the next tries again.
        async with self._locks.setdefault(function, asyncio.Lock()):
            if function not in self.values:
                self.values[function] = await step.enter(self._stack, bound, context, values)
        return self.values[function]

    async def end(self) -> None:
        """End the values, the latest first."""
        self.values = {}
        stack, self._stack = self._stack, AsyncExitStack()
        await stack.aclose()


class _LoopScope:
    """What lives while the server is served on one loop."""

    def __init__(self) -> None:
        # By a key of its own each: two lifespans may yield equal states.
        self.states: dict[object, object] = {}
        self.lent: list[object] = []
        self.kept = _KeptValues()
        self.sessions: dict[int, _KeptValues] = {}
        self.ending: set[asyncio.Task[None]] = set()

    async def end(self) -> None:
        if self.ending:
            await asyncio.wait(self.ending)
        for kept in [*self.sessions.values()]:
            await kept.end()
        self.sessions = {}
        await self.kept.end()


class Scopes:
    """The values of a server that outlive requests, for each loop that serves it."""

    def __init__(self) -> None:
        self._loops: dict[asyncio.AbstractEventLoop, _LoopScope] = {}

    @asynccontextmanager
    async def open(self, state: object) -> Any:
        """Keep values until the last block on this loop is left.

        Args:
            state: what the lifespan yielded.
        """
        loop = asyncio.get_running_loop()
        scope = self._loops.setdefault(loop, _LoopScope())
        key = object()
        scope.states[key] = state
        try:
            yield
        finally:
            del scope.states[key]
            if not scope.states:
                self._loops.pop(loop, None)
                await scope.end()

    @contextmanager
    def lend(self, state: object) -> Iterator[None]:
        """Let apps on this loop use a state, in place of one of their own."""
        lent = self._here().lent
        lent.append(state)
        try:
            yield
        finally:
            lent.remove(state)

    def lent_states(self) -> list[object]:
        """Return the states that apps on this loop may use."""
        scope = self._loops.get(asyncio.get_running_loop())
        return [] if scope is None else scope.lent

    @property
    def have_values(self) -> bool:
        """Whether values are kept that have to be ended."""
        return any(scope.sessions or scope.kept.values for scope in self._loops.values())

    def running_states(self) -> list[object]:
        """Return the states of the lifespans that run on this loop."""
        scope = self._loops.get(asyncio.get_running_loop())
        return [] if scope is None else [*scope.states.values()]

    def _here(self) -> _LoopScope:
        return self._loops.setdefault(asyncio.get_running_loop(), _LoopScope())

    def of_loop(self) -> _KeptValues:
        """Return the values that are kept for the server."""
        return self._here().kept

    def of_session(self, session: "Session") -> _KeptValues:
        """Return the values that are kept for a session, until it is closed."""
        session.has_kept_values = True
        return self._here().sessions.setdefault(id(session), _KeptValues())

    def end_session(self, session: "Session") -> None:
        """End the values of a session, once its handlers have ended."""
        scope = self._loops.get(session.loop)
        kept = None if scope is None else scope.sessions.pop(id(session), None)
        if scope is None or kept is None or session.loop.is_closed():
            return

        async def end() -> None:
            await session.dispatcher.drain()
            await kept.end()

        task = session.loop.create_task(end())
        scope.ending.add(task)
        task.add_done_callback(scope.ending.discard)
