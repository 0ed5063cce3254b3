"""The tasks extension: which calls become tasks, what becomes of them, and what is refused."""

from collections.abc import Sequence
from typing import Final

from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.task_calls import (
    EXTENSION,
    NO_EXTENSION,
    NO_TASK,
    answers_to_task,
    call_for_task,
    follow_task,
    has_extension,
    operate,
    start_tasks,
    task_id,
    with_tasks,
    without_meta,
)
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    UNJUDGED,
    bare_scenario,
    call,
    is_alive,
    scenario,
)
from accord_tools.check.scenarios.server.tasks import why_guessable

_GET: Final = "tasks/get"
_UPDATE: Final = "tasks/update"
_MISSING: Final = -32021
_UNKNOWN_ID: Final = "accord-check-no-such-task"
# Every result may have these.
_EMPTY: Final = frozenset({"resultType", "_meta"})
# This many tools show how a server treats a call.
_TRIED: Final = 3


def _lacks_extension(probe: Probe, ids: Sequence[str]) -> bool:
    if has_extension(probe.facts):
        return False
    probe.not_applicable(ids, NO_EXTENSION)
    return True


# -- which calls become tasks

_ONLY_TO: Final = "tasks-ext.create.only-to-declaring"
_NEEDS: Final = "tasks-ext.create.needs-task-32021"
_OLD: Final = "tasks-ext.legacy.only-old-capability-is-none"
_PARAM: Final = "tasks-ext.legacy.task-param-ignored"
_CREATED: Final = (_ONLY_TO, _NEEDS, _OLD, _PARAM)
_OLD_TASKS: Final[JsonObject] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}


@scenario(*_CREATED, opens=UNJUDGED, era="stateless", needs="tools", sends=("tools/call",))
async def calls_tools_with_and_without_the_extension(
    probe: Probe, connection: RawConnection
) -> None:
    if _lacks_extension(probe, _CREATED):
        return
    plain = dict(connection.client_capabilities)
    for tool in probe.facts.callable_tools():
        id = task_id(await call_for_task(connection, tool))
        if id is None:
            continue
        ended = await follow_task(connection, id, probe.target.settling)
        if ended is None or ended.result.get("status") != "completed":
            # Without a task it fails as well.
            continue
        # What an earlier request declared must not serve this one.
        undeclared = await connection.ask("tools/call", tool.params)
        _judge_undeclared(probe, connection, tool, undeclared, _ONLY_TO)
        old = {**plain, "tasks": _OLD_TASKS}
        reply = await connection.ask("tools/call", tool.params, capabilities=old)
        _judge_undeclared(probe, connection, tool, reply, _OLD)
    await _add_task_parameter(probe, connection)
    probe.skip((_ONLY_TO, _OLD), NO_TASK)
    probe.skip(_NEEDS, "no tool that may be called needs a client that handles tasks")
    probe.skip(_PARAM, "no tool that may be called succeeds")


def _judge_undeclared(
    probe: Probe, connection: RawConnection, tool: ToolCall, reply: Reply, id: str
) -> None:
    """Judge the answer to a client without the extension: no task, or a refusal that names it."""
    connection.point_at(reply.message)
    declared = "the tasks of 2025-11-25 alone" if id == _OLD else "no extension"
    why = f"answers a call of {tool.name} with a task, although the client declared {declared}"
    is_task = reply.result.get("resultType") == "task"
    if not probe.holds(id, not is_task, why) or not reply.is_error:
        return
    data = reply.error.get("data")
    needed = data.get("requiredCapabilities") if isinstance(data, dict) else None
    extensions = needed.get("extensions") if isinstance(needed, dict) else None
    is_named = isinstance(extensions, dict) and EXTENSION in extensions
    why = f"refuses a call of {tool.name}, which needs tasks, with {reply}"
    probe.holds(_NEEDS, reply.code == _MISSING and is_named, f"{why}, expected error {_MISSING}")


