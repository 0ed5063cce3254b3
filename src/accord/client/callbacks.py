"""Messages of the server: requests are answered, notifications are passed to callbacks.

A callback that fails is logged and never ends the connection.
"""

import asyncio
import inspect
import logging
import os
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakValueDictionary

import msgspec

from accord.client.options import (
    ClientSettings,
    Elicited,
    OnElicit,
    OnElicitUrl,
    OnSample,
    RootList,
    Roots,
)
from accord.errors import (
    InternalError,
    InvalidParams,
    MethodNotFound,
    MissingExtra,
    RequestError,
)
from accord.json_schema.validation import compile_schema
from accord.protocol.exchange import Exchange, NotificationReceived, Refused
from accord.protocol.party import Bounded
from accord.protocol.questions import find_choice_fault, find_tool_fault
from accord.runtime.dispatcher import Dispatcher
from accord.runtime.tasks import is_pressed, run_in_thread
from accord.types import (
    ClientCapabilities,
    ClientTaskRequests,
    ClientTasksCapability,
    CreateMessageParams,
    CreateMessageResult,
    ElicitationCapability,
    ElicitationTasks,
    ElicitParams,
    ElicitResult,
    EmptyResult,
    JsonObject,
    ListRootsResult,
    LogMessageParams,
    Root,
    RootsCapability,
    SamplingCapability,
    SamplingTasks,
)

if TYPE_CHECKING:
    from accord.client.tasks import HostedTasks, ToolTask

log = logging.getLogger("accord.client")
Value = TypeVar("Value")

# How many notifications may wait for a slow callback; further ones are dropped.
FEED_LENGTH: Final = 1_000
# A server that prints to stdout does so again and again; one line for each would fill the log.
BREACHES_LOGGED: Final = 20
_RELATED: Final = "io.modelcontextprotocol/related-task"
_RENEWED: Final = "a renewed session"
_COMPLETE: Final = "notifications/elicitation/complete"
_REFUSED_BY_USER: Final = -1
# Bytes of questions that may wait for a model or a person; one question may be of any size.
_QUESTIONS_MOST: Final = 32 * 1024 * 1024
# How many pages whose end was not announced are remembered; most servers announce none.
_PAGES_REMEMBERED: Final = 1_000
# How many pages one error may ask the user to visit before a request is repeated.
_PAGES_MOST: Final = 10


class Feed:
    """Passes notifications to a callback, one after another and in order."""

    def __init__(self, callback: Callable[..., object], about: str) -> None:
        self._callback = callback
        self._about = about
        self._waiting: deque[tuple[object, ...]] = deque()
        self._dropped = 0
        self.task: asyncio.Future[object] | None = None

    def deliver(self, *news: object) -> None:
        """Call the callback now, or after those before it."""
        if self.task is None:
            self._call(news)
        elif len(self._waiting) < FEED_LENGTH:
            self._waiting.append(news)
        else:
            if not self._dropped:
                log.warning(
                    "the callback for %s is too slow: notifications are dropped", self._about
                )
            self._dropped += 1

    def _call(self, news: tuple[object, ...]) -> None:
        try:
            outcome = self._callback(*news)
            if inspect.isawaitable(outcome):
                self.task = asyncio.ensure_future(outcome)
                self.task.add_done_callback(self._next)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and is_pressed():
                raise
            log.exception("the callback for %s failed", self._about)

    def _next(self, done: asyncio.Future[object]) -> None:
        self.task = None
        if done.cancelled():
            self._waiting.clear()
        elif done.exception() is not None:
            log.error("the callback for %s failed", self._about, exc_info=done.exception())
        while self._waiting and self.task is None:
            self._call(self._waiting.popleft())


