"""What is needed to run the call of a task again, on another worker than the first.

Headers of the request, values that middleware put into the context and the account at an identity
provider are not kept: a second run does without them.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.http.rules.headers import NO_FACTS
from accord.principal import Principal
from accord.protocol.exchange import Exchange
from accord.protocol.party import Peer
from accord.protocol.revisions import METHODS, REVISIONS
from accord.runtime.handlers import discard
from accord.server.context import Context
from accord.server.tasks.channel import DetachedOrigin, RunningTask
from accord.server.tasks.task_store import TaskRecord
from accord.types import CallToolParams, CallToolResult, Implementation, JsonObject, LoggingLevel

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry
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