async def _add_task_parameter(probe: Probe, connection: RawConnection) -> None:
    for tool in probe.facts.callable_tools()[:_TRIED]:
        before = await call(probe, connection, tool)
        if before is None or before.is_error or task_id(before):
            continue
        reply = await connection.ask("tools/call", tool.params | {"task": {"ttl": 60_000}})
        after = await call(probe, connection, tool)
        if after is None or after.is_error:
            continue
        connection.point_at(reply.message)
        is_task = reply.result.get("resultType") == "task" or "task" in reply.result
        why = f"answers a call of {tool.name} with `task` with {reply}, although it has no meaning"
        probe.holds(_PARAM, not reply.is_error and not is_task, why)


_ADVERTISED: Final = "tasks-ext.capability.server"


@scenario(_ADVERTISED, era="stateless", needs="tools", sends=("tools/call",))
async def handles_tasks_that_nobody_offers(probe: Probe, connection: RawConnection) -> None:
    if has_extension(probe.facts):
        probe.skip(_ADVERTISED, NO_TASK)
        return
    # One tool of many may make tasks.
    for tool in probe.facts.callable_tools():
        reply = await call_for_task(connection, tool)
        why = f"answers a call of {tool.name} with a task without declaring the extension"
        # Only a task exercises this.
        if reply.result.get("resultType") == "task":
            probe.fail(_ADVERTISED, why)
    probe.not_applicable(_ADVERTISED, NO_EXTENSION)


_NOT_BEFORE: Final = "tasks-ext.legacy.not-under-2025"


@bare_scenario(_NOT_BEFORE, era="stateless", needs="tools")
async def declares_the_extension_in_a_handshake(probe: Probe) -> None:
    if _lacks_extension(probe, (_NOT_BEFORE,)):
        return
    newest = [each.id for each in REVISIONS.values() if each.handshake][-1]
    async with probe.open(is_judged=False, begins=False) as connection:
        capabilities: JsonObject = {"sampling": {}, "extensions": {EXTENSION: {}}}
        reply = await connection.initialize(newest, capabilities=capabilities)
        if reply.is_error or connection.revision != newest:
            probe.not_applicable(_NOT_BEFORE, f"the server does not speak {newest}")
            return
        for tool in probe.facts.callable_tools()[:_TRIED]:
            answer = await connection.ask("tools/call", tool.params)
            is_task = answer.result.get("resultType") == "task" or (
                "taskId" in answer.result and "content" not in answer.result
            )
            why = f"answers a call of {tool.name} under {newest} with a task of the extension"
            probe.holds(_NOT_BEFORE, not is_task, why)
    probe.skip(_NOT_BEFORE, "no tool may be called")


# -- what becomes of tasks

_DURABLE: Final = "tasks-ext.create.durable-first"
_FIRST: Final = "tasks-ext.create.mrtr-first"
_TOOL_ERROR: Final = "tasks-ext.status.tool-error-is-completed"
_ENTROPY: Final = "tasks-ext.security.entropy"
_HAS_RESULT: Final = "tasks-ext.get.completed-has-result"
_FOLLOWED: Final = (_DURABLE, _FIRST, _TOOL_ERROR, _ENTROPY)
_COMPLETE: Final = "tasks-ext.get.result-type-complete"
# Judged by the monitor, in the messages of these scenarios.
_OF_TASKS: Final = (
    _ADVERTISED,
    "tasks-ext.create.result-type-task",
    "tasks-ext.task.required-fields",
    "tasks-ext.task.status-values",
    _COMPLETE,
    _HAS_RESULT,
)
_OF_FAILURES: Final = ("tasks-ext.get.failed-has-error", "tasks-ext.status.failed-message")
_LOOKED_AT: Final = (*_FOLLOWED, *_OF_TASKS, *_OF_FAILURES)
_IDS: Final = 5


