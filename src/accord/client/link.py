"""One live connection: the wire, the conversation on it, and one task that owns both.

Because one task opens and closes the wire, `close` may be called from any task, in any order
and more than once. Nothing here refers to the public client, so that a forgotten one is noticed.
"""

import asyncio
import atexit
import contextlib
import logging
import math
from collections import Counter
from collections.abc import Coroutine, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from accord import errors
from accord.client.options import CallOptions, ClientSettings, OnProgress, check_meta, check_seconds
from accord.client.results import OutputSchema, PageGuard, add_advice, read_pages
from accord.errors import (
    AccordError,
    ConnectFailed,
    ConnectionClosed,
    LocalProtocolError,
    MessageTooLarge,
    RequestError,
    RequestTimeout,
    ResourceNotFound,
    UrlElicitationRequired,
    refuse_unknown,
)
from accord.http.client.auth import pause_deadline
from accord.http.rules.headers import check_headers
from accord.protocol import shape
from accord.protocol.endpoint import Endpoint
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.party import META_CLIENT, META_LOG_LEVEL, capability_paths
from accord.protocol.revisions import REVISIONS, Revision
from accord.protocol.violation import CLIENT
from accord.runtime.dispatcher import Dispatcher
from accord.runtime.eager import start
from accord.runtime.wire import CALL_HEADERS, Wire
from accord.stdio.lines import LineTooLong
from accord.types import (
    ClientCapabilities,
    Implementation,
    InputRequiredResult,
    JsonObject,
    ListToolsResult,
    LoggingLevel,
    PageParams,
    ProgressParams,
    RevisionId,
    ServerCapabilities,
    SetLevelParams,
    SubscribeParams,
    Tool,
)
from accord.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accord.client.cache import ResultCache
    from accord.client.middleware import ClientMiddleware
    from accord.client.negotiation import Opening
    from accord.client.subscriptions import CallbackStream, NoticeReader
    from accord.protocol.mirroring import MirroredArgument
    from accord.types import SubscriptionFilter
    from accord.types._base import RequestId

log = logging.getLogger("accord.client")
Result = TypeVar("Result")

# Requests that may take long: they carry a progress token even without a callback, because
# progress extends their deadline.
_LONG: Final = frozenset({"tools/call", "resources/read", "prompts/get"})
# How long callbacks may take to notice that they are cancelled.
_CALLBACK_GRACE: Final = 1.0

_TASKS: Final = "io.modelcontextprotocol/tasks"
TOOL_TASKS: Final = "tasks.requests.tools.call"
ERRORS: Final[dict[int, type[RequestError]]] = {
    kind.default_code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, RequestError) and kind is not RequestError
}

_open_links: Final[set["Link"]] = set()


@atexit.register
def _abort_all() -> None:
    for link in list(_open_links):
        link.wire.abort()


