"""Questions of 2025-11-25 that are tasks, or stand in one.

`ask_as_task` asks what a client answers later, as a task of its own. `TaskAsker` asks the questions
of a task that another process runs. They stand in the task. The process that serves a
`tasks/result` for it asks them on that stream, and writes the answer into the task, where the
process that runs it finds it. A question is asked on one stream at a time: the request that claims
it first, until that ends.
"""

import asyncio
import logging
import os
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec

from accord.errors import (
    AccordError,
    ConnectionClosed,
    LocalProtocolError,
    MissingCapability,
    RemoteProtocolError,
    RequestError,
    RequestTimeout,
    StoreError,
    lower_first,
)
from accord.protocol import shape
from accord.protocol.exchange import Exchange
from accord.protocol.jsonrpc import ErrorBody
from accord.server.tasks.channel import QUESTIONS
from accord.server.tasks.task_store import TaskRecord
from accord.types import CancelTaskParams, CreateTaskResult, RevisionId, TaskResultParams

if TYPE_CHECKING:
    from accord.server.session import Session
    from accord.server.tasks.runner import TaskRunner


log = logging.getLogger("accord.server")

_encode: Final = msgspec.json.Encoder().encode
_replace: Final = msgspec.structs.replace


class _Question(msgspec.Struct):
    method: str
    params: msgspec.Raw


class _Answer(msgspec.Struct, omit_defaults=True):
    """How a client answered: by a result, by an error, or not at all because of a fault."""

    result: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    error: ErrorBody | None = None
    missing: str | None = None
    fault: str | None = None


def encode_question(name: str, params: Any, revision: RevisionId) -> bytes:
    """Return a question as it stands in a task."""
    return _encode(_Question(name, msgspec.Raw(_encode(shape.narrow(params, revision)))))


def decode_answer(name: str, answer: bytes) -> Any:
    """Return the answer to a question, or raise what the client answered instead.

    Raises:
        RequestError: the client answered with an error.
        MissingCapability: it cannot be asked there.
        RemoteProtocolError: its answer is not one to the question.
    """
    found = msgspec.json.decode(answer, type=_Answer)
    if found.error is not None:
        data = None if found.error.data is msgspec.UNSET else found.error.data
        error = RequestError(found.error.message, code=found.error.code, data=data)
        error.is_received = True
        raise error
    if found.missing is not None:
        raise MissingCapability(found.missing)
    if found.fault is not None or found.result is msgspec.UNSET:
        raise RemoteProtocolError(found.fault or f"{name}: the answer is empty")
    return msgspec.json.decode(found.result, type=QUESTIONS[name][2])


class TaskAsker:
    """Asks the questions of a task on the stream of a `tasks/result`, while the block is open.

    Args:
        runner: that of the server.
        session: the session of the request.
        exchange: the request.
    """

    def __init__(self, runner: "TaskRunner", session: "Session", exchange: Exchange) -> None:
        self._runner = runner
        self._session = session
        self._exchange = exchange
        worker = runner.worker
        self._name = f"{'' if worker is None else worker.id}/{os.urandom(8).hex()}"
        self._asking: dict[str, asyncio.Task[None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for task in self._asking.values():
            task.cancel()

    def look(self, record: TaskRecord) -> None:
        """Ask the questions of the task that wait, and stop to ask those that are gone."""
        for key, asking in [*self._asking.items()]:
            if key not in record.questions:
                asking.cancel()
        loop = asyncio.get_running_loop()
        for key, question in record.questions.items():
            if key not in self._asking:
                asking = loop.create_task(self._ask(record, key, question), name="accord-question")
                self._asking[key] = asking
                asking.add_done_callback(partial(self._forget, key))

    def _forget(self, key: str, asking: asyncio.Task[None]) -> None:
        del self._asking[key]

    async def _ask(self, record: TaskRecord, key: str, question: bytes) -> None:
        try:
            if not await self._claim(record, key):
                return
            try:
                answer = await self._send(question)
            except BaseException:
                await self._release(record.id, key)
                raise
            await self._runner.answer(record.id, {key: _encode(answer)})
        except ConnectionClosed:
            log.debug("task %s asks again when the client comes back", record.id[:8])
        except (StoreError, RequestError) as error:  # it is tried again at the next look
            log.debug("task %s could not ask: %s", record.id[:8], error)
        except Exception:
            log.exception("task %s could not ask", record.id[:8])

    async def _claim(self, record: TaskRecord, key: str) -> bool:
        """Return whether this request is the one that asks a question."""
        session, exchange = self._session, self._exchange
        if not session.is_ready or not session.is_open(exchange):
            return False
        holder = record.asked.get(key)
        if holder is not None and not await self._runner.takeover.is_gone(holder.partition("/")[0]):
            return False

        def claim(found: TaskRecord) -> TaskRecord | None:
            if key not in found.questions or found.asked.get(key) != holder:
                return None
            return _replace(found, asked=found.asked | {key: self._name})

        return await self._runner.store.change(record.id, claim) is not None

    async def _release(self, id: str, key: str) -> None:
        """Let another request ask: this one has ended before the answer."""

        def release(found: TaskRecord) -> TaskRecord | None:
            if found.asked.get(key) != self._name:
                return None
            left = {each: name for each, name in found.asked.items() if each != key}
            return _replace(found, asked=left)

        try:
            await self._runner.store.change(id, release)
            self._runner.watches.notify(id)
        except StoreError as error:
            log.debug("a question of task %s is not asked again: %s", id[:8], error)

    async def _send(self, question: bytes) -> _Answer:
        """Ask the client, and return its answer as it goes into the task."""
        session, within = self._session, self._exchange
        asked = msgspec.json.decode(question, type=_Question)
        params = msgspec.json.decode(question, type=QUESTIONS[asked.method][1]).params
        if within.origin is not None and not within.origin.can_ask:
            return _Answer(missing="answers are plain JSON here, so nothing can be asked")
        try:
            if getattr(params, "task", None) is not None:
                # The handler waits no longer than it wants, and takes the question away then.
                result = await ask_as_task(session, within, asked.method, params, None)
            else:
                result = await session.dispatcher.request(asked.method, params, within=within)
        except (MissingCapability, LocalProtocolError) as error:
            return _Answer(missing=str(error))
        except RequestError as error:
            data = msgspec.UNSET if error.data is None else error.data
            return _Answer(error=ErrorBody(error.code, error.message, data))
        except ConnectionClosed:
            raise
        except AccordError as error:
            return _Answer(fault=str(error))
        return _Answer(result=msgspec.Raw(_encode(shape.narrow(result, within.revision.id))))


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
