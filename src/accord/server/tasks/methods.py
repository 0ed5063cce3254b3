"""The methods for tasks: of 2025-11-25, and of the extension `io.modelcontextprotocol/tasks`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InternalError, InvalidParams, RequestError, lower_first
from accord.protocol.exchange import META_NOTICES, Exchange
from accord.protocol.jsonrpc import ErrorBody
from accord.server.tasks.channel import QUESTIONS, RELATED
from accord.server.tasks.fields import core_fields, outcome_fields
from accord.server.tasks.task_store import TaskRecord
from accord.types import (
    CancelTaskParams,
    CancelTaskResult,
    EmptyResult,
    GetTaskParams,
    GetTaskResult,
    JsonObject,
    ListTasksResult,
    PageParams,
    Task,
    TaskResultParams,
    UpdateTaskParams,
)

if TYPE_CHECKING:
    from accord.server.session import Session


_PAGE: Final = 100
_CURSOR: Final = "after-"
# Larger numbers than the store can hold.
_DIGITS: Final = 18


async def get_task(session: "Session", exchange: Exchange, params: GetTaskParams) -> GetTaskResult:
    record = await session.server.tasks.find(session, exchange, params.task_id)
    return GetTaskResult(**core_fields(record))


async def task_result(session: "Session", exchange: Exchange, params: TaskResultParams) -> bytes:
    """Answer with what the call would have been answered with, once there is an answer."""
    runner = session.server.tasks
    task = runner.running.get(params.task_id)
    # Before it is asked on this stream, the caller must prove that the task is its own.
    await runner.find(session, exchange, params.task_id)
    if runner.store.is_shared and exchange.origin is not None:
        from accord.server.tasks.asking import TaskAsker

        with TaskAsker(runner, session, exchange) as asker:
            record = await runner.wait(session, exchange, params.task_id, asker.look)
    elif task is None:
        record = await runner.wait(session, exchange, params.task_id)
    else:
        task.attend(session, exchange)
        try:
            record = await runner.wait(session, exchange, params.task_id)
        finally:
            task.leave(exchange)
    return _outcome(record)


def _outcome(record: TaskRecord) -> bytes:
    if record.result is not None:
        result: JsonObject = msgspec.json.decode(record.result, type=dict[str, msgspec.Raw])
        meta = msgspec.json.decode(result["_meta"]) if "_meta" in result else {}
        result["_meta"] = {**meta, RELATED: {"taskId": record.id}}
        return msgspec.json.encode(result)
    if record.error is None:
        raise InternalError(f"the task {record.id[:8]} was cancelled and has no result")
    error = msgspec.json.decode(record.error, type=ErrorBody)
    data = None if error.data is msgspec.UNSET else error.data
    raise RequestError(error.message, code=error.code, data=data)


async def list_tasks(session: "Session", exchange: Exchange, params: PageParams) -> ListTasksResult:
    principal = session.principal_of(exchange)
    if principal is None:  # tasks.security.no-list-unidentified: it was not declared
        return ListTasksResult([])
    after = 0 if params.cursor is None else _number(params.cursor)
    found = await session.server.tasks.page(session, exchange, after=after, count=_PAGE + 1)
    tasks = [Task(**core_fields(record)) for _, record in found[:_PAGE]]
    more = f"{_CURSOR}{found[_PAGE - 1][0]}" if len(found) > _PAGE else None
    return ListTasksResult(tasks, more)


def _number(cursor: str) -> int:
    digits = cursor.removeprefix(_CURSOR)
    is_ours = cursor.startswith(_CURSOR) and digits.isdecimal() and digits.isascii()
    if not is_ours or len(digits) > _DIGITS:
        raise InvalidParams(
            f"cursor {cursor[:40]!r} is invalid: expected the nextCursor of an earlier page"
        )
    return int(digits)


async def cancel_task(
    session: "Session", exchange: Exchange, params: CancelTaskParams
) -> CancelTaskResult:
    runner = session.server.tasks
    found = await runner.find(session, exchange, params.task_id)
    cancelled = await runner.cancel(found.id)
    if cancelled is None:  # tasks.cancel.terminal-32602
        status = (await runner.find(session, exchange, params.task_id)).status
        raise InvalidParams(f"the task {found.id[:8]} is {status} and cannot be cancelled")
    return CancelTaskResult(**core_fields(cancelled))


CORE_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "tasks/get": get_task,
    "tasks/result": task_result,
    "tasks/list": list_tasks,
    "tasks/cancel": cancel_task,
}


# -- the extension


class _Question(msgspec.Struct):
    method: str


async def get_extension_task(
    session: "Session", exchange: Exchange, params: GetTaskParams
) -> GetTaskResult:
    runner = session.server.tasks
    record = await runner.find(session, exchange, params.task_id)
    meta = None if record.notices is None else {META_NOTICES: msgspec.Raw(record.notices)}
    return GetTaskResult(**outcome_fields(record, runner.store.now()), meta=meta)


async def update_task(
    session: "Session", exchange: Exchange, params: UpdateTaskParams
) -> EmptyResult:
    """Take answers. Those to questions that do not wait are left out, as the text asks."""
    runner = session.server.tasks
    record = await runner.find(session, exchange, params.task_id)
    answers = {
        key: bytes(answer)
        for key, answer in params.input_responses.items()
        if key in record.questions
    }
    for key, answer in answers.items():
        method = msgspec.json.decode(record.questions[key], type=_Question).method
        try:
            msgspec.json.decode(answer, type=QUESTIONS[method][2])
        except (ValueError, RecursionError) as error:
            raise InvalidParams(f"inputResponses[{key!r}]: {lower_first(error)}") from None
    await runner.answer(record.id, answers)
    return EmptyResult()


async def cancel_extension_task(
    session: "Session", exchange: Exchange, params: CancelTaskParams
) -> EmptyResult:
    """Cancel a task, if it is not finished; either is acknowledged."""
    runner = session.server.tasks
    record = await runner.find(session, exchange, params.task_id)
    await runner.cancel(record.id)
    return EmptyResult()


EXTENSION_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "tasks/get": get_extension_task,
    "tasks/update": update_task,
    "tasks/cancel": cancel_extension_task,
}