class Callbacks:
    """The client's side of the conversation.

    `latest` is the data being received, `stray` the first that was not a message: a server that
    fails to start often prints the reason to the wrong stream.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._on_sample = settings.on_sample
        self._on_elicit = settings.on_elicit
        self._on_elicit_url = settings.on_elicit_url
        self._sampling = SamplingCapability(
            tools={} if settings.sampling_tools else None,
            context={} if settings.sampling_context else None,
        )
        # The pages that the user agreed to open, by id, until the server says they are complete.
        self._pages: Bounded[str, asyncio.Event] = Bounded(_PAGES_REMEMBERED)
        self.roots = settings.roots
        if self.roots is not None and not callable(self.roots):
            self.roots = to_roots(self.roots)
        given: dict[str, Callable[..., object] | None] = {
            "notifications/message": settings.on_log,
            "notifications/tools/list_changed": settings.on_tools_changed,
            "notifications/resources/list_changed": settings.on_resources_changed,
            "notifications/prompts/list_changed": settings.on_prompts_changed,
            "notifications/resources/updated": settings.on_resource_updated,
            _COMPLETE: settings.on_elicitation_complete,
        }
        self._feeds = {name: Feed(call, name) for name, call in given.items() if call is not None}
        if settings.on_renewed is not None:
            self._feeds[_RENEWED] = Feed(settings.on_renewed, _RENEWED)
        self._progress: set[Feed] = set()
        self._breaches = 0
        self._question_bytes = 0
        self.latest = b""
        self.stray = ""
        self.on_tools_changed: Callable[[], None] | None = None
        self.followed: WeakValueDictionary[str, ToolTask] = WeakValueDictionary()
        self.on_notice: Callable[[NotificationReceived], None] | None = None

    @property
    def capabilities(self) -> ClientCapabilities:
        """The capabilities to declare, by the callbacks given."""
        elicitation = ElicitationCapability(
            form={} if self._on_elicit else None, url={} if self._on_elicit_url else None
        )
        can_elicit = self._on_elicit or self._on_elicit_url
        return ClientCapabilities(
            sampling=self._sampling if self._on_sample else None,
            elicitation=elicitation if can_elicit else None,
            roots=None if self.roots is None else RootsCapability(list_changed=True),
            tasks=self._tasks_capability(),
        )

    def _tasks_capability(self) -> ClientTasksCapability | None:
        """What may be a task: every question for which there is a callback."""
        can_elicit = self._on_elicit or self._on_elicit_url
        if not (can_elicit or self._on_sample):
            return None
        requests = ClientTaskRequests(
            sampling=SamplingTasks(create_message={}) if self._on_sample else None,
            elicitation=ElicitationTasks(create={}) if can_elicit else None,
        )
        return ClientTasksCapability(list={}, cancel={}, requests=requests)

    def progress_feed(self, callback: Callable[..., object]) -> Feed:
        """Return a feed for the progress of one call; `finish` lets go of it."""
        feed = Feed(callback, "notifications/progress")
        self._progress.add(feed)
        return feed

    def hear_log(self, params: LogMessageParams) -> None:
        """Pass on a log message of the server."""
        feed = self._feeds.get("notifications/message")
        if feed is not None:
            feed.deliver(params)

    def finish(self, feed: Feed) -> None:
        """Forget the feed of a call that is over, unless its callback is still at work."""
        if feed.task is None:
            self._progress.discard(feed)
        else:
            feed.task.add_done_callback(lambda _: self._progress.discard(feed))

    def session_renewed(self) -> None:
        """Pass on that a new session has begun."""
        feed = self._feeds.get(_RENEWED)
        if feed is not None:
            feed.deliver()

    def tasks(self) -> Sequence[asyncio.Future[object]]:
        """Return the callbacks at work."""
        feeds = [f.task for f in (*self._feeds.values(), *self._progress) if f.task is not None]
        return [*feeds, *self._host.open_work] if "_host" in vars(self) else feeds

    # -- called by the dispatcher

    def request(self, exchange: Exchange, params: Any, dispatcher: Dispatcher) -> Any:
        """Answer a question of the server."""
        params.meta = exchange.meta or None
        if not exchange.revision.tasks:
            return self._answer(exchange, params)
        if exchange.name.startswith("tasks/"):
            return self._host.serve(exchange.name, params)
        answer = self._answer(exchange, params)
        task = getattr(params, "task", None)
        if task is not None and asyncio.iscoroutine(answer):
            answer = self._host.start(exchange, task.ttl, answer, dispatcher)
        related = None if params.meta is None else params.meta.get(_RELATED)
        return answer if related is None else _name_task(answer, related)

    @cached_property
    def _host(self) -> "HostedTasks":
        from accord.client.tasks import HostedTasks

        return HostedTasks()

    def _answer(self, exchange: Exchange, params: Any) -> Any:
        if exchange.name == "ping":
            return EmptyResult()
        if exchange.name == "sampling/createMessage" and self._on_sample is not None:
            return self._answer_within_bounds(
                partial(_sample, self._on_sample, params), len(self.latest)
            )
        if exchange.name == "elicitation/create" and (self._on_elicit or self._on_elicit_url):
            return self._answer_within_bounds(partial(self._elicit, params), len(self.latest))
        if exchange.name == "roots/list" and self.roots is not None:
            return _list_roots(self.roots)
        raise MethodNotFound(f"method {exchange.name!r} is not served by this client")

    async def _elicit(self, params: ElicitParams) -> ElicitResult:
        if params.mode == "url" and self._on_elicit_url is not None:
            return await self._visit(self._on_elicit_url, params)
        if params.mode != "url" and self._on_elicit is not None:
            return await _fill_in(self._on_elicit, params)
        # elicitation.error.undeclared-mode, also in revisions that know no modes
        raise InvalidParams(f"elicitation.{params.mode or 'form'} was not declared")

    async def _visit(self, callback: OnElicitUrl, params: ElicitParams) -> ElicitResult:
        """Show a page to the user; its id is known from then on, unless the user refuses."""
        if not _is_web_url(params.url):
            raise InvalidParams(f"{params.url!r} cannot be opened: expected an https or http URL")
        id = params.elicitation_id
        if id is not None:
            # Before the callback, since the user may be done before it returns.
            self._pages.setdefault(id, asyncio.Event())
        is_accepted = False
        try:
            result = _to_visit(await _call_back(callback, params))
            is_accepted = result.action == "accept"
            return result
        finally:
            if id is not None and not is_accepted:
                self._pages.pop(id, None)

    async def visit_all(self, pages: Sequence[ElicitParams], timeout: float | None) -> bool:
        """Show the pages that a request needs; return whether the user agreed to open all.

        Waits until the server says that they are complete, or for `timeout` seconds: servers need
        not say so.
        """
        if self._on_elicit_url is None or not 0 < len(pages) <= _PAGES_MOST:
            return False
        if not all(_is_web_url(page.url) for page in pages):
            return False
        events = [
            self._pages.setdefault(page.elicitation_id, asyncio.Event())
            for page in pages
            if page.elicitation_id is not None
        ]
        for page in pages:
            if (await self._visit(self._on_elicit_url, page)).action != "accept":
                return False
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                for event in events:
                    await event.wait()
        return True

    def _page_completed(self, id: str) -> bool:
        """Note that a page is complete; unknown and finished ids are ignored."""
        event = self._pages.pop(id, None)  # elicitation.complete.unknown-ignored
        if event is not None:
            event.set()
        return event is not None

    async def _answer_within_bounds(
        self, answer: Callable[[], Coroutine[object, object, Value]], size: int
    ) -> Value:
        """Answer a question, unless those that wait for an answer already hold too many bytes."""
        if self._question_bytes and self._question_bytes + size > _QUESTIONS_MOST:
            raise InternalError(f"busy: {self._question_bytes} bytes of questions wait for answers")
        self._question_bytes += size
        try:
            return await answer()
        finally:
            self._question_bytes -= size

    def notification(self, event: NotificationReceived, dispatcher: Dispatcher) -> None:
        """Pass on what the server tells."""
        if self.on_notice is not None:
            self.on_notice(event)
        if event.name == "notifications/tools/list_changed" and self.on_tools_changed is not None:
            self.on_tools_changed()
        if event.name == "notifications/tasks/status":
            task = self.followed.get(event.params.task_id)
            if task is not None:
                task.hear(event.params)
        if event.name == _COMPLETE and not self._page_completed(event.params.elicitation_id):
            return
        feed = self._feeds.get(event.name)
        if feed is None:
            return
        if event.name == _COMPLETE:
            feed.deliver(event.params.elicitation_id)
        elif event.name == "notifications/message":
            self.hear_log(event.params)
        elif event.name == "notifications/resources/updated":
            feed.deliver(event.params.uri)
        else:
            feed.deliver()

    def breach(self, event: Refused) -> None:
        """Log a message that the server should not have sent; it is skipped."""
        if event.is_ignored:
            log.debug("a message of the server was ignored: %s", event.why)
            return
        self._breaches += 1
        self.stray = self.stray or self.latest[:200].decode("utf-8", "replace")
        if self._breaches <= BREACHES_LOGGED:
            more = " (no more of this will be logged)" * (self._breaches == BREACHES_LOGGED)
            text = self.latest[:80].decode("utf-8", "replace")
            log.warning("skipped a message of the server: %s: %r%s", event.why, text, more)


async def _name_task(answer: Any, task: object) -> Any:
    """Answer a question of a task: tasks.related.everywhere."""
    result = await answer if inspect.isawaitable(answer) else answer
    result.meta = {**(result.meta or {}), _RELATED: task}
    return result


async def _sample(callback: OnSample, params: CreateMessageParams) -> CreateMessageResult:
    fault = find_tool_fault(params.messages)
    if fault is not None:
        raise InvalidParams(fault)
    result: object = await _call_back(callback, params)
    if result is None or result is False:
        # sampling.errors: the code that the official text gives for it.
        raise RequestError("the user refused the sampling request", code=_REFUSED_BY_USER)
    if not isinstance(result, CreateMessageResult):
        raise TypeError(
            f"on_sample returned {_describe_type(result)}, expected a CreateMessageResult, or "
            "None or False to refuse"
        )
    wrong = find_choice_fault(params, result)
    if wrong is not None:
        log.error("the answer of on_sample breaks toolChoice: %s", wrong)
        raise InternalError(f"the model's answer breaks toolChoice: {wrong}")
    if result.tool_uses and result.stop_reason == "endTurn":
        # The default was not chosen: a model that wants tools called has not ended its turn.
        result = msgspec.structs.replace(result, stop_reason="toolUse")
    return result


async def _fill_in(callback: OnElicit, params: ElicitParams) -> ElicitResult:
    answer = to_answer(await _call_back(callback, params))
    if answer.action == "accept" and params.requested_schema is not None:
        wrong = _misfit(answer.content or {}, params.requested_schema)
        if wrong is not None:
            log.error("the answer of on_elicit does not fit the requested schema: %s", wrong)
            error = InternalError("the user's answer does not fit the requested schema")
            error.add_note(f"on_elicit: {wrong}")  # for the program; the server does not get it
            raise error
    return answer


def _misfit(content: Mapping[str, object], schema: JsonObject) -> str | None:
    try:
        return compile_schema(schema)(dict(content))
    except MissingExtra:
        return None
    except ValueError as error:
        return f"the schema itself is invalid: {error}"


def to_answer(outcome: Elicited | object) -> ElicitResult:
    """Turn what an elicitation callback returned into an answer."""
    if isinstance(outcome, ElicitResult):
        return outcome
    if outcome is None:
        return ElicitResult("cancel")
    if outcome is False:
        return ElicitResult("decline")
    dump = getattr(outcome, "model_dump", None)  # that of a pydantic model
    plain = msgspec.to_builtins(outcome) if dump is None else dump(mode="json")
    if isinstance(plain, dict):
        # elicitation.result.content-optional: what is not filled in is left out, not null.
        return ElicitResult("accept", {k: v for k, v in plain.items() if v is not None})
    raise TypeError(
        f"on_elicit returned {_describe_type(outcome)}, expected content as a mapping, an "
        "ElicitResult, False to decline or None to cancel"
    )


def _to_visit(outcome: object) -> ElicitResult:
    if isinstance(outcome, ElicitResult):
        return ElicitResult(outcome.action, meta=outcome.meta)  # elicitation.result.url-no-content
    if outcome is None:
        return ElicitResult("cancel")
    if isinstance(outcome, bool):
        return ElicitResult("accept" if outcome else "decline")
    raise TypeError(
        f"on_elicit_url returned {_describe_type(outcome)}, expected True once the user agreed, "
        "False to decline or None to cancel"
    )


def _is_web_url(url: str | None) -> bool:
    """Whether a browser shows a page for a URL, rather than run it or read this machine's files."""
    scheme, separator, rest = (url or "").partition("://")
    return scheme.lower() in ("https", "http") and bool(separator and rest.strip("/"))


