"""From a tool call to a task: the client asks for one, or the server decides."""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from accord.errors import MethodNotFound
from accord.protocol.exchange import Exchange
from accord.server.context import Context
from accord.server.methods import TASKS
from accord.server.questions.rounds import Rounds
from accord.server.tasks.channel import RunningTask
from accord.server.tasks.fields import core_fields, extension_fields
from accord.server.tasks.repeating import call_tool, encode_call
from accord.server.tasks.runner import new_task
from accord.server.tasks.task_store import TaskRecord
from accord.types import (
    CallToolParams,
    CallToolResult,
    CreateTaskResult,
    InputRequiredResult,
    Task,
    TaskHandle,
)

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
    from accord.server.entries.tools import ToolResult
    from accord.server.session import Session


def call_as_task(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> Coroutine[Any, Any, Any] | None:
    """Return the coroutine that answers a call with a task; None where the call is a plain one.

    Raises:
        MethodNotFound: the tool cannot be called in this way.
        MissingCapability: it runs as a task alone, and the client does not understand tasks.
    """
    revision = exchange.revision
    if revision.tasks:
        if not _is_wanted(session, entry, params):
            return None
    elif not revision.result_type or entry.facts.task is None:
        return None
    elif not TASKS.is_declared(exchange):
        if entry.facts.task == "required":  # tasks-ext.create.needs-task-32021
            TASKS.require(exchange, f"tool {entry.key!r} runs as a task")
        return None
    elif entry.facts.ask_first:
        return _ask_first(session, exchange, entry, params)
    elif entry.facts.task == "optional" and session.server.tasks.settings.grace:
        return _answer_soon(session, exchange, entry, params)
    return _begin(session, exchange, entry, params)


def _is_wanted(session: "Session", entry: "Entry", params: CallToolParams) -> bool:
    if params.task is None:
        if entry.facts.task == "required":  # tasks.tool.required-error
            raise MethodNotFound(f"tool {entry.key!r} runs as a task: call it with `task`")
        return False
    if entry.facts.task is None and session.server.has_task_tools:  # tasks.tool.forbidden-error
        raise MethodNotFound(f"tool {entry.key!r} does not run as a task: call it without `task`")
    return entry.facts.task is not None  # tasks.undeclared.ignored


def _describe(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> RunningTask:
    values = session.context(exchange)._values  # those that middleware put

    def work(task: RunningTask) -> Awaitable[CallToolResult]:
        return call_tool(task, session, entry, params, values)

    runner = session.server.tasks
    task = new_task(runner, session, exchange, entry.label, work)
    if entry.facts.idempotent and runner.worker is not None:
        task.call = encode_call(session, exchange, entry, params)
    return task


async def _begin(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> CreateTaskResult | TaskHandle:
    task = _describe(session, exchange, entry, params)
    ttl = None if params.task is None or not exchange.revision.tasks else params.task.ttl
    record = await session.server.tasks.begin(task, ttl)
    return _handle(session, exchange, record)


def _handle(
    session: "Session", exchange: Exchange, record: TaskRecord
) -> CreateTaskResult | TaskHandle:
    if exchange.revision.tasks:
        exchange.is_task = True
        return CreateTaskResult(Task(**core_fields(record)))
    return TaskHandle(**extension_fields(record, session.server.tasks.store.now()))


async def _answer_soon(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> CallToolResult | TaskHandle | CreateTaskResult:
    """Answer with the result if there is one soon and nothing is asked, else with a task."""
    runner = session.server.tasks
    task = _describe(session, exchange, entry, params)
    work = task.begin_work()
    try:
        waits: set[asyncio.Future[Any]] = {work, task.needed}
        await asyncio.wait(
            waits, timeout=runner.settings.grace, return_when=asyncio.FIRST_COMPLETED
        )
        if not work.done():
            record = await runner.begin(task, None, kept={**task.kept}, message=task.message)
            return _handle(session, exchange, record)
    except BaseException:
        # The client gave up, or the task cannot be kept: none has learned of it.
        task.stop()
        work.cancel()
        raise
    task.release()
    return work.result()


# -- questions first, then the task


class AskFirst(Rounds):
    """Asks through rounds until the handler starts its task; from then on, as a task does."""

    def __init__(
        self, session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
    ) -> None:
        super().__init__(session, exchange, params)
        self._params = params
        self._session = session
        self._exchange = exchange
        self._entry = entry
        self._context = session.context(exchange)
        if entry.is_mounted:
            # One of its own: a mounted tool changes it to that of its server.
            values = self._context._values
            self._context = Context(session, exchange)
            self._context._values = values
        self._work: asyncio.Task[ToolResult] | None = None
        self.handle: asyncio.Future[Any] = session.loop.create_future()

    async def answer(self, params: CallToolParams) -> Any:
        """Run the handler up to its end, to a question or to the start of its task."""
        outcome = self._entry.answer(self._session, self._exchange, params, self._context)
        if not isinstance(outcome, Awaitable):
            return outcome
        work = self._work = asyncio.ensure_future(outcome)
        try:
            await asyncio.wait({work, self.handle}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            work.cancel()
            raise
        return self.handle.result() if self.handle.done() else work.result()

    async def start_task(self) -> None:
        """Keep the task, let the request be answered with it, and go on as its handler."""
        runner = self._session.server.tasks
        task = new_task(runner, self._session, self._exchange, self._entry.label, self._result)
        more: dict[str, Any] = {}
        if self._entry.facts.idempotent and runner.worker is not None:
            task.call = encode_call(self._session, self._exchange, self._entry, self._params)
            # A second run finds the answers to the questions that came before the task.
            answers, kept = self._content.answers, self._content.kept
            more["answers"] = {key: bytes(answer) for key, answer in answers.items()}
            more["kept"] = {key: bytes(result) for key, result in kept.items()}
        record = await runner.begin(task, None, **more)
        task.context = self._context
        self._context._exchange = task.exchange
        self.handle.set_result(_handle(self._session, self._exchange, record))

    async def _result(self, task: RunningTask) -> CallToolResult:
        assert self._work is not None
        result = await self._work
        assert not isinstance(result, InputRequiredResult)
        return result


async def _ask_first(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> Any:
    channel = exchange.channel = AskFirst(session, exchange, entry, params)
    await channel.claim()
    return await channel.answer(params)
