"""Questions that a client answers later, as tasks of its own (2025-11-25)."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from accord.errors import RemoteProtocolError, RequestTimeout, lower_first
from accord.protocol.exchange import Exchange
from accord.server.tasks.channel import QUESTIONS
from accord.types import CancelTaskParams, CreateTaskResult, TaskResultParams

if TYPE_CHECKING:
    from accord.server.session import Session


async def ask_as_task(
    session: "Session", within: Exchange | None, name: str, params: Any, timeout: float | None
) -> Any:
    """Ask the client, as a task where it can be one, and wait for the answer.

    Args:
        session: the connection to the client.
        within: the request during which we ask.
        name: the method of the question.
        params: its params, with `task`.
        timeout: seconds to wait in all; then the task is cancelled. None waits on.

    Raises:
        RequestTimeout: there was no answer in time.
        RemoteProtocolError: the answer is not one to this question.
    """
    request = session.dispatcher.request
    # tasks.capability.requestor-respects
    if f"tasks.requests.{name.replace('/', '.')}" not in session.peer.capabilities:
        params.task = None
    try:
        async with asyncio.timeout(timeout) as limit:
            answer = await request(name, params, within=within)
            if not isinstance(answer, CreateTaskResult):
                return answer
            answer = await _fetch(session, within, answer.task.task_id)
    except TimeoutError:
        if not limit.expired():
            raise
        raise RequestTimeout(f"{name}: no answer within {timeout:g} s (timeout)") from None
    try:
        return msgspec.convert(answer, QUESTIONS[name][2])
    except msgspec.ValidationError as error:
        why = f"the task of {name} has a result that is not an answer to it"
        raise RemoteProtocolError(f"{why}: {lower_first(error)}") from None


async def _fetch(session: "Session", within: Exchange | None, id: str) -> Any:
    try:
        return await session.dispatcher.request("tasks/result", TaskResultParams(id), within=within)
    except asyncio.CancelledError:
        # cancellation.not-for-tasks-2025: the task itself is what has to end.
        if session.is_ready and "tasks.cancel" in session.peer.capabilities:
            cancelling = session.dispatcher.request("tasks/cancel", CancelTaskParams(id))
            session.dispatcher.spawn(cancelling)
        raise
