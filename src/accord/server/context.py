"""The context of one request: what its handler can know and do."""

import asyncio
import threading
from collections.abc import Awaitable
from contextvars import ContextVar
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.runtime.handlers import DONE, TURN, Done
from accord.server.params import read_params
from accord.server.questions.asking import AskingContext
from accord.types import Implementation, LoggingLevel, LogMessageParams, ProgressParams
from accord.types._base import JsonObject, RequestId, RevisionId

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import TypeVar as TypeVarWithDefault

    from accord.http.rules.headers import RequestFacts
    from accord.server.session import Session
    from accord.server.tasks.channel import RunningTask

    # A default keeps `Context` and `Server` usable without their parameter.
    State = TypeVarWithDefault("State", default=Any)
else:
    State = TypeVar("State")
Value = TypeVar("Value")

current: ContextVar["Context[Any]"] = ContextVar("accord_context")
# So many messages a handler may send before others get a turn, cancellations among them.
_AT_ONCE: Final = 16


class Context(AskingContext, Generic[State]):
    """One request, as its handler sees it.

    Taken by any handler parameter annotated `Context`, and found from anywhere below the handler by
    `Context.current()`. In worker threads everything works too; what is awaited elsewhere is waited
    for with `wait`.
    """

    # Most handlers use nothing of a context: what few set is in the dictionary that those get.
    __slots__ = ("__dict__",)

    _is_cancelled = False
    _failure: BaseException | None = None
    _sent = 0
    _params: Any = None
    _values: dict[type, Any] | None = None
    _waits: "set[Future[Any]] | None" = None

    def __init__(self, session: "Session", exchange: Exchange) -> None:
        self._session = session
        self._exchange = exchange

    @staticmethod
    def current() -> "Context[Any]":
        """Return the context of the request that is being handled here.

        Raises:
            LookupError: no request is being handled.
        """
        context = current.get(None)
        if context is None:
            raise LookupError("no request is handled here; give your own threads the context")
        return context

    # -- facts

    @property
    def request_id(self) -> RequestId:
        """The id of the request."""
        return self._exchange.id

    @property
    def method(self) -> str:
        """The method of the request."""
        return self._exchange.name

    @property
    def params(self) -> Any:
        """The typed params of the request, such as `CallToolParams` with `name` and `arguments`.

        What middleware changes in them reaches the next middleware and the handler.

        Raises:
            InvalidParams: a value in them cannot be read.
        """
        if self._params is None:
            self._params = read_params(self._exchange)
        return self._params

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the request; empty without one.

        Raises:
            InvalidParams: a value in it cannot be read.
        """
        if self._params is None:
            return self._exchange.meta
        return self._params.meta or {}

    @property
    def revision(self) -> RevisionId:
        """The revision under which the request is served."""
        return self._peer.revision.id

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version, as it says."""
        return self._peer.info

    @property
    def client_capabilities(self) -> frozenset[str]:
        """What the client declared, as dotted paths such as `roots.listChanged`."""
        return self._peer.capabilities

    @property
    def client_extensions(self) -> dict[str, JsonObject]:
        """The extensions that the client declared, by their ids, with its settings for each."""
        return {**self._peer.extensions}

    @property
    def state(self) -> State:
        """What the server's lifespan yielded."""
        return self._session.lifespan_state  # type: ignore[no-any-return]

    @property
    def session(self) -> "Session":
        """The connection to this client."""
        self._session.is_shown = True
        return self._session

    @property
    def principal(self) -> Principal | None:
        """The sender of the request, as its token says; None where no token is needed."""
        return self._session.principal_of(self._exchange)

    @property
    def request(self) -> "RequestFacts":
        """Address and headers of the HTTP request; empty over stdio and in memory."""
        origin = self._exchange.origin
        if origin is None:
            from accord.http.rules.headers import NO_FACTS

            return NO_FACTS
        facts: RequestFacts = origin.facts
        return facts

    @property
    def task(self) -> "RunningTask | None":
        """The task that this request became; None while it is answered directly."""
        return getattr(self._exchange.channel, "task", None)

    async def start_task(self) -> None:
        """Let the request become a task here, in a tool with `ask_first`; questions come before.

        Does nothing where the client does not understand tasks, or the request is one already.
        """
        start = getattr(self._exchange.channel, "start_task", None)
        if start is not None:
            await start()

    @property
    def is_cancelled(self) -> bool:
        """Whether the answer is no longer wanted; work in threads should look now and then."""
        return self._is_cancelled or self._exchange.cancelled

    @property
    def failure(self) -> BaseException | None:
        """The exception that the tool raised, for middleware; None without one.

        The result says no more than the caller may read. What the handlers of other requests raise
        reaches middleware as it is.
        """
        return self._failure

    def _fail(self, error: BaseException | None) -> None:
        self._failure = error

    # -- per-request state

    def put(self, value: object) -> None:
        """Keep a value for the rest of this request, found again by its type."""
        if self._values is None:
            self._values = {}
        self._values[type(value)] = value

    def get(self, type_: type[Value]) -> Value:
        """Return the value of this type that was kept.

        Raises:
            LookupError: none was.
        """
        for kept in (self._values or {}).values():
            if isinstance(kept, type_):
                return kept
        raise LookupError(f"no {type_.__name__} was kept for this request")

    # -- reporting

    def progress(
        self, progress: float, total: float | None = None, *, message: str | None = None
    ) -> Done:
        """Report how far the work has come, if the client asked for progress.

        Values that do not rise are left out, as are those after the end.

        Raises:
            ValueError: a value is not finite.
        """
        if not isfinite(progress) or (total is not None and not isfinite(total)):
            raise ValueError(f"progress is {progress} of {total}, expected finite numbers")
        token = self._exchange.token
        if token is None:
            return self._pace(DONE)
        params = ProgressParams(token, progress, total, message)
        return self._pace(self._session.send(self._progress, params, self._exchange))

    def _progress(self, params: ProgressParams) -> None:
        exchange = self._exchange
        rises = exchange.progress is None or params.progress > exchange.progress
        if rises and self.task is not None:
            self.task.notify("notifications/progress", params)
        elif rises and self._session.is_open(exchange):
            self._session.dispatcher.notify("notifications/progress", params, within=exchange)

    def log(self, level: LoggingLevel, data: object, *, logger: str | None = None) -> Done:
        """Send a log message to the client, unless it asked for more severe ones only."""
        if not self._session.wants_log(level, self._peer, is_kept=self.task is not None):
            return self._pace(DONE)
        params = LogMessageParams(level, _as_json(data), logger)
        return self._pace(self._session.send(self._log, params, self._exchange))

    def _pace(self, done: Done) -> Done:
        """Return what the sender of a message awaits: now and then, a turn for others."""
        self._sent += 1
        return done if done is not DONE or self._sent % _AT_ONCE else TURN

    def _log(self, params: LogMessageParams) -> None:
        if self.task is not None:
            self.task.notify("notifications/message", params)
        else:
            self._session.notify("notifications/message", params, self._exchange)

    def hang_up(self, *, retry: int | None = None) -> bool:
        """Close the connection while the work goes on; the client comes back for the answer.

        Possible over HTTP, in a session of 2025-11-25 whose streams can be resumed; else it returns
        False. `retry` is in how many milliseconds the client should come back.
        """
        origin = self._exchange.origin
        if origin is not None and origin.can_hang_up:
            self._session.run_here(origin.hang_up, retry)
            return True
        return False

    def debug(self, data: object) -> Done:
        """Log at level debug."""
        return self.log("debug", data)

    def info(self, data: object) -> Done:
        """Log at level info."""
        return self.log("info", data)

    def warning(self, data: object) -> Done:
        """Log at level warning."""
        return self.log("warning", data)

    def error(self, data: object) -> Done:
        """Log at level error."""
        return self.log("error", data)

    def wait(self, awaitable: Awaitable[Value]) -> Value:
        """Wait in a worker thread for what must run on the loop: `ctx.wait(ctx.elicit(...))`."""
        loop = self._session.loop
        if threading.get_ident() == self._session.thread:
            if asyncio.iscoroutine(awaitable):
                awaitable.close()
            raise RuntimeError("wait() is for worker threads; on the loop use await")

        async def wait() -> Value:
            return await awaitable

        future = asyncio.run_coroutine_threadsafe(wait(), loop)
        waits = self._waits = self._waits or set()
        waits.add(future)
        try:
            if self.is_cancelled:
                future.cancel()
            return future.result()
        finally:
            waits.discard(future)

    def _cancel(self) -> None:
        """Raise the flag that work in a thread looks at, and end what it waits for."""
        self._is_cancelled = True
        for future in list(self._waits or ()):
            future.cancel()

    def __repr__(self) -> str:
        return f"Context({self.method!r}, id={self.request_id!r})"


def _as_json(data: object) -> msgspec.Raw:
    """Encode any value to log: a log call must not fail the work it describes."""
    try:
        return msgspec.Raw(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError):
        text = str(data).encode(errors="backslashreplace").decode()
        return msgspec.Raw(msgspec.json.encode(text))