async def _list_roots(roots: Roots) -> ListRootsResult:
    if not callable(roots):
        return ListRootsResult(to_roots(roots))
    found = roots()
    return ListRootsResult(to_roots(await found if inspect.isawaitable(found) else found))


def to_roots(given: RootList) -> list[Root]:
    """Turn paths, file URIs and roots into roots.

    Raises:
        ValueError: one of them is a URI, but not of a file.
    """
    if isinstance(given, str):
        raise TypeError(f"roots is a list of folders, not the string {given!r}")
    return [_to_root(each) for each in given]


def _to_root(given: str | os.PathLike[str] | Root) -> Root:
    root: Root
    if isinstance(given, Root):
        root = given
    elif isinstance(given, str) and "://" in given:
        root = Root(given, name=given.rstrip("/").rpartition("/")[2] or None)
    else:
        path = Path(given).expanduser().absolute()
        root = Root(path.as_uri(), name=path.name or None)
    if not root.uri.startswith("file://"):  # roots.item.uri
        raise ValueError(f"a root is a folder given by a path or a file:// URI, not {root.uri!r}")
    return root


async def _call_back(callback: Callable[[Any], Any], params: Any) -> Any:
    if inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
        getattr(callback, "__call__", None)  # noqa: B004  # an object whose call is async
    ):
        return await callback(params)
    outcome = await run_in_thread(partial(callback, params), "accord-callback")
    return await outcome if inspect.isawaitable(outcome) else outcome


def _describe_type(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
