"""Tasks: tool calls whose results are fetched later, and questions that are answered later.

The client learns of changes by asking at the interval that the server names, and sooner by the
server's notifications, on which it does not rely. While a task needs input, a `tasks/result` waits
for it: its stream is where the server asks.
"""

import asyncio
import logging
import math
import os
import random
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import msgspec

from accord.client.link import ERRORS, TOOL_TASKS, Link
from accord.client.options import CallOptions
from accord.client.results import OutputSchema, PageGuard, decode_output
from accord.errors import (
    AccordError,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    lower_first,
)
from accord.protocol import shape
from accord.protocol.exchange import META_NOTICES, Exchange
from accord.protocol.jsonrpc import ErrorBody
from accord.protocol.violation import CLIENT
from accord.runtime.dispatcher import Dispatcher
from accord.types import (
    CallToolParams,
    CallToolResult,
    CancelTaskParams,
    CancelTaskResult,
    CreateTaskResult,
    GetTaskParams,
    GetTaskResult,
    InputRequests,
    JsonObject,
    ListTasksResult,
    LogMessageParams,
    PageParams,
    ProgressParams,
    Task,
    TaskFields,
    TaskHandle,
    TaskMetadata,
    TaskOutcome,
    TaskResultParams,
    TaskStatus,
    TaskStatusParams,
    UpdateTaskParams,
)

if TYPE_CHECKING:
    from accord.client.callbacks import Feed


Output = TypeVar("Output")

_FINISHED: Final = frozenset({"completed", "failed", "cancelled"})
# For servers that name no interval, in seconds; others are believed within these limits.
_POLL: Final = 1.0
_POLL_LEAST: Final = 0.05
_POLL_MOST: Final = 60.0
# So many clients that began together do not ask at the same moments.
_JITTER: Final = 0.1
# Updates that may wait for a slow reader; the oldest are dropped.
_UPDATES_MOST: Final = 100
_encode: Final = msgspec.json.Encoder().encode
log = logging.getLogger("accord.client")


class TaskUpdate(msgspec.Struct, frozen=True):
    """What the server said of a task.

    Attributes:
        status: working, input_required, completed, failed or cancelled.
        message: what it is doing, or why it failed.
        updated_at: when that was, in ISO 8601.
    """

    status: TaskStatus
    message: str | None
    updated_at: str


class _Progress(msgspec.Struct):
    progress: int | float
    total: int | float | None = None
    message: str | None = None


class _ProgressNotice(msgspec.Struct, tag_field="method", tag="notifications/progress"):
    number: int
    params: _Progress


class _LogNotice(msgspec.Struct, tag_field="method", tag="notifications/message"):
    number: int
    params: LogMessageParams


