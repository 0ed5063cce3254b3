"""The context of one request: what its handler can know and do, and its params.

`ClientLogHandler` lets standard logging use it.
"""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, overload

import msgspec

from accord.errors import InvalidParams, MissingCapability, lower_first
from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer, elicitation_modes
from accord.runtime.handlers import DONE, TURN, Done, Unwound
from accord.server.questions.channels import Channel, missing_capability
from accord.server.schema.annotations import Choices
from accord.types import (
    CallToolParams,
    CreateMessageResult,
    ElicitParams,
    Implementation,
    LoggingLevel,
    LogMessageParams,
    ProgressParams,
    Root,
    TaskMetadata,
)
from accord.types._base import JsonObject, RequestId, RevisionId

if TYPE_CHECKING:
    from concurrent.futures import Future

    from typing_extensions import TypeVar as TypeVarWithDefault

    from accord.http.rules.headers import RequestFacts
    from accord.server.questions.input_requests import Message, SamplingOptions
    from accord.server.questions.url_elicitation import UrlElicitation
    from accord.server.session import ClientSession, Session
    from accord.server.tasks.channel import RunningTask

    # A default keeps `Context` and `Server` usable without their parameter.
    State = TypeVarWithDefault("State", default=Any)
else:
    State = TypeVar("State")
Value = TypeVar("Value")

current: ContextVar["Context[Any]"] = ContextVar("accord_context")
# So many messages a handler may send before others get a turn, cancellations among them.
_AT_ONCE: Final = 16