class Link:
    """A connection from its opening to its end, on the loop it was made on."""

    def __init__(self, wire: Wire, settings: ClientSettings) -> None:
        self.wire = wire
        self.settings = settings
        self.callbacks = settings.build_callbacks()
        self.callbacks.on_tools_changed = self.forget_tools
        self.endpoint = Endpoint(
            CLIENT, revisions=settings.offered_revisions(), limits=settings.limits
        )
        self.dispatcher = Dispatcher(self.endpoint, wire.write, self.callbacks)
        if hasattr(wire, "report_to"):
            wire.report_to(self)
        # "http" or "sse", if each message travels by itself.
        self.transport: str | None = getattr(wire, "transport", None)
        # Methods of a server without handshake that need a capability it did not declare.
        self._lacking: dict[str, str] = {}
        # Of listed tools: what headers repeat, output schemas, and whether tasks run them.
        self.mirrored: dict[str, tuple[MirroredArgument, ...]] = {}
        self.outputs: dict[str, OutputSchema] = {}
        self.task_support: dict[str, str] = {}
        self.opening: Opening
        self.loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[None] = self.loop.create_future()
        self._opened: asyncio.Future[None] = self.loop.create_future()
        self._life: asyncio.Task[None] | None = None
        self._tokens = count(1)
        self._usual = self.deadlines({})
        # Set while the connection is opened.
        self.deadline: asyncio.Timeout | None = None
        # Restored when a new session begins; without sessions sent with each request.
        self.log_level: LoggingLevel | None = None
        self.subscriptions: dict[str, None] = {}
        self.side = SideWork(self.loop)
        self.middleware: tuple[ClientMiddleware, ...] = tuple(settings.middleware)

    # -- life

    async def open(self) -> None:
        """Open the wire; a caller that is cancelled meanwhile leaves nothing behind."""
        self._life = self.loop.create_task(self._live(), name="accord-connection")
        _open_links.add(self)
        await asyncio.shield(self._opened)

    async def _live(self) -> None:
        try:
            await self.wire.open(self._receive, self._on_lost)
            self._opened.set_result(None)
            await self._ending
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            if not isinstance(error, Exception):
                if self._is_stopped():
                    raise
                # A server in this process may raise exceptions that end tasks.
                why = f"the server raised {type(error).__name__} while it started"
                error = ConnectFailed(why, phase="starting").with_traceback(error.__traceback__)
            self._opened.set_exception(error)
            # Marked as retrieved: connecting may have been given up at the same moment.
            self._opened.exception()
        finally:
            self._opened.cancel()
            await self._end()

    def _is_stopped(self) -> bool:
        """Whether our task is cancelled or closed, rather than something within it."""
        try:
            task = asyncio.current_task()
        except RuntimeError:
            return True
        return task is not self._life or task is None or task.cancelling() > 0

    async def _end(self) -> None:
        try:
            self.dispatcher.close(ConnectionClosed("the client is closed"))
            await self.wire.close()
            await self._end_callbacks()
        except BaseException as error:
            if not isinstance(error, Exception) and (
                isinstance(error, KeyboardInterrupt | SystemExit) or self._is_stopped()
            ):
                raise
            log.exception("the connection did not close cleanly")
        finally:
            self.wire.abort()
            _open_links.discard(self)

    async def _end_callbacks(self) -> None:
        callbacks = [*self.callbacks.tasks(), *self.side.tasks]
        for task in callbacks:
            task.cancel()
        working: set[asyncio.Future[Any]] = {*callbacks, *self.dispatcher.running.values()}
        if working:
            _, stuck = await asyncio.wait(working, timeout=_CALLBACK_GRACE)
            if stuck:
                log.warning("%d callbacks go on although the client is closed", len(stuck))

    def _receive(self, message: bytes) -> None:
        if self.dispatcher.closed is None:
            self.callbacks.latest = message
            try:
                self.dispatcher.receive(message)
            except Exception:
                log.exception("a message of the server could not be taken in")

    def _on_lost(self, why: str) -> None:
        self.dispatcher.close(ConnectionClosed(why))
        self._end_soon()

    def _end_soon(self) -> None:
        if not self._ending.done():
            self._ending.set_result(None)

    async def close(self) -> None:
        """End the connection and wait until nothing of it is left."""
        life = self._life
        if life is None or life.done():
            return
        if self.loop.is_closed():
            self.abandon()
        elif asyncio.get_running_loop() is not self.loop:
            elsewhere = asyncio.run_coroutine_threadsafe(self.close(), self.loop)
            await asyncio.wrap_future(elsewhere)
        else:
            self._end_soon()
            if not self._opened.done():
                life.cancel()
            # The end goes on although the caller is cancelled, or is one of our own callbacks.
            await asyncio.wait([life])

    async def wait_closed(self) -> None:
        """Wait until the connection has ended."""
        if self._life is not None:
            await asyncio.wait([self._life])

    def abandon(self) -> None:
        """End a connection that cannot be used any more; from any thread."""
        if self._life is None or self._life.done():
            return
        log.warning("a client was not closed; its connection is ended")
        if self.loop.is_running():
            with contextlib.suppress(RuntimeError):  # the loop was closed in between
                self.loop.call_soon_threadsafe(self._end_soon)
                return
        self.wire.abort()
        _open_links.discard(self)

    @property
    def is_closed(self) -> bool:
        return self.dispatcher.closed is not None

    # -- for wires on which each message travels by itself (`WireListener`)

    @property
    def revision(self) -> Revision:
        return self.endpoint.revision

    def is_waiting(self, id: "RequestId") -> bool:
        return id in self.endpoint.conversation.client.open

    def request_failed(self, id: "RequestId", error: AccordError) -> None:
        self.dispatcher.give_up(id, error)

    def message_dropped(self, line: LineTooLong) -> None:
        self.callbacks.latest = b""
        self.dispatcher.receive_malformed(line)

    def mirrored_arguments(self, tool: str) -> "tuple[MirroredArgument, ...]":
        return self.mirrored.get(tool, ())

    def session_renewed(self) -> None:
        """Restore log level and subscriptions in a new session, and tell the application."""
        if self.callbacks.on_tools_changed is not None:
            self.callbacks.on_tools_changed()
        self.dispatcher.spawn(self._restore())

    @contextlib.contextmanager
    def pause_timeouts(self) -> Iterator[None]:
        self.dispatcher.pauses += 1
        try:
            with pause_deadline(self.deadline, self.settings.connect_timeout):
                yield
        finally:
            self.dispatcher.pauses -= 1

    async def _restore(self) -> None:
        try:
            if self.log_level is not None:
                await self.ask("logging/setLevel", SetLevelParams(self.log_level), {})
            for uri in {**self.subscriptions, **self.side.watched}:
                await self.ask("resources/subscribe", SubscribeParams(uri), {})
        except AccordError as error:
            log.warning(
                "log level or subscriptions could not be restored in the new session: %s", error
            )
        self.side.renew()
        self.callbacks.session_renewed()

    # -- tools that were listed

    @property
    def has_tasks(self) -> bool:
        """Whether tools may be called as tasks by the client's wish."""
        if not self.endpoint.revision.tasks:
            return False
        return TOOL_TASKS in (self.endpoint.conversation.server.capabilities or ())

    def learn_tools(self, tools: "Iterable[Tool]") -> None:
        """Remember output schemas, and which tools run as tasks."""
        has_tasks, revision = self.has_tasks, self.revision.id
        for tool in tools:
            # A schema has no meaning in a revision that does not define it.
            known = None if tool.output_schema is None else shape.narrow(tool, revision)
            if known is not None and known.output_schema is not None:
                self.outputs[tool.name] = OutputSchema(tool.name, known.output_schema)
            else:
                self.outputs.pop(tool.name, None)
            if has_tasks:
                wish = tool.execution and tool.execution.task_support
                self.task_support[tool.name] = wish or "forbidden"

    def forget_tools(self) -> None:
        self.outputs.clear()
        self.task_support.clear()

    # -- revisions without handshake

    @property
    def client_info(self) -> Implementation:
        """Our name and version."""
        return self.settings.client_info or Implementation("accord", __version__)

    def introduce(self, revision: RevisionId) -> None:
        """Put our name and capabilities into the requests of a revision without handshake."""
        # `call_tool` waits for a task by itself, so servers may always answer with one.
        able = msgspec.structs.replace(self.callbacks.capabilities, extensions={_TASKS: {}})
        self.endpoint.request_meta = request_meta(revision, able, self.client_info, self.log_level)

    def begin(self, revision: RevisionId, capabilities: ServerCapabilities) -> None:
        """Speak a revision without handshake from now on."""
        if self.settings.on_log is not None and capabilities.logging is not None:
            # As servers do after a handshake, until they are asked for another level.
            self.log_level = "info"
        self.introduce(revision)
        self._lacking = lacking_capabilities(revision, capabilities)
        self.endpoint.conversation.begin(
            REVISIONS[revision], server=capabilities, client=self.callbacks.capabilities
        )

    async def set_log_level(self, level: LoggingLevel, how: CallOptions) -> None:
        """Choose the least level of log messages, in this session or with each request."""
        revision = self.revision
        if revision.handshake:
            await self.ask("logging/setLevel", SetLevelParams(level), how)
            self.log_level = level
            return
        self.deadlines(how)
        if "logging" not in (self.endpoint.conversation.server.capabilities or ()):
            text = "log messages need the capability logging, which the server did not declare"
            raise LocalProtocolError(text)
        self.log_level = level
        self.introduce(revision.id)

    # -- asking

    async def ask(
        self,
        name: str,
        params: Any,
        how: CallOptions,
        *,
        answers: bool = True,
        is_direct: bool = False,
    ) -> Any:
        """Send a request and wait for its result, within the deadlines.

        Args:
            name: the method.
            params: its params.
            how: the options of the call.
            answers: whether questions are answered; otherwise they are returned.
            is_direct: whether the middleware was passed already.
        """
        if self.middleware and not is_direct:
            from accord.client.middleware import ask_through

            return await ask_through(self, name, params, how, answers=answers)
        dispatcher = self.dispatcher
        if dispatcher.closed is not None:
            raise type(dispatcher.closed)(str(dispatcher.closed))
        if name in self._lacking:
            raise LocalProtocolError(describe_lack(name, self._lacking[name]))
        if "headers" in how:
            return await self._ask_with_headers(name, params, how, answers=answers)
        timeout, cap = self.deadlines(how) if how else self._usual
        on_progress, meta = self.settings.on_progress, None
        started, feed = 0.0, None
        if how:
            on_progress = how.get("on_progress") or on_progress
            meta = check_meta(how["meta"]) if how.get("meta") is not None else None
        if on_progress is not None or name in _LONG:
            started = self.loop.time()
            token = {"progressToken": next(self._tokens)}
            meta = {**token, **meta} if meta else token
        params.meta = meta
        if self.wire.is_congested:
            await self._until_writable(name, timeout)
        try:
            deliver: OnProgress | None = None
            if on_progress is not None:
                feed = self.callbacks.progress_feed(on_progress)
                deliver = feed.deliver
            send = self._send_plainly if isinstance(params, dict) else dispatcher.request
            result = await send(name, params, timeout=timeout, cap=cap, on_progress=deliver)
        except AccordError as error:
            raise self._explain(error, name) from None
        finally:
            if feed is not None:
                self.callbacks.finish(feed)
        if result.__class__ is InputRequiredResult and answers:
            from accord.client.rounds import answer_and_repeat

            return await answer_and_repeat(self, name, params, how, result, started=started)
        return result

    async def _send_plainly(self, name: str, params: Any, **limits: Any) -> Any:
        """Send params that are plain JSON rather than a message type."""
        from accord.client.plain_requests import send_plainly

        return await send_plainly(self, name, params, **limits)

    async def fetch(self, name: str, params: Any, how: CallOptions) -> Any:
        """Return a result that is still fresh; ask for any other."""
        if not (self.revision.cache_hints and self.settings.cache) or self.is_closed:
            return await self.ask(name, params, how)
        from accord.client.cache import fetch

        return await fetch(self, name, params, how)

    async def _ask_with_headers(
        self, name: str, params: Any, how: CallOptions, *, answers: bool
    ) -> Any:
        how = how.copy()
        headers = how.pop("headers") or {}
        check_headers(headers)
        unset = CALL_HEADERS.set(headers)
        try:
            return await self.ask(name, params, how, answers=answers, is_direct=True)
        finally:
            CALL_HEADERS.reset(unset)

    async def visit_and_repeat(
        self, error: UrlElicitationRequired, name: str, params: Any, how: CallOptions
    ) -> Any:
        """Show the user the pages that a request needs, then repeat the request, once.

        Raises:
            UrlElicitationRequired: there is no `on_elicit_url`, or the user did not agree.
        """
        timeout, _ = self.deadlines(how)
        if not await self.callbacks.visit_all(error.elicitations, timeout):
            raise error
        return await self.ask(name, params, how)

    def notify(self, name: str, params: Any) -> None:
        if self.dispatcher.closed is not None:
            raise ConnectionClosed(str(self.dispatcher.closed))
        self.dispatcher.notify(name, params)

    def report(self, params: ProgressParams) -> None:
        """Send progress on a question of the server that is still open, if it rises."""
        exchange = self.endpoint.conversation.server.tokens.get(params.progress_token)
        # progress.notification.active-only, progress.value.increases
        if exchange is not None and (
            exchange.progress is None or params.progress > exchange.progress
        ):
            self.notify("notifications/progress", params)

    def deadlines(self, how: CallOptions) -> tuple[float | None, float | None]:
        """Return the silence and the time in all that a call may take; None for no limit."""
        refuse_unknown("a call", how, CallOptions.__annotations__)
        timeout, cap = how.get("timeout"), how.get("cap")
        check_seconds("timeout", timeout)
        check_seconds("cap", cap)
        timeout = self.settings.timeout if timeout is None else timeout
        cap = self.settings.cap if cap is None else cap
        return (None if timeout == math.inf else timeout, None if cap == math.inf else cap)

    async def _until_writable(self, name: str, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self.wire.writable()
        except TimeoutError:
            why = f"{name}: not sent, the server read nothing for {timeout:g} s (timeout)"
            raise RequestTimeout(why) from None

    def _explain(self, error: AccordError, name: str) -> AccordError:
        if isinstance(error, LocalProtocolError) and not isinstance(error, MessageTooLarge):
            return LocalProtocolError(self._reason(error, name), error.violations)
        if isinstance(error, RequestError):
            kind = ERRORS.get(error.code, RequestError)
            if name == "resources/read" and self._names_missing_resource(error):
                kind = ResourceNotFound
            typed = kind(error.message, code=error.code, data=error.data)
            if isinstance(typed, UrlElicitationRequired):
                typed.elicitations = read_pages(error.data)
            typed.is_received = error.is_received
            return add_advice(typed)
        if isinstance(error, ConnectionClosed):
            return ConnectionClosed(str(error))
        return error

    def _names_missing_resource(self, error: RequestError) -> bool:
        """Whether an error says that a resource does not exist, by the code of the revision."""
        is_named = isinstance(error.data, dict) and "uri" in error.data
        return is_named and error.code == self.revision.not_found_code

    def _reason(self, error: LocalProtocolError, name: str) -> str:
        """Return why a request may not be sent, in terms of the caller."""
        revision, state = self.endpoint.revision, self.endpoint.conversation.server
        if name not in revision.requests[CLIENT]:
            return f"{name} is not part of revision {revision.id}, which was negotiated"
        needed = revision.needed_for(CLIENT, name)
        if needed is not None and needed not in (state.capabilities or ()):
            return describe_lack(name, needed)
        return f"{name}: {error}"


# -- what a connection does beside its requests


class SideWork:
    """The tasks, readers and kept results of one connection.

    Attributes:
        tasks: those that end with the connection at the latest.
        readers: the readers of notices that belong to no request, with what they want to hear of.
        watched: how many of them listen to a resource, by its URI.
        stream: the stream of notices for the callbacks, where there are no sessions.
        cache: fresh results, once one was fetched that may be kept.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self.readers: list[tuple[SubscriptionFilter, NoticeReader]] = []
        self.watched: Counter[str] = Counter()
        self.stream: CallbackStream | None = None
        self.cache: ResultCache | None = None

    def spawn(self, work: Coroutine[Any, None, Result], name: str) -> asyncio.Task[Result]:
        """Run work that ends with the connection at the latest; it begins at once."""
        task = start(self._loop, work, name)
        if not task.done():
            self.tasks.add(task)
            task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised to its caller, which may be gone

    def renew(self) -> None:
        """Let readers know that notices of the last session may be lost."""
        for _, reader in list(self.readers):
            reader.renew("the session ended and a new one was begun")


# -- what requests without a handshake say about the client, and which ones a server can answer


def request_meta(
    revision: RevisionId,
    capabilities: ClientCapabilities,
    info: Implementation,
    level: LoggingLevel | None,
) -> JsonObject:
    """Return the `_meta` of each request."""
    meta: JsonObject = {
        META_VERSION: revision,
        META_CAPABILITIES: _encode(shape.narrow(capabilities, revision)),
        META_CLIENT: _encode(shape.narrow(info, revision)),
    }
    if level is not None:
        meta[META_LOG_LEVEL] = level
    return meta


def _encode(value: object) -> msgspec.Raw:
    """Encode once what each request repeats."""
    return msgspec.Raw(msgspec.json.encode(value))


def lacking_capabilities(revision: RevisionId, server: ServerCapabilities) -> dict[str, str]:
    """Return by method the capability that it needs and that a server did not declare."""
    row, declared = REVISIONS[revision], capability_paths(server)
    needs = {name: row.needed_for(CLIENT, name) for name in row.requests[CLIENT]}
    return {name: each for name, each in needs.items() if each and each not in declared}


def describe_lack(name: str, capability: str) -> str:
    """Return why a request is not sent."""
    return f"{name} needs the capability {capability}, which the server did not declare"


# -- tool arguments that HTTP headers repeat: learned from the input schemas of listed tools


def learn_headers(link: Link, page: ListToolsResult) -> None:
    """Remember which arguments headers repeat; tools with invalid annotations are left out."""
    page.tools = [tool for tool in page.tools if _learn(link, tool)]


def _learn(link: Link, tool: Tool) -> bool:
    from accord.protocol.mirroring import mirrored_arguments

    try:
        found = mirrored_arguments(tool.input_schema)
    except ValueError as error:
        # tools.x-mcp-header.client-drops-invalid-tool, tools.x-mcp-header.client-warns
        log.warning("tool %r is left out of the list: %s", tool.name[:100], error)
        link.mirrored.pop(tool.name, None)
        return False
    if found:
        link.mirrored[tool.name] = found
    else:
        link.mirrored.pop(tool.name, None)
    return True


async def learn_anew(link: Link, name: str) -> bool:
    """List the tools again, up to the named one; return whether its headers are others now."""
    known = link.mirrored.get(name)
    pages = PageGuard("tools/list", link.settings.empty_pages)
    cursor = None
    while True:
        page: ListToolsResult = await link.fetch("tools/list", PageParams(cursor), {"fresh": True})
        learn_headers(link, page)
        cursor = page.next_cursor
        if cursor is None or any(tool.name == name for tool in page.tools):
            return link.mirrored.get(name) != known
        pages.check(page.tools, cursor)