class ToolTask:
    """A tool call that the server works on, as `Client.start_tool` returns it.

    `async for update in task` follows it to its end; `await task.result()` waits for its result.

    Attributes:
        id: names it, also on another connection: see `Client.task`. Empty if the server answered
            the call at once.
        tool: the tool, where it is known.
        ttl: seconds after its creation in which the server keeps it; None if it sets no limit.
    """

    def __init__(
        self,
        link: Link,
        fields: TaskFields | None,
        how: CallOptions,
        *,
        tool: str | None = None,
        schema: OutputSchema | None = None,
        result: CallToolResult | None = None,
    ) -> None:
        self._link = link
        self._how = how.copy()
        on_progress = self._how.pop("on_progress", None) or link.settings.on_progress
        self._progress: Feed | None = None
        if on_progress is not None and fields is not None and not link.revision.tasks:
            self._progress = link.callbacks.progress_feed(on_progress)
        self._noticed = 0
        self._schema = schema
        self._result = result
        self._token: Any = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._followers: list[deque[TaskUpdate]] = []
        self._fetching: asyncio.Task[CallToolResult] | None = None
        self._outcome: TaskOutcome | None = None
        self._questions: InputRequests = {}
        self._answered: set[str] = set()
        self._answering: asyncio.Task[None] | None = None
        self.tool = tool
        self.id = ""
        self.ttl: float | None = None
        self._poll = _POLL
        self._update = TaskUpdate("completed", None, "")
        if fields is not None:
            self.id = fields.task_id
            self._take(fields)
            link.callbacks.followed[self.id] = self

    def __repr__(self) -> str:
        return f"<ToolTask {self.id[:8]} of {self.tool or 'a tool'}: {self.status}>"

    @property
    def status(self) -> TaskStatus:
        """The status, as far as it is known."""
        return self._update.status

    @property
    def message(self) -> str | None:
        """What the task is doing, or why it failed."""
        return self._update.message

    @property
    def poll_interval(self) -> float:
        """Seconds after which the server is asked again."""
        return self._poll

    @property
    def is_finished(self) -> bool:
        """Whether it is over, as far as that is known."""
        return self.status in _FINISHED

    # -- what the server says of it

    def hear(self, fields: TaskFields) -> None:
        """Take what the server says of the task by itself."""
        self._take(fields)
        for news in self._waiting:
            if not news.done():
                news.set_result(None)

    def _take(self, fields: TaskFields) -> None:
        said = fields.last_updated_at
        if self.is_finished and self._update.updated_at:
            return  # tasks.status.terminal-final, whatever arrives late
        update = TaskUpdate(fields.status, fields.status_message, said)
        if update != self._update:
            self._update = update
            for follower in self._followers:
                follower.append(update)
        ttl = fields.ttl_ms if fields.ttl is msgspec.UNSET else fields.ttl
        self.ttl = ttl / 1000 if isinstance(ttl, int) else None
        if isinstance(fields, TaskOutcome):
            self._hear_notices((fields.meta or {}).get(META_NOTICES))
            self._outcome = fields
            self._questions = fields.input_requests or {}
        interval = fields.poll_interval or fields.poll_interval_ms
        if interval is not None:
            self._poll = min(max(interval / 1000, _POLL_LEAST), _POLL_MOST)
        if self.is_finished and self._progress is not None:
            self._link.callbacks.finish(self._progress)
        if self.is_finished and self._token is not None:
            parties = self._link.endpoint.conversation.parties
            exchange = parties[CLIENT].tokens.get(self._token)
            if exchange is not None:
                parties[CLIENT].forget_token(exchange)

    def _hear_notices(self, notices: object) -> None:
        """Pass on the progress and log messages that a server of ours lets stand in the task."""
        try:
            found = msgspec.convert(notices or [], list[_ProgressNotice | _LogNotice])
        except msgspec.ValidationError as misfit:
            log.debug("the notices of the task %s do not fit: %s", self.id[:8], misfit)
            return
        for notice in found:
            if notice.number <= self._noticed:
                continue
            self._noticed = notice.number
            if isinstance(notice, _LogNotice):
                self._link.callbacks.hear_log(notice.params)
            elif self._progress is not None:
                said = notice.params
                params = ProgressParams(self.id, said.progress, said.total, said.message)
                self._progress.deliver(params)

    async def refresh(self) -> TaskUpdate:
        """Ask the server for the status now."""
        if self.id and not self.is_finished:
            fields: GetTaskResult = await self._link.ask(
                "tasks/get", GetTaskParams(self.id), self._how
            )
            self._take(fields)
        return self._update

    @property
    def _pause(self) -> float:
        return self._poll * random.uniform(1, 1 + _JITTER)  # noqa: S311  # to spread load

    async def _wait_for_news(self) -> None:
        """Wait for a notification, or ask when it is time."""
        if self._answering is not None:
            await self._wait_for_answers()
            return
        news: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(news)
        try:
            async with asyncio.timeout(self._pause):
                await news
        except TimeoutError:
            await self.refresh()
        finally:
            self._waiting.discard(news)

    # -- questions in the task, where the server cannot ask by requests

    def _answer_questions(self) -> None:
        """Put new questions to the callbacks; no question is put twice."""
        asked = {key: each for key, each in self._questions.items() if key not in self._answered}
        if self._answering is None and asked:
            self._answered.update(asked)  # tasks-ext.client.dedupe-keys
            self._answering = asyncio.ensure_future(self._answer(asked))
            self._answering.add_done_callback(_retrieve)

    async def _answer(self, questions: InputRequests) -> None:
        from accord.client.rounds import answer_all

        answers = await answer_all(self._link, f"the task {self.id[:40]}", questions, math.inf)
        if not self.is_finished:
            await self._link.ask("tasks/update", UpdateTaskParams(self.id, answers), self._how)

    async def _wait_for_answers(self) -> None:
        """Wait for answers of the user, and look now and then whether they are still wanted."""
        assert self._answering is not None
        await asyncio.wait([self._answering], timeout=self._pause)
        if self._answering.done():
            answering, self._answering = self._answering, None
            answering.result()
        else:
            await self.refresh()
            if self.is_finished:
                self._answering.cancel()

    # -- following it

    async def __aiter__(self) -> AsyncIterator[TaskUpdate]:
        """Follow the task: yields what is known, then each change, up to its end."""
        updates = deque([self._update], _UPDATES_MOST)
        self._followers.append(updates)
        try:
            while True:
                while updates:
                    yield updates.popleft()
                if self.is_finished:
                    return
                if self.status == "input_required":
                    self._attend()
                await self._wait_for_news()
        finally:
            # By identity: two that have seen the same are equal.
            self._followers = [each for each in self._followers if each is not updates]

    def _attend(self) -> None:
        """See to it that the questions of the task are answered."""
        if not self._link.revision.tasks:
            self._answer_questions()
            return
        # tasks.input.requestor-calls-result: its stream is where the server asks.
        if self._fetching is None or (self._fetching.done() and not self.is_finished):
            self._fetching = asyncio.ensure_future(self._fetch())
            self._fetching.add_done_callback(_retrieve)

    async def _fetch(self) -> CallToolResult:
        how = self._how if self.is_finished else self._how | {"timeout": math.inf, "cap": math.inf}
        found = await self._link.ask("tasks/result", TaskResultParams(self.id), how)
        return self._decode(_encode(found))

    def _decode(self, found: bytes) -> CallToolResult:
        try:
            result: CallToolResult = shape.decode(
                found, CallToolResult, self._link.endpoint.revision.id
            )
        except ValueError as error:
            why = f"the result of the task {self.id[:40]} is not that of a tool"
            raise RemoteProtocolError(f"{why}: {lower_first(error)}") from None
        return result

    # -- ending it

    @overload
    async def result(self, *, result_type: None = None) -> CallToolResult: ...
    @overload
    async def result(self, *, result_type: type[Output]) -> Output: ...
    @overload
    async def result(self, *, result_type: object) -> Any: ...
    async def result(self, *, result_type: Any = None) -> Any:
        """Wait until the task is finished and return its result, as `Client.call_tool` does.

        Args:
            result_type: the type to decode the result into.

        Raises:
            RequestError: the call failed, or the task was cancelled.
            ToolError: the tool reports an error, and `result_type` was given.
            RemoteProtocolError: the result breaks the output schema, or does not fit the type.
        """
        if self._result is None:
            while not self.is_finished:
                if self.status == "input_required":
                    self._attend()
                if self._fetching is not None:
                    break
                await self._wait_for_news()
            self._result = await self._fetch_result()
        result = self._result
        if self._schema is not None:
            self._schema.check(result)
        if result_type is None:
            return result
        return decode_output(self.tool or "the task", result, result_type)

    async def _fetch_result(self) -> CallToolResult:
        if not self._link.revision.tasks:
            return self._read_outcome()
        self._attend()
        assert self._fetching is not None
        result = await asyncio.shield(self._fetching)
        await self.refresh()
        return result

    def _read_outcome(self) -> CallToolResult:
        """Return the result that the extension reports with the task itself."""
        outcome = self._outcome
        if outcome is not None and outcome.error is not None:
            raise to_error(outcome.error)
        if outcome is None or outcome.result is msgspec.UNSET:
            raise RequestError(f"the task {self.id[:8]} was cancelled and has no result")
        return self._decode(bytes(outcome.result))

    async def cancel(self) -> None:
        """Ask the server to stop; one that is finished stays as it is."""
        if self.is_finished:
            return
        try:
            answer = await self._link.ask("tasks/cancel", CancelTaskParams(self.id), self._how)
        except InvalidParams:
            await self.refresh()
            if not self.is_finished:  # it was unknown, not finished
                raise
        else:
            if isinstance(answer, TaskFields):
                self._take(answer)