class Context(Generic[State]):
    """One request, as its handler sees it.

    Taken by any handler parameter annotated `Context`, and found from anywhere below the handler by
    `Context.current()`. In worker threads everything works too; what is awaited elsewhere is waited
    for with `wait`.
    """

    # Most handlers use nothing of a context: what few set is in the dictionary that those get.
    __slots__ = ("__dict__", "_exchange", "_session")

    _is_cancelled = False
    _failure: BaseException | None = None
    _sent = 0
    _params: Any = None
    _values: dict[type, Any] | None = None
    _outer: "Context[Any] | None" = None
    _received: Any = None
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
    def _peer(self) -> Peer:
        peer = self._exchange.peer
        assert peer is not None  # every request that a server receives has one
        return peer

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
            self._params = read_params(self._exchange, self._received)
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
    def session(self) -> "ClientSession":
        """The session of this client."""
        return self._session.face

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
        if self._outer is not None:  # for the middleware of both servers
            self._outer._fail(error)

    def _receive(self, params: Any) -> None:
        """Take the params of the request as a mounted server sees them: by its own names."""
        self._params, self._received = None, params

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

    # -- asking the client: its model, its user, its roots

    async def sample(
        self,
        messages: "Message | Sequence[Message]",
        *,
        max_tokens: int = 1024,
        system_prompt: str | None = None,
        timeout: float | None = None,
        key: str | None = None,
        **options: "Unpack[SamplingOptions]",
    ) -> CreateMessageResult:
        """Ask the client's model.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Args:
            messages: text, messages, and earlier results as the model's own messages. A result
                with `tool_uses` is followed by a user message with a `ToolResultContent` for each.
            max_tokens: the longest answer.
            system_prompt: instructions for the model.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, as that of `elicit`.
            options: see `SamplingOptions`: tools, temperature, preferences and others.

        Raises:
            MissingCapability: the client did not declare sampling, `sampling.tools` for tools, or
                `sampling.context` for context.
            ValueError: a tool use has no result in the next message, or a result is out of place.
            RequestError: the client or its user refused.
        """
        from accord.server.questions.input_requests import build_sampling

        params = build_sampling(
            messages, options, max_tokens=max_tokens, server=self._session.server, peer=self._peer
        )
        params.system_prompt = system_prompt
        result = await self._ask("sampling", "sampling/createMessage", params, timeout, key)
        assert isinstance(result, CreateMessageResult)
        return result

    @overload
    async def elicit(
        self,
        message: str,
        form: type[Value],
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Value: ...
    @overload
    async def elicit(
        self,
        message: str,
        form: Choices | JsonObject,
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Any: ...
    async def elicit(
        self,
        message: str,
        form: Any,
        *,
        timeout: float | None = None,
        key: str | None = None,
        task: bool = False,
    ) -> Any:
        """Ask the user to fill in a form, and return it.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Args:
            message: what to ask.
            form: a flat type: its fields are strings, numbers, booleans, choices of one or lists of
                choices. Or one of these alone, such as `str`. Or `Choices`, whose values may have
                titles. Or a JSON Schema written by hand; the answer is then a dictionary.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, for clients of 2026-07-28; by default made
                from what is asked.
            task: whether the client may answer later, as a task; where it cannot, it answers at
                once.

        Raises:
            ElicitationRefused: the user declined or cancelled; `.action` says which. It is a
                ToolError, so a tool that does not catch it reports it to its caller.
            MissingCapability: the client did not declare elicitation by form, or its revision has
                no form for a choice of several.
        """
        from accord.server.questions.input_requests import check_accepted, refuse_later_mode
        from accord.server.schema.forms import form_of

        schema, read = form_of(form)
        params = ElicitParams(message=message, requested_schema=schema)
        if task and self._peer.revision.tasks:
            params.task = TaskMetadata()
        refuse_later_mode(params, self._peer.revision)
        result = await self._ask("elicitation", "elicitation/create", params, timeout, key)
        filled = (check_accepted(result).content or {}).items()
        return read({name: value for name, value in filled if value is not None})

    async def elicit_url(
        self, message: str, url: str, *, timeout: float | None = None, key: str | None = None
    ) -> "UrlElicitation":
        """Ask the user to visit a page, for what must not pass through the client, such as secrets.

        Code before the question runs again: for clients of 2026-07-28 the handler starts anew when
        the answer is there. Ask before you act, or act in `await ctx.once(key, function)`.

        Returns when the user has agreed to open it. What happens there is for the page to say: its
        handler calls `server.elicitation_completed(id)`, and `await elicitation.wait()` waits for
        that.

        Args:
            message: why the user should visit it.
            url: the page, by https or on this machine; `{elicitation_id}` in it becomes the id.
                No secrets or personal data: the client and its user see it.
            timeout: seconds to wait; by default as long as the server waits for anything.
            key: names the question within the request, as that of `elicit`.

        Raises:
            ElicitationRefused: the user declined or cancelled; `.action` says which.
            MissingCapability: the client did not declare `elicitation.url`, or its revision has no
                such mode.
            ValueError: the URL is not one that a client may show.
        """
        from accord.server.questions.input_requests import check_accepted, refuse_later_mode
        from accord.server.questions.url_elicitation import KEPT_PAGE, make_id, page_key

        session, id = self._session, None
        if self._peer.revision.rounds:
            # The page is the same in every round of the request, whatever its URL holds.
            key = key or page_key(message, url)
            id = await self._channel.once(f"{KEPT_PAGE}{key}", make_id, str)
        elicitations = session.server.elicitations
        elicitation = elicitations.add(message, url, session, self._exchange, id=id)
        params = elicitation.params()
        try:
            await elicitations.share(elicitation)
            refuse_later_mode(params, self._peer.revision, "elicitation by URL")
            result = await self._ask("elicitation.url", "elicitation/create", params, timeout, key)
            check_accepted(result)
        except Unwound:
            raise  # the page stays known while the question is on its way
        except BaseException:
            elicitations.discard(elicitation)
            raise
        return elicitation

    def prepare_url(self, message: str, url: str) -> "UrlElicitation":
        """Return a page to raise `UrlElicitationRequired` with: the client shows it, and retries.

        Args:
            message: why the user should visit it.
            url: as that of `elicit_url`.

        Raises:
            ValueError: the URL is not one that a client may show.
        """
        return self._session.server.elicitations.prepare(self, message, url)

    async def roots(self, *, timeout: float | None = None, key: str | None = None) -> list[Root]:
        """Ask which places of the user's file system matter.

        Raises:
            MissingCapability: the client did not declare roots.
        """
        result = await self._ask("roots", "roots/list", None, timeout, key)
        roots: list[Root] = result.roots
        return roots

    async def once(
        self, key: str, function: Callable[[], Any], *, result_type: type[Value] | Any = Any
    ) -> Any:
        """Call a function once for this request, however often its handler runs.

        A question may end the handler, which runs again from its start when the answer is there.
        What must not happen again, such as an order, goes through here. The result travels with the
        question and back: it has to be JSON, and the client can read it.

        Args:
            key: names the result within this request.
            function: called without arguments in the first run; may be async.
            result_type: the type to read the result as.
        """
        return await self._channel.once(key, function, result_type)

    @property
    def _channel(self) -> Channel:
        channel: Channel | None = self._exchange.channel
        if channel is None:
            channel = self._exchange.channel = self._session.channel(self._exchange)
        return channel

    async def _ask(
        self,
        capability: str,
        name: str,
        params: Any,
        timeout: float | None,
        key: str | None = None,
    ) -> Any:
        revision = self._peer.revision
        if not revision.rounds and name not in revision.requests["server"]:
            raise MissingCapability(f"{name} does not exist in revision {revision.id}")
        declared = self._peer.capabilities
        if capability not in declared:
            raise missing_capability(capability)
        # elicitation.mode.supported-only
        if capability == "elicitation" and "form" not in elicitation_modes(declared):
            raise missing_capability("elicitation.form")
        return await self._channel.ask(
            name, params, key=key, timeout=timeout or self._session.server.ask_timeout
        )

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


# Makes a context without `__init__`, which would take 0.1 µs of every call. `Session.context` alone
# does so, and sets the two attributes that `__init__` sets.
new_context: Final = Context.__new__


def _as_json(data: object) -> msgspec.Raw:
    """Encode any value to log: a log call must not fail the work it describes."""
    try:
        return msgspec.Raw(msgspec.json.encode(data))
    except (TypeError, ValueError, RecursionError):
        text = str(data).encode(errors="backslashreplace").decode()
        return msgspec.Raw(msgspec.json.encode(text))


_LEVELS: Final[tuple[tuple[int, LoggingLevel], ...]] = (
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (logging.INFO, "info"),
)


class ClientLogHandler(logging.Handler):
    """Sends log records to the client whose request is being handled where they are made.

    Add it to the loggers that clients may read: `logging.getLogger("desk").addHandler(...)`. The
    client chooses the level; what is logged outside of requests, and what accord logs itself, is
    left out. Exceptions are left out too: they may name files, hosts or secrets.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record, if a request is being handled."""
        context = current.get(None)
        if context is None or record.name.partition(".")[0] == "accord":
            return
        try:
            context.log(_level(record.levelno), record.getMessage(), logger=record.name)
        except Exception:
            self.handleError(record)


def _level(number: int) -> LoggingLevel:
    return next((name for floor, name in _LEVELS if number >= floor), "debug")


# -- the params of a request as its handler and middleware see them


def read_params(exchange: Exchange, params: Any = None) -> Any:
    """Return the params of a request with all their parts decoded, as a copy.

    Args:
        exchange: the request.
        params: those that a mounted server gets; by default those that were received.

    Raises:
        InvalidParams: a value in them cannot be read.
    """
    if params is None:
        params = exchange.params
    if params is None:
        return None
    params = params.__copy__()
    params.meta = exchange.meta or None
    if isinstance(params, CallToolParams):
        params.arguments = decode_arguments(exchange.name, params.arguments)
    return params


def decode_arguments(name: str, arguments: Any) -> Any:
    """Return the arguments of a tool call as Python values."""
    if arguments is msgspec.UNSET:
        return {}
    if arguments.__class__ is not msgspec.Raw:
        return arguments
    try:
        return msgspec.json.decode(arguments)
    except (ValueError, RecursionError) as error:
        raise InvalidParams(f"{name}: {lower_first(error)}") from None