@scenario(*_LOOKED_AT, era="stateless", needs="tools", sends=("tools/call", _GET))
async def follows_tasks_of_the_extension(probe: Probe, connection: RawConnection) -> None:
    if _lacks_extension(probe, _LOOKED_AT):
        return
    ids: list[str] = []
    for tool in probe.facts.callable_tools():
        before = await connection.ask("tools/call", tool.params)
        handle = await call_for_task(connection, tool)
        id = task_id(handle)
        if id is None:
            continue
        ids.append(id)
        ended = await _follow(probe, connection, tool, handle, id)
        after = await connection.ask("tools/call", tool.params)
        if ended is not None and without_meta(before) == without_meta(after):
            _judge_end(probe, connection, tool, before, ended)
    if ids:
        await _judge_ids(probe, connection, ids)
    probe.skip(_TOOL_ERROR, "no tool that becomes a task fails")
    probe.skip((_FIRST, *_OF_FAILURES), "no task asks, or fails")
    probe.skip(_LOOKED_AT, NO_TASK)


async def _follow(
    probe: Probe, connection: RawConnection, tool: ToolCall, handle: Reply, id: str
) -> Reply | None:
    """Follow a task, and return its last state; None if it does not end."""
    first = await operate(connection, _GET, id)
    why = f"answers tasks/get of a task that it just returned with {first}"
    if not probe.holds(_DURABLE, not first.is_error, why):
        return None
    waits = handle.result.get("status") == "input_required" or "inputRequests" in handle.result
    if waits or first.result.get("status") == "working":
        connection.point_at(handle.message)
        why = f"returns a task of {tool.name} before its questions are answered"
        probe.holds(_FIRST, not waits, why)
    state = await follow_task(connection, id, probe.target.settling)
    return None if state is None or state.is_error else state


def _judge_end(
    probe: Probe, connection: RawConnection, tool: ToolCall, plain: Reply, state: Reply
) -> None:
    """Judge the end of a task by the answer to the same call without a task."""
    status, result = state.result.get("status"), state.result.get("result")
    connection.point_at(plain.message, state.message)
    if plain.is_failed_call:
        why = f"reports a task whose tool failed ({tool.name}) with {state}, expected completed"
        probe.holds(_TOOL_ERROR, status == "completed", why)
    if status == "completed" and isinstance(result, dict) and not plain.is_error:
        is_same = _bare(result) == _bare(plain.result)
        why = f"shows {state} for a task of {tool.name}; a plain call is answered with {plain}"
        probe.holds(_HAS_RESULT, is_same, why)


def _bare(result: JsonObject) -> JsonObject:
    """Return a result without the members that only tell what kind of answer it is."""
    return {name: value for name, value in result.items() if name not in _EMPTY}


async def _judge_ids(probe: Probe, connection: RawConnection, ids: list[str]) -> None:
    for tool in probe.facts.callable_tools():
        while len(ids) < _IDS and (id := task_id(await call_for_task(connection, tool))):
            ids.append(id)
    if len(ids) >= _IDS:
        why = why_guessable(ids)
        probe.holds(_ENTROPY, why is None, f"gives tasks ids that can be guessed: {why}")
    probe.skip(_ENTROPY, "too few tasks could be started to see how ids are made")


# -- questions and answers, cancellation

_ACKNOWLEDGED: Final = "tasks-ext.update.ack-empty"
_IGNORED: Final = "tasks-ext.update.unknown-keys-ignored"
_CANCELLED: Final = "tasks-ext.cancel.ack-empty"
_OF_QUESTIONS: Final = (
    _COMPLETE,
    "tasks-ext.get.input-requests",
    "tasks-ext.input.keys-unique-for-life",
)
_ANSWERED: Final = (_ACKNOWLEDGED, _IGNORED, *_OF_QUESTIONS)


@scenario(*_ANSWERED, _CANCELLED, era="stateless", needs="tools", sends=(_GET, _UPDATE))
async def answers_and_cancels_tasks(probe: Probe, connection: RawConnection) -> None:
    if _lacks_extension(probe, (*_ANSWERED, _CANCELLED)):
        return
    tasks = await start_tasks(connection, probe.facts)
    # Until a task asks, its work may take a moment.
    await connection.collect(probe.target.settling if tasks else 0)
    for id in tasks:
        state = await operate(connection, _GET, id)
        if state.result.get("status") == "input_required":
            await _answer(probe, connection, id, state)
    for tool in [*tasks.values()][:_TRIED]:
        id = task_id(await call_for_task(connection, tool)) or ""
        reply = await operate(connection, "tasks/cancel", id)
        if not reply.is_error:
            _judge_empty(probe, _CANCELLED, reply, "tasks/cancel")
    probe.skip(_ANSWERED, "no task asks for anything" if tasks else NO_TASK)
    probe.skip(_CANCELLED, "no task could be cancelled" if tasks else NO_TASK)