def to_error(body: JsonObject) -> RequestError:
    """Return the error that a task reports."""
    try:
        error = msgspec.convert(body, ErrorBody)
    except msgspec.ValidationError as misfit:
        raise RemoteProtocolError(
            f"the task reports a malformed error: {lower_first(misfit)}"
        ) from None
    data = None if error.data is msgspec.UNSET else error.data
    kind = ERRORS.get(error.code, RequestError)
    found: RequestError = kind(error.message, code=error.code, data=data)
    found.is_received = True
    return found


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Mark an exception as seen: that of a fetch whose result is not wanted any more."""
    if not task.cancelled():
        task.exception()


# -- beginning


async def start(
    link: Link,
    params: CallToolParams,
    how: CallOptions,
    *,
    ttl: float | None = None,
    schema: OutputSchema | None = None,
) -> ToolTask:
    """Call a tool as a task.

    Raises:
        LocalProtocolError: the revision has no tasks, or the server does not declare them.
    """
    revision = link.endpoint.revision
    if revision.tasks:
        if not link.has_tasks:  # tasks.tool.no-capability-no-task
            raise LocalProtocolError(f"the server did not declare {TOOL_TASKS}")
        params.task = TaskMetadata(None if ttl is None else max(1, round(ttl * 1000)))
    elif not revision.result_type:
        raise LocalProtocolError(f"tasks are not part of revision {revision.id}")
    return wrap(link, params, await link.ask("tools/call", params, how), how, schema)


def wrap(
    link: Link,
    params: CallToolParams,
    answer: CreateTaskResult | TaskHandle | CallToolResult,
    how: CallOptions,
    schema: OutputSchema | None = None,
) -> ToolTask:
    """Return the task that a call was answered with, or a finished one for a plain result."""
    if isinstance(answer, CallToolResult):
        return ToolTask(link, None, how, tool=params.name, schema=schema, result=answer)
    fields = answer.task if isinstance(answer, CreateTaskResult) else answer
    task = ToolTask(link, fields, how, tool=params.name, schema=schema)
    task._token = (params.meta or {}).get("progressToken")
    return task


async def wait_for(task: ToolTask, how: CallOptions) -> CallToolResult:
    """Wait for the result of a task that only the caller knows: both are cancelled together."""
    _, cap = task._link.deadlines(how)
    try:
        async with asyncio.timeout(cap) as limit:
            return await task.result()
    except BaseException as error:
        if not task.is_finished:
            task._link.dispatcher.spawn(_abandon(task))
        if not (isinstance(error, TimeoutError) and limit.expired()):
            raise
        why = f"{task.tool}: the task was not finished within {cap:g} s in all (cap)"
        raise RequestTimeout(why) from None


async def wait_for_handle(
    link: Link, params: CallToolParams, handle: TaskHandle | CreateTaskResult, how: CallOptions
) -> CallToolResult:
    """Wait for the result of a call that the server answered with a task."""
    return await wait_for(wrap(link, params, handle, how), how)


async def _abandon(task: ToolTask) -> None:
    try:
        await task.cancel()
    except AccordError:
        return  # it is finished, cannot be cancelled, or the connection is gone


async def find(link: Link, id: str, how: CallOptions) -> ToolTask:
    """Return a task by its id.

    Raises:
        InvalidParams: the server does not know it.
    """
    fields: GetTaskResult = await link.ask("tasks/get", GetTaskParams(id), how)
    return ToolTask(link, fields, how)


async def find_all(link: Link, how: CallOptions) -> AsyncIterator[ToolTask]:
    """Iterate over the tasks that the server lists.

    Raises:
        LocalProtocolError: the revision has no such list.
    """
    revision = link.endpoint.revision
    if not revision.tasks:
        raise LocalProtocolError(f"tasks/list is not part of revision {revision.id}")
    pages = PageGuard("tasks/list", link.settings.empty_pages)
    cursor = None
    while True:
        page = await link.ask("tasks/list", PageParams(cursor), how)
        for fields in page.tasks:
            yield ToolTask(link, fields, how)
        cursor = page.next_cursor
        if cursor is None:
            return
        pages.check(page.tasks, cursor)


# -- questions of the server that it wants to be tasks (2025-11-25): the client answers later
#
# The server gets a task at once, asks for its state as often as it likes, and fetches the answer
# when it is there. Tasks live as long as the connection; there is one server, so all are its own.

RELATED: Final = "io.modelcontextprotocol/related-task"
# What a server may ask of us at one time; a person cannot answer more.
_UNFINISHED_MOST: Final = 100
_HOSTED_MOST: Final = 1_000
# Milliseconds: an answer that was not fetched in an hour is not wanted.
_HOSTED_TTL: Final = 3_600_000
_HOSTED_POLL: Final = 1_000
_ID_BYTES: Final = 24


class _Hosted:
    """One question, from its beginning until it is forgotten."""

    def __init__(self, exchange: Exchange, ttl: int, work: asyncio.Task[Any], now: float) -> None:
        self.id = os.urandom(_ID_BYTES).hex()
        self.exchange = exchange
        self.ttl = ttl
        self.work = work
        self.status: TaskStatus = "working"
        self.message: str | None = None
        self.created_at = self.updated_at = time.time()
        self.ends = now + ttl / 1000

    @property
    def fields(self) -> JsonObject:
        return {
            "task_id": self.id,
            "status": self.status,
            "status_message": self.message,
            "created_at": _iso(self.created_at),
            "last_updated_at": _iso(self.updated_at),
            "ttl": self.ttl,
            "poll_interval": _HOSTED_POLL,
        }

    def change(self, status: TaskStatus, message: str | None = None) -> None:
        self.status, self.message = status, message
        # Each change has a later time than the one before, also in milliseconds, as it is sent.
        self.updated_at = max(time.time(), self.updated_at + 0.001)


def _iso(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message_of(error: BaseException) -> str:
    if isinstance(error, RequestError):
        return error.message
    # It may hold what is not for the server.
    log.error("the answer to a task of the server failed", exc_info=error)
    return "internal error"


class HostedTasks:
    """The questions of one server that run as tasks."""

    def __init__(self) -> None:
        self._tasks: dict[str, _Hosted] = {}

    @property
    def open_work(self) -> list[asyncio.Task[Any]]:
        """The work that is not finished."""
        return [each.work for each in self._tasks.values() if not each.work.done()]

    def start(
        self,
        exchange: Exchange,
        ttl: int | None,
        answer: Coroutine[Any, Any, Any],
        dispatcher: Dispatcher,
    ) -> CreateTaskResult:
        """Answer a question with a task, and work on the real answer.

        Raises:
            InternalError: the server has as many unfinished ones as it may have.
        """
        loop = asyncio.get_running_loop()
        self._sweep(loop.time())
        if len(self.open_work) >= _UNFINISHED_MOST:
            answer.close()
            raise InternalError(f"busy: {_UNFINISHED_MOST} tasks are unfinished")
        work = loop.create_task(answer, name=exchange.name)
        kept = _HOSTED_TTL if ttl is None else min(max(ttl, 1), _HOSTED_TTL)
        hosted = _Hosted(exchange, kept, work, loop.time())
        self._tasks[hosted.id] = hosted
        created = CreateTaskResult(Task(**hosted.fields))
        exchange.is_task = True
        work.add_done_callback(lambda _: self._finish(hosted, dispatcher))
        return created

    def _finish(self, hosted: _Hosted, dispatcher: Dispatcher) -> None:
        dispatcher.endpoint.conversation.server.forget_token(hosted.exchange)
        if hosted.status == "working":
            error = None if hosted.work.cancelled() else hosted.work.exception()
            if hosted.work.cancelled():
                hosted.change("cancelled", "the callback was cancelled")
            elif error is None:
                hosted.change("completed")
            else:
                hosted.change("failed", _message_of(error))
        # Not relied on by the server: tasks.notify.not-relied-on.
        with suppress(LocalProtocolError):
            params = TaskStatusParams(**hosted.fields)
            dispatcher.notify("notifications/tasks/status", params)

    def _sweep(self, now: float) -> None:
        for hosted in list(self._tasks.values()):
            is_too_many = len(self._tasks) >= _HOSTED_MOST and hosted.work.done()
            if hosted.ends <= now or is_too_many:
                hosted.work.cancel()
                del self._tasks[hosted.id]

    def _find(self, id: str) -> _Hosted:
        self._sweep(asyncio.get_running_loop().time())
        found = self._tasks.get(id)
        if found is None:
            raise InvalidParams(f"there is no task {id[:100]!r}, or it has expired")
        return found

    # -- requests of the server

    def serve(self, name: str, params: Any) -> Any:
        """Answer a request about tasks.

        Raises:
            InvalidParams: the task is unknown, or the cursor is.
        """
        if name == "tasks/get":
            return GetTaskResult(**self._find(params.task_id).fields)
        if name == "tasks/result":
            return self._result(self._find(params.task_id))
        if name == "tasks/cancel":
            return self._cancel(self._find(params.task_id))
        if params.cursor is not None:
            raise InvalidParams("the list has one page, so there is no cursor")
        self._sweep(asyncio.get_running_loop().time())
        return ListTasksResult([Task(**each.fields) for each in self._tasks.values()])

    async def _result(self, hosted: _Hosted) -> Any:
        await asyncio.wait([hosted.work])
        await asyncio.sleep(0)  # its status is noted in the same turn
        if hosted.work.cancelled():
            raise InternalError(f"the task {hosted.id[:8]} was cancelled and has no result")
        result = hosted.work.result()
        meta = {**(result.meta or {}), RELATED: {"taskId": hosted.id}}
        return msgspec.structs.replace(result, meta=meta)

    def _cancel(self, hosted: _Hosted) -> CancelTaskResult:
        if hosted.status != "working":
            raise InvalidParams(f"the task {hosted.id[:8]} is {hosted.status}")
        hosted.change("cancelled", "cancelled by the server")
        hosted.work.cancel()
        return CancelTaskResult(**hosted.fields)
