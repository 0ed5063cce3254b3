"""From a tool call to a task: the client asks for one, or the server decides.

`CallFacts` has what is needed to run the call again, on another worker than the first. Headers of
the request, values that middleware put into the context and the account at an identity provider are
not kept: a second run does without them.
"""

import asyncio
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.errors import MethodNotFound
from accord.http.rules.headers import NO_FACTS
from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer
from accord.protocol.revisions import METHODS, REVISIONS
from accord.runtime.handlers import discard
from accord.server.context import Context
from accord.server.methods import TASKS
from accord.server.questions.rounds import Rounds
from accord.server.tasks.channel import DetachedOrigin, RunningTask
from accord.server.tasks.fields import core_fields, extension_fields
from accord.server.tasks.runner import new_task
from accord.server.tasks.task_store import TaskRecord
from accord.types import (
    CallToolParams,
    CallToolResult,
    CreateTaskResult,
    Implementation,
    InputRequiredResult,
    JsonObject,
    LoggingLevel,
    Task,
    TaskHandle,
)

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
    from accord.server.entries.tools import ToolResult
    from accord.server.session import Session
    from accord.server.tasks.runner import TaskRunner


_FORMAT: Final = 1
_METHOD: Final = next(method for method in METHODS if method.name == "tools/call")


class CallFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is needed to run a call again.

    Attributes:
        format: that of these facts; a worker runs no call whose format it does not know.
        tool: its name.
        arguments: as JSON; None without any.
        meta: the `_meta` of the request.
        id: that of the request.
        token: its progress token.
        client: the client's name and version.
        capabilities: what it declared, as dotted paths.
        extensions: its settings for extensions.
        log_level: from which on it wants log messages.
        principal: the caller; None without authorization.
    """

    format: int
    tool: str
    id: int | str
    arguments: bytes | None = None
    meta: bytes | None = None
    token: int | str | None = None
    client: Implementation | None = None
    capabilities: list[str] = []
    extensions: JsonObject = {}
    log_level: LoggingLevel | None = None
    principal: Principal | None = None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(CallFacts).decode


def encode_call(
    session: "Session", exchange: Exchange, entry: "Entry", params: CallToolParams
) -> bytes:
    """Return what is needed to run a call again."""
    peer, principal = exchange.peer, session.principal_of(exchange)
    assert peer is not None
    arguments, meta = params.arguments, exchange.meta
    facts = CallFacts(
        format=_FORMAT,
        tool=entry.key,
        id=exchange.id,
        arguments=None if arguments is msgspec.UNSET else bytes(arguments),
        meta=msgspec.json.encode(meta) if meta else None,
        token=exchange.token,
        client=peer.info,
        capabilities=sorted(peer.capabilities),
        extensions=peer.extensions,
        log_level=peer.log_level,
        principal=None if principal is None else principal.storable(),
    )
    return _encode(facts)


def find_tool(runner: "TaskRunner", call: bytes) -> "tuple[CallFacts, Entry] | None":
    """Return a call and its tool; None if it cannot run again here."""
    try:
        facts = _decode(call)
    except ValueError:
        return None
    entry = runner.server.tool_entries.get(facts.tool)
    if facts.format != _FORMAT or entry is None or not entry.facts.idempotent:
        return None
    return facts, entry


def run_again(
    runner: "TaskRunner", record: TaskRecord, facts: CallFacts, entry: "Entry"
) -> RunningTask:
    """Return a task whose call runs again, without the connection that it came from."""
    server, row = runner.server, REVISIONS[record.revision]
    states = server.scopes.running_states()
    session = server.stateless_sessions.begin(discard, states[-1] if states else None, row.id)
    raw_arguments = msgspec.UNSET if facts.arguments is None else msgspec.Raw(facts.arguments)
    params = CallToolParams(facts.tool, raw_arguments)
    raw: JsonObject = {"name": facts.tool}
    if facts.arguments is not None:
        raw["arguments"] = raw_arguments
    if facts.meta is not None:
        raw["_meta"] = msgspec.Raw(facts.meta)
    declared = frozenset(facts.capabilities)
    session.peer = Peer(row, facts.client, declared, facts.log_level, facts.extensions)
    exchange = Exchange(
        id=facts.id,
        name=_METHOD.name,
        sender="client",
        revision=row,
        method=_METHOD,
        token=facts.token,
        peer=session.peer,
        raw=msgspec.Raw(msgspec.json.encode(raw)),
        params=params,
        origin=DetachedOrigin(NO_FACTS, facts.principal),
    )
    task = RunningTask(
        runner,
        session,
        exchange,
        id=record.id,
        label=entry.label,
        work=lambda task: call_tool(task, session, entry, params),
    )
    task.call, task.answers, task.kept = record.call, record.answers, {**record.kept}
    task.is_repeated = True
    return task


async def call_tool(
    task: RunningTask,
    session: "Session",
    entry: "Entry",
    params: CallToolParams,
    values: dict[type, Any] | None = None,
) -> CallToolResult:
    """Call the tool of a task.

    Args:
        task: the task.
        session: that of its request.
        entry: the tool.
        params: of the call.
        values: those that middleware put into the context.
    """
    context = task.context = Context(session, task.exchange)
    context._values = values
    outcome = entry.answer(session, task.exchange, params, context)
    result = await outcome if isinstance(outcome, Awaitable) else outcome
    assert isinstance(result, CallToolResult)  # a task never asks by rounds
    return result


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
