"""The methods of the extension `io.modelcontextprotocol/tasks`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import InvalidParams, lower_first
from accord.protocol.exchange import META_NOTICES, Exchange
from accord.server.tasks.channel import QUESTIONS
from accord.server.tasks.fields import outcome_fields
from accord.types import (
    CancelTaskParams,
    EmptyResult,
    GetTaskParams,
    GetTaskResult,
    UpdateTaskParams,
)

if TYPE_CHECKING:
    from accord.server.session import Session


class _Question(msgspec.Struct):
    method: str


async def get_task(session: "Session", exchange: Exchange, params: GetTaskParams) -> GetTaskResult:
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


async def cancel_task(
    session: "Session", exchange: Exchange, params: CancelTaskParams
) -> EmptyResult:
    """Cancel a task, if it is not finished; either is acknowledged."""
    runner = session.server.tasks
    record = await runner.find(session, exchange, params.task_id)
    await runner.cancel(record.id)
    return EmptyResult()


METHODS: Final[dict[str, Callable[..., Any]]] = {
    "tasks/get": get_task,
    "tasks/update": update_task,
    "tasks/cancel": cancel_task,
}
