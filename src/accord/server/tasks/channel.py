"""A task while it runs, and how its handler asks the client.

In 2025-11-25 a question of a task is a request to the client. It travels on the stream of a
`tasks/result` that waits for the task; where messages are not tied to streams, on the session too.
With the extension the questions stand in the task itself, and `tasks/update` brings the answers.
Where processes share the tasks, those of 2025-11-25 stand there too: the process that serves
`tasks/result` asks them, and writes the answer into the task.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import ConnectionClosed, MissingCapability, RequestTimeout
from accord.http.rules.headers import RequestFacts
from accord.principal import Principal, identity_text
from accord.protocol import shape
from accord.protocol.exchange import Exchange
from accord.server.questions.channels import KeptResults
from accord.server.tasks.fields import core_fields
from accord.server.tasks.task_store import Change, TaskRecord
from accord.server.tasks.watching import RungWork, task_change
from accord.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageResult,
    ElicitRequest,
    ElicitResult,
    EmptyParams,
    InputRequest,
    ListRootsRequest,
    ListRootsResult,
    ProgressParams,
    TaskStatusParams,
)

if TYPE_CHECKING:
    from accord.server.context import Context
    from accord.server.session import Session
    from accord.server.tasks.runner import TaskRunner


class DetachedOrigin:
    """What is left of where the request of a task came from, once it was answered: its sender."""

    can_ask = False
    can_hang_up = False
    backlog = 0
    is_congested = False

    def __init__(self, facts: RequestFacts, principal: Principal | None) -> None:
        self.facts = facts
        self.principal = principal

    async def writable(self) -> None:
        """Return at once: there is nothing to wait for."""

    def forbid(self, scopes: frozenset[str]) -> None:
        """Do nothing: the request was answered."""


class RunningTask:
    """The task that a request became, as `ctx.task`.

    Attributes:
        id: names it.
        ttl: seconds after its creation in which it is kept; it is stopped then.
        time_left: seconds from the start of its work to the end of that time.
        call: what is needed to run it again, encoded; None where it runs once.
        answers: those to questions that an earlier run has asked.
        kept: the results of `ctx.once` of an earlier run.
        worker: the worker that runs it, as its record says.
        fence: that of the record; with a lower one nothing can be changed.
        is_lost: whether another worker has taken it over.
        changes: looks at what other processes have changed in it.
        is_repeated: whether it runs again, without the connection that its request came from.
        is_kept: whether it stands in the store; before that, its request is still open.
        needed: done when the task has to begin, since its handler asks the client.
        begun: done when it stands in the store.
        message: what is being done, as the handler says.
    """

    def __init__(
        self,
        runner: "TaskRunner",
        session: "Session",
        exchange: Exchange,
        *,
        id: str,
        label: str,
        work: "Callable[[RunningTask], Awaitable[CallToolResult]]",
    ) -> None:
        self.id = id
        self.ttl: float | None = None
        self.time_left: float | None = None
        self.call: bytes | None = None
        self.answers: dict[str, bytes] = {}
        self.kept: dict[str, bytes] = {}
        self.worker = ""
        self.fence = 0
        self.is_lost = False
        self.changes: RungWork | None = None
        self.is_repeated = False
        self.is_kept = False
        self.needed: asyncio.Future[None] = session.loop.create_future()
        self.begun: asyncio.Future[None] = session.loop.create_future()
        self.message: str | None = None
        self._is_updated = False
        self._notices = TaskNotices()
        self._reporting = RungWork(self._report_notices)
        self.label = label
        self.owner = identity_text(session.principal_of(exchange))
        self.session = session
        self.is_stopped = False
        self._is_over = False
        self.supervisor: asyncio.Task[None] | None = None
        self.context: Context[Any] | None = None
        self._runner = runner
        self._work = work
        self._request = exchange
        self._waiters: list[tuple[Session, Exchange]] = []
        self._arrival: asyncio.Future[None] | None = None
        self.pending: dict[str, asyncio.Future[bytes]] = {}
        origin = exchange.origin
        self.exchange: Exchange = msgspec.structs.replace(
            exchange,
            batch=None,
            origin=None if origin is None else DetachedOrigin(origin.facts, origin.principal),
            channel=(CoreChannel if exchange.revision.tasks else ExtensionChannel)(self, runner),
        )

    def __repr__(self) -> str:
        return f"<RunningTask {self.id[:8]} of {self.label}>"

    async def update(self, message: str) -> None:
        """Say what is being done; clients see it as the status message."""
        self._is_updated = True
        self.message = message
        if self.is_kept:
            await self._runner.report(self, change_of(message=message))

    async def begin(self) -> None:
        """Wait until the task stands in the store."""
        if not self.needed.done():
            self.needed.set_result(None)
        await asyncio.shield(self.begun)

    # -- called by the runner

    def work(self) -> Awaitable[CallToolResult]:
        """Return the work itself."""
        return self._work(self)

    def begin_work(self) -> "asyncio.Future[CallToolResult]":
        """Begin the work before the task; it goes on as that of the task."""
        work = asyncio.ensure_future(self._work(self))
        self._work = lambda _: work
        return work

    @property
    def notices(self) -> bytes | None:
        """The progress and log messages that its record holds."""
        return self._notices.encode()

    def stop(self) -> None:
        """Stop the work; its outcome no longer matters."""
        if self.is_stopped:
            return
        self.is_stopped = True
        if self.context is not None:
            self.context._cancel()
        if self.supervisor is not None:
            # Not before its first step, or its end would never be noted.
            asyncio.get_running_loop().call_soon(self.supervisor.cancel)

    def release(self) -> None:
        """Note that the work is over: work in threads should end, and progress too."""
        self._is_over = True
        self._reporting.stop()
        if self.context is not None:
            self.context._cancel()
        if self.is_repeated:
            self.session.release_values()  # it has the session to itself
        self.session.client.forget_token(self._request)  # progress.task.stops-at-terminal

    def owns(self, record: TaskRecord) -> bool:
        """Whether the task is still that of this worker."""
        return record.worker == self.worker and record.fence == self.fence

    def announce(self, record: TaskRecord) -> None:
        """Notify the client of a change, as far as it can be reached."""
        if not self.exchange.revision.tasks:
            # To those that listen; with a shared store, they follow the record.
            if self._runner.worker is None:
                now = self._runner.store.now()
                self.session.server.hub.publish(task_change(record, now))
        elif self.is_repeated:
            self._runner.takeover.announce(record)
        elif self._is_reachable:
            params = TaskStatusParams(**core_fields(record))
            self.session.notify("notifications/tasks/status", params)

    def deliver(self, answers: dict[str, bytes]) -> None:
        """Pass answers to the questions that wait for them."""
        for key, answer in answers.items():
            future = self.pending.pop(key, None)
            if future is not None and not future.done():
                future.set_result(answer)

    @property
    def _is_reachable(self) -> bool:
        """Whether the client can be notified; not before it knows the task."""
        session = self.session
        has_handle = not session.is_open(self._request) and not self.is_repeated
        return self.exchange.revision.tasks and session.is_ready and has_handle

    # -- called by the context

    def notify(self, name: str, params: Any) -> None:
        """Send progress or a log message of the task, or let it stand in the task."""
        if self.is_stopped or self._is_over:
            return
        if isinstance(params, ProgressParams):
            self.exchange.progress = params.progress
        if not self.exchange.revision.tasks:
            if self.session.is_open(self._request):
                self.session.notify(name, params, self._request)
                return
            self._notices.add(name, params)
            if isinstance(params, ProgressParams) and not self._is_updated:
                self.message = describe_progress(params)
            self._reporting.notify()
        elif self._is_reachable:
            params.meta = {**(params.meta or {}), RELATED: {"taskId": self.id}}
            self.session.notify(name, params)

    async def _report_notices(self) -> None:
        if self.is_kept and not self._is_over:
            change = change_of(message=self.message, notices=self.notices)
            await self._runner.report(self, change)
            await asyncio.sleep(_REPORTED_EVERY)

    # -- where questions of 2025-11-25 go

    def attend(self, session: "Session", exchange: Exchange) -> None:
        """Note that a `tasks/result` waits, on whose stream the client can be asked."""
        self._waiters.append((session, exchange))
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def leave(self, exchange: Exchange) -> None:
        """Note that it waits no longer."""
        self._waiters = [each for each in self._waiters if each[1] is not exchange]

    async def place(self) -> "tuple[Session, Exchange | None]":
        """Return where the client can be asked; waits until it can."""
        while True:
            for session, exchange in reversed(self._waiters):
                if session.is_ready and session.is_open(exchange):
                    return session, exchange
            if self.exchange.origin is None and self.session.is_ready:
                return self.session, None
            self._arrival = asyncio.get_running_loop().create_future()
            await self._arrival


class TaskChannel:
    """What the channels of both kinds of tasks share."""

    def __init__(self, task: RunningTask, runner: "TaskRunner") -> None:
        self.task = task
        self._runner = runner
        self._results: dict[str, msgspec.Raw] = {}
        self._kept = KeptResults(self._results)
        self._used: set[str] = set()
        self._counts: Counter[str] = Counter()

    async def once(self, key: str, function: Callable[[], Any], type_: Any) -> Any:
        task = self.task
        if key in task.kept:
            self._results.setdefault(key, msgspec.Raw(task.kept[key]))
        value = await self._kept.call(key, function, type_)
        if task.call is not None and key not in task.kept:
            task.kept[key] = bytes(self._results[key])
            if task.is_kept:
                await self._runner.keep(task, key, task.kept[key])
        return value

    async def _ask_in_record(self, name: str, key: str, question: bytes, timeout: float) -> bytes:
        """Put a question into the task, and wait until its answer stands there."""
        if key in self._used:  # tasks-ext.input.keys-unique-for-life
            raise ValueError(f"two questions of one task have the key {key!r}")
        self._used.add(key)
        await self.task.begin()
        task, known = self.task, self.task.answers.get(key)
        if known is not None:  # in an earlier run, on a worker that was lost
            return known
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        task.pending[key] = future
        try:
            async with asyncio.timeout(timeout) as limit:
                await self._runner.ask(task, lambda each: _with_question(each, key, question))
                return await future
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimeout(f"{name}: no answer within {timeout:g} s (timeout)") from None
        finally:
            if task.pending.pop(key, None) is not None and not task.is_stopped:
                # The handler waits no longer, so the client need not answer.
                await self._runner.report(task, lambda each: _without_question(each, key))

    def _derive_key(self, prefix: str, params: Any) -> str:
        digest = sha256(_encode(params)).hexdigest()[:8]
        self._counts[digest] += 1
        count = self._counts[digest]
        return f"{prefix}-{digest}" if count == 1 else f"{prefix}-{digest}-{count}"

    def finish(self, result: Any) -> Any:
        return result

    def release(self) -> None:
        return None


class CoreChannel(TaskChannel):
    """Asks by requests that name the task, while its status is input_required."""

    _open = 0

    async def ask(self, name: str, params: Any, *, key: str | None, timeout: float) -> Any:
        params = EmptyParams() if params is None else params
        own_key = self._derive_key(QUESTIONS[name][0], params)  # clients see no key here
        params.meta = {**(params.meta or {}), RELATED: {"taskId": self.task.id}}
        if self._runner.store.is_shared and self.task.exchange.origin is not None:
            from accord.server.tasks.asking import decode_answer, encode_question

            question = encode_question(name, params, self.task.exchange.revision.id)
            answer = await self._ask_in_record(name, own_key, question, timeout)
            return decode_answer(name, answer)
        return await self._ask_here(name, params, timeout)

    async def _ask_here(self, name: str, params: Any, timeout: float) -> Any:
        """Ask on a stream of this process."""
        self._open += 1
        if self._open == 1:
            await self._runner.report(self.task, change_of(status="input_required"))
        try:
            async with asyncio.timeout(timeout) as limit:
                return await self._send(name, params, timeout)
        except TimeoutError:
            if not limit.expired():
                raise
            raise RequestTimeout(f"{name}: no answer within {timeout:g} s (timeout)") from None
        finally:
            self._open -= 1
            if not self._open and not self.task.is_stopped:
                await self._runner.report(self.task, change_of(status="working"))

    async def _send(self, name: str, params: Any, timeout: float) -> Any:
        while True:
            session, within = await self.task.place()
            if self.task.is_stopped:
                # The cancellation was answered, and reaches the handler in the next turn.
                raise asyncio.CancelledError
            if within is not None and within.origin is not None and not within.origin.can_ask:
                raise MissingCapability("answers are plain JSON here, so nothing can be asked")
            try:
                if getattr(params, "task", None) is not None:
                    from accord.server.tasks.asking import ask_as_task

                    return await ask_as_task(session, within, name, params, timeout)
                return await session.dispatcher.request(name, params, within=within)
            except ConnectionClosed:
                continue  # the client may come back


class ExtensionChannel(TaskChannel):
    """Puts questions into the task, and waits for `tasks/update`."""

    async def ask(self, name: str, params: Any, *, key: str | None, timeout: float) -> Any:
        prefix, request, result = QUESTIONS[name]
        key = key or self._derive_key(prefix, params)
        question = _encode(shape.narrow(request(params), self.task.exchange.revision.id))
        answer = await self._ask_in_record(name, key, question, timeout)
        return msgspec.json.decode(answer, type=result)


def change_of(**fields: Any) -> Change:
    """Return the change that sets some members of a task."""
    return lambda record: msgspec.structs.replace(record, **fields)


def _with_question(record: TaskRecord, key: str, question: bytes) -> TaskRecord | None:
    if key in record.answers:  # to an earlier run, after this one had begun
        return None
    questions = record.questions | {key: question}
    return msgspec.structs.replace(record, questions=questions, status="input_required")


def _without_question(record: TaskRecord, key: str) -> TaskRecord:
    left = {each: value for each, value in record.questions.items() if each != key}
    asked = {each: value for each, value in record.asked.items() if each != key}
    status = "input_required" if left else "working"
    return msgspec.structs.replace(record, questions=left, asked=asked, status=status)


# -- progress and log messages of a task whose request is answered
#
# The extension has no notifications for either. What is new stands in the task, numbered, for the
# client that asks about it; what a person should read is its status message as well.


# What is kept for a client that asks now and then; beyond it, the oldest are dropped.
_COUNT_MOST: Final = 100
_BYTES_MOST: Final = 64 * 1024
_encode_notice: Final = msgspec.json.Encoder().encode


class TaskNotices:
    """The latest progress and log messages of one task."""

    def __init__(self) -> None:
        self._latest: deque[bytes] = deque()
        self._size = 0
        self._count = 0

    def add(self, name: str, params: Any) -> None:
        """Keep one more."""
        self._count += 1
        if isinstance(params, ProgressParams):
            # Without the token: that of a request that is answered.
            names = ("progress", "total", "message")
            members = {each: getattr(params, each) for each in names}
            said: Any = {name: value for name, value in members.items() if value is not None}
        else:
            said = params
        notice = _encode_notice({"number": self._count, "method": name, "params": said})
        self._latest.append(notice)
        self._size += len(notice)
        while len(self._latest) > _COUNT_MOST or self._size > _BYTES_MOST:
            self._size -= len(self._latest.popleft())

    def encode(self) -> bytes | None:
        """Return them as JSON; None before the first."""
        return b"[%b]" % b",".join(self._latest) if self._latest else None


def describe_progress(params: ProgressParams) -> str:
    """Return progress in words, for clients that show the status message alone."""
    if params.message is not None:
        return params.message
    return f"{params.progress:g}" + ("" if params.total is None else f" of {params.total:g}")


RELATED: Final = "io.modelcontextprotocol/related-task"
QUESTIONS: Final[dict[str, tuple[str, type[InputRequest], Any]]] = {
    "elicitation/create": ("elicit", ElicitRequest, ElicitResult),
    "sampling/createMessage": ("sample", CreateMessageRequest, CreateMessageResult),
    "roots/list": ("roots", ListRootsRequest, ListRootsResult),
}
"""By method: the start of its keys, its request, and the type of its answer."""
_encode: Final = msgspec.json.Encoder(order="sorted").encode
# Seconds between two reports of what a handler says many times.
_REPORTED_EVERY: Final = 0.1