async def _answer(probe: Probe, connection: RawConnection, id: str, state: Reply) -> None:
    odd = {"accord-check-no-such-key": {"action": "decline"}}
    reply = await operate(connection, _UPDATE, id, {"inputResponses": odd})
    why = f"answers tasks/update with a key that is not outstanding with {reply}"
    probe.holds(_IGNORED, not reply.is_error, why)
    # The same questions, by which the monitor sees whether a key stands for one of them.
    await operate(connection, _GET, id)
    answers = answers_to_task(connection, state)
    if answers:
        reply = await operate(connection, _UPDATE, id, {"inputResponses": answers})
        if not reply.is_error:
            _judge_empty(probe, _ACKNOWLEDGED, reply, _UPDATE)


def _judge_empty(probe: Probe, id: str, reply: Reply, method: str) -> None:
    more = sorted(reply.result.keys() - _EMPTY)
    probe.holds(id, not more, f"answers {method} with {', '.join(more)}, expected nothing")


# -- what is refused

_UNKNOWN: Final = "tasks-ext.errors.get-unknown-32602"
_UNKNOWN_TOO: Final = "tasks-ext.errors.update-cancel-unknown-32602"
_UNDECLARED: Final = "tasks-ext.errors.undeclared-32021"
_REMOVED: Final = "tasks-ext.errors.result-removed-32601"
_REFUSED: Final = (_UNKNOWN, _UNKNOWN_TOO, _UNDECLARED, _REMOVED)


@scenario(*_REFUSED, opens=UNJUDGED, era="stateless")
async def asks_for_tasks_that_it_may_not_have(probe: Probe, connection: RawConnection) -> None:
    if _lacks_extension(probe, _REFUSED):
        return
    answers = {"inputResponses": {"accord-check": {"action": "decline"}}}
    for method, id in ((_GET, _UNKNOWN), (_UPDATE, _UNKNOWN_TOO), ("tasks/cancel", _UNKNOWN_TOO)):
        more = answers if method == _UPDATE else {}
        reply = await operate(connection, method, _UNKNOWN_ID, more)
        probe.expects(id, reply, INVALID_PARAMS, f"{method} with an unknown taskId")
    started = await start_tasks(connection, probe.facts)
    known = next(iter(started), _UNKNOWN_ID)
    for method in (_GET, _UPDATE, "tasks/cancel"):
        params = {"taskId": known, **(answers if method == _UPDATE else {})}
        reply = await connection.ask(method, params)
        what = f"{method} of a client without the extension"
        probe.expects(_UNDECLARED, reply, _MISSING, what)
    removed = {"taskId": known}
    declared = with_tasks(connection)
    reply = await connection.ask("tasks/result", removed, capabilities=declared)
    probe.expects(_REMOVED, reply, METHOD_NOT_FOUND, "tasks/result, which the extension lacks,")
    await _listen_undeclared(probe, connection, known)
    await is_alive(probe, connection, "requests for tasks that it may not have")


async def _listen_undeclared(probe: Probe, connection: RawConnection, id: str) -> None:
    """Listen to a task without the extension: it is refused, or else acknowledged."""
    since = len(connection.received)
    request = await connection.start("subscriptions/listen", {"notifications": {"taskIds": [id]}})
    await connection.collect(probe.target.settling)
    replies = [each for each in connection.received[since:] if each.get("id") == request]
    accepted = connection.messages("notifications/subscriptions/acknowledged", since)
    if replies:
        what = "a listen filter with taskIds of a client without the extension"
        probe.expects(_UNDECLARED, Reply(replies[0]), _MISSING, what)
    elif accepted:
        connection.point_at(accepted[0])
        why = "accepts a listen filter with taskIds of a client without the extension"
        probe.fail(_UNDECLARED, why)
    if not replies:
        await connection.notify("notifications/cancelled", {"requestId": request})
