"""Questions of the server that it wants to be tasks (2025-11-25): the client answers later.

The server gets a task at once, asks for its state as often as it likes, and fetches the answer when
it is there. Tasks live as long as the connection; there is one server, so all of them are its own.
"""

import asyncio
import logging
import os
import time
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.errors import InternalError, InvalidParams, LocalProtocolError, RequestError
from accord.protocol.exchange import Exchange
from accord.runtime.dispatcher import Dispatcher
from accord.types import (
    CancelTaskResult,
    CreateTaskResult,
    GetTaskResult,
    JsonObject,
    ListTasksResult,
    Task,
    TaskStatus,
    TaskStatusParams,
)

log = logging.getLogger("accord.client")
RELATED: Final = "io.modelcontextprotocol/related-task"
# What a server may ask of us at one time; a person cannot answer more.
_UNFINISHED_MOST: Final = 100
_KEPT_MOST: Final = 1_000
# Milliseconds: an answer that was not fetched in an hour is not wanted.
_TTL: Final = 3_600_000
_POLL: Final = 1_000
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
            "poll_interval": _POLL,
        }

    def change(self, status: TaskStatus, message: str | None = None) -> None:
        self.status, self.message, self.updated_at = status, message, time.time()


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
        kept = _TTL if ttl is None else min(max(ttl, 1), _TTL)
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
            is_too_many = len(self._tasks) >= _KEPT_MOST and hosted.work.done()
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
