"""Tasks of 2025-11-25: how they begin, ask the client, are cancelled and end; what is refused."""

import asyncio
from typing import Any, Final

from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply, answer_to, is_request, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.task_calls import (
    NO_TASKS,
    TASK_CALLS,
    TERMINAL,
    StartedTask,
    as_task,
    related_task,
    start_task,
    task_outcome,
    task_status,
    task_support,
    task_tools,
    without_meta,
)
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    ANSWERED,
    OWN,
    UNJUDGED,
    answer_pings_only,
    call,
    is_alive,
    scenario,
)

_GET: Final = "tasks/get"
_RESULT: Final = "tasks/result"
_CANCEL: Final = "tasks/cancel"

_DECLARED: Final = "tasks.capability.declared"
_RETURNS: Final = "tasks.create.returns-task"
# Judged by the monitor, in the messages of these scenarios.
_OF_TASKS: Final = (
    _DECLARED,
    _RETURNS,
    "tasks.status.starts-working",
    "tasks.status.valid-transitions",
    "tasks.status.terminal-final",
    "tasks.id.string",
    "tasks.id.receiver-generated",
    "tasks.id.unique",
    "tasks.times.created-at",
    "tasks.times.last-updated-at",
    "tasks.ttl.in-get",
    "tasks.result.related-task",
    "tasks.related.not-on-task-ops",
)
_FAILING: Final = "tasks.errors.status-message"
_PROMPT: Final = "tasks.create.promptly"
_BLOCKS: Final = "tasks.result.blocks-until-terminal"
_EXACT: Final = "tasks.result.exact"
_TOOL_ERROR: Final = "tasks.errors.tool-error-is-failed"
_FOLLOWED: Final = (_PROMPT, _BLOCKS, _EXACT, _TOOL_ERROR)
# A call that takes this long takes much longer than a task to be created.
_LONG: Final = 0.08
# If an answer at once takes more than this part of a whole call, the machine is busy.
_BUSY: Final = 4
_UNFINISHED: Final = ("working", "input_required")


@scenario(*_FOLLOWED, *_OF_TASKS, _FAILING, needs=TASK_CALLS, sends=("tools/call", _GET, _RESULT))
async def follows_tasks_to_their_end(probe: Probe, connection: RawConnection) -> None:
    tools = task_tools(probe.facts)
    if not tools:
        probe.skip((*_FOLLOWED, *_OF_TASKS, _FAILING), NO_TASKS)
    for tool in tools:
        # On a busy machine a tool may be slow once.
        if not await _follow(probe, connection, tool, is_last=False):
            await _follow(probe, connection, tool, is_last=True)
    probe.skip(_PROMPT, "every tool is quicker than the answer with a task may be")
    probe.skip(_BLOCKS, "every task had ended before its result was asked for")
    probe.skip((_TOOL_ERROR, _FAILING), "no tool that may be called as a task fails")


async def _follow(
    probe: Probe, connection: RawConnection, tool: ToolCall, *, is_last: bool
) -> bool:
    """Call a tool as a task, between two plain calls; False if that should be repeated."""
    is_optional = task_support(tool.tool) == "optional"
    began = asyncio.get_running_loop().time()
    before = await call(probe, connection, tool) if is_optional else None
    plain = asyncio.get_running_loop().time() - began
    since = len(connection.received)
    task = await start_task(connection, tool)
    if isinstance(task, Reply):
        if not task.is_error:
            why = f"answers a call of {tool.name} as a task with {task}"
            probe.holds(_RETURNS, isinstance(task.result.get("task"), dict), why)
        return True
    probe.passes(_RETURNS)
    handle = len(connection.received)
    asked = asyncio.get_running_loop().time()
    status = await task_status(connection, task.id)
    latency = asyncio.get_running_loop().time() - asked
    outcome = await task_outcome(connection, task.id)
    if outcome is None:
        await _explain_missing(probe, connection, task)
        return True
    ended = await _judge_blocking(probe, connection, task, status, outcome)
    if ended not in TERMINAL or ended == "cancelled":
        return True
    if outcome.is_failed_call:
        why = f"reports a task as {ended} whose tool failed ({tool.name}), expected failed"
        probe.holds(_TOOL_ERROR, ended == "failed", why)
    # Messages of two streams may arrive in any order.
    is_ordered = connection.log.transport == "stdio"
    earlier = connection.received[since : handle - 1] if is_ordered else []
    has_begun = any("method" in each for each in earlier) and status == ended
    # On a busy machine a slow answer shows nothing.
    shows = is_optional and latency < plain / _BUSY
    is_late = _is_late(task, plain if shows else 0.0, has_begun=has_begun)
    if status in _UNFINISHED:
        # The work went on after the task was there.
        is_late = False
    after = await call(probe, connection, tool) if before is not None else None
    expected = before if before and after and _says_same(before, after) else None
    if any("method" in each and "id" in each for each in connection.received[since:]):
        # Its answer names the task, which the result may repeat.
        expected = None
    is_exact = expected is None or _says_same(expected, outcome)
    if not is_last and (is_late or not is_exact):
        return False
    if is_late is not None:
        why = f"answers a call of {tool.name} as a task only when its work is done"
        probe.holds(_PROMPT, not is_late, why)
    await _judge_outcome(probe, connection, task, outcome, expected)
    return True


def _is_late(task: StartedTask, plain: float, *, has_begun: bool) -> bool | None:
    """Return whether a task was created only with its end; None if nothing shows it.

    Args:
        task: the task.
        plain: seconds that the same call took without a task.
        has_begun: whether messages of the work came before the task, and it was over at once.
    """
    if has_begun:
        return True
    if plain < _LONG:
        return None
    return task.seconds > plain * 2 / 3


def _says_same(one: Reply, other: Reply) -> bool:
    return without_meta(one) == without_meta(other)


async def _explain_missing(probe: Probe, connection: RawConnection, task: StartedTask) -> None:
    status = await task_status(connection, task.id)
    if status in TERMINAL:
        probe.fail(ANSWERED, f"leaves tasks/result of a task that is {status} unanswered")
    else:
        why = f"a task of {task.tool.name} did not end in time"
        probe.skip((_BLOCKS, _EXACT, _TOOL_ERROR), why)


async def _judge_blocking(
    probe: Probe, connection: RawConnection, task: StartedTask, before: str, outcome: Reply
) -> str:
    """Judge that a result came with the end of its task; return the status of the task."""
    proof = connection.proof
    status = await task_status(connection, task.id)
    if status not in ("working", "input_required"):
        if before in ("working", "input_required") and status in TERMINAL:
            probe.passes(_BLOCKS)
        return status
    if not outcome.is_error:
        # The status may be noted a moment after the result is sent.
        await connection.collect(probe.target.settling)
        connection.proof = proof
        status = await task_status(connection, task.id)
    if status in ("working", "input_required"):
        connection.point_at(outcome.message, connection.received[-1])
        probe.fail(_BLOCKS, f"answers tasks/result while the task is {status}")
    return status


async def _judge_outcome(
    probe: Probe,
    connection: RawConnection,
    task: StartedTask,
    outcome: Reply,
    expected: Reply | None,
) -> None:
    connection.point_at(outcome.message)
    name = task.tool.name
    if expected is not None:
        connection.point_at(expected.message, outcome.message)
        why = f"returns {outcome} for a task of {name}; a plain call returns {expected}"
        probe.holds(_EXACT, _says_same(expected, outcome), why)
    elif not outcome.is_error:
        is_result = isinstance(outcome.result.get("content"), list)
        why = f"returns {outcome} for a task of {name}, which is not the result of a tool"
        probe.holds(_EXACT, is_result, why)
    again = await task_outcome(connection, task.id)
    # A server may forget a task whose result was fetched.
    if again is not None and again.code != INVALID_PARAMS:
        connection.point_at(outcome.message, again.message)
        why = f"returns {outcome} for a task of {name}, and the second time {again}"
        probe.holds(_EXACT, _says_same(outcome, again), why)


# -- calls that cannot become tasks

_FORBIDDEN: Final = "tasks.tool.forbidden-error"
_REQUIRED: Final = "tasks.tool.required-error"
_IGNORED: Final = "tasks.undeclared.ignored"
# This many tools show how a server treats calls that it should refuse, or take plainly.
_TRIED: Final = 3


@scenario(_FORBIDDEN, _REQUIRED, opens=UNJUDGED, needs=TASK_CALLS)
async def calls_tools_against_their_task_support(probe: Probe, connection: RawConnection) -> None:
    by_support: dict[str, list[ToolCall]] = {}
    for tool in probe.facts.callable_tools():
        # Other values are reported as tools.task-support.values.
        by_support.setdefault(task_support(tool.tool), []).append(tool)
    for tool in by_support.get("forbidden", [])[:_TRIED]:
        reply = await connection.ask("tools/call", as_task(tool))
        what = f"a call of {tool.name} as a task, which it does not support,"
        probe.expects(_FORBIDDEN, reply, METHOD_NOT_FOUND, what)
    for tool in by_support.get("required", [])[:_TRIED]:
        reply = await connection.ask("tools/call", tool.params)
        what = f"a plain call of {tool.name}, which requires a task,"
        probe.expects(_REQUIRED, reply, METHOD_NOT_FOUND, what)
    probe.skip(_FORBIDDEN, "every tool that may be called supports tasks")
    probe.skip(_REQUIRED, "no tool that may be called requires a task")


def _knows_task_calls(facts: ServerFacts) -> str | None:
    return f"the server declared {TASK_CALLS}" if facts.declares(TASK_CALLS) else None


@scenario(_IGNORED, _DECLARED, opens=UNJUDGED, needs="tools", when=_knows_task_calls)
async def asks_a_server_without_tasks_for_one(probe: Probe, connection: RawConnection) -> None:
    for tool in probe.facts.callable_tools()[:_TRIED]:
        if (await connection.ask("tools/call", tool.params)).is_error:
            continue
        reply = await connection.ask("tools/call", as_task(tool))
        if reply.is_error and (await connection.ask("tools/call", tool.params)).is_error:
            # The tool fails now and then.
            continue
        is_task = isinstance(reply.result.get("task"), dict) and "content" not in reply.result
        connection.point_at(reply.message)
        why = f"declared no tasks, and answers a call with `task` with {reply}"
        if not probe.facts.declares("tasks"):
            probe.holds(_DECLARED, not is_task, why)
        probe.holds(_IGNORED, not reply.is_error and not is_task, why)
    probe.skip(_IGNORED, "no tool that may be called succeeds")


# -- tasks that do not exist

_UNKNOWN: Final = "tasks.errors.unknown-id"


@scenario(_UNKNOWN, opens=UNJUDGED, needs="tasks")
async def asks_for_a_task_that_does_not_exist(probe: Probe, connection: RawConnection) -> None:
    methods = [_GET, _RESULT, *([_CANCEL] if probe.facts.declares("tasks.cancel") else [])]
    for method in methods:
        reply = await connection.ask(method, {"taskId": "accord-check-no-such-task"})
        probe.expects(_UNKNOWN, reply, INVALID_PARAMS, f"{method} with an unknown taskId")
    await is_alive(probe, connection, "a taskId that does not exist")


_SET: Final = "tasks.input.status-set"
_LEAVES: Final = "tasks.input.leaves-status"
_ASKING: Final = (_SET, _LEAVES, "tasks.input.related-task", "tasks.related.everywhere")
_NEEDS_INPUT: Final = "input_required"
_NO_QUESTION: Final = "no tool that may be called as a task asks the client"


@scenario(*_ASKING, opens=OWN, needs=TASK_CALLS, sends=("tools/call", "tasks/result"))
async def answers_questions_of_tasks_late(probe: Probe, connection: RawConnection) -> None:
    tools = task_tools(probe.facts)
    connection.respond = answer_pings_only
    for tool in tools:
        task = await start_task(connection, tool)
        if isinstance(task, Reply):
            continue
        since = len(connection.received)
        request = await connection.start("tasks/result", {"taskId": task.id})
        try:
            await _answer_questions(probe, connection, task, request, since)
        except MessageTimeout:
            # The work may take longer than a check.
            await _give_up(probe, connection, task, request)
    probe.skip(_ASKING, _NO_QUESTION if tools else NO_TASKS)


async def _give_up(
    probe: Probe, connection: RawConnection, task: StartedTask, request: object
) -> None:
    await connection.notify("notifications/cancelled", {"requestId": request})
    if probe.facts.declares("tasks.cancel"):
        await connection.ask("tasks/cancel", {"taskId": task.id})


async def _answer_questions(
    probe: Probe, connection: RawConnection, task: StartedTask, request: object, since: int
) -> None:
    """Answer what a task asks, and look at its status before and after.

    Raises:
        MessageTimeout: it neither asks nor ends.
    """
    answered = 0

    def questions() -> list[JsonObject]:
        asked = [each for each in connection.received[since:] if _is_question(each)]
        return [each for each in asked if related_task(each) in (None, task.id)][answered:]

    def is_next(message: JsonObject) -> bool:
        is_result = "method" not in message and message.get("id") == request
        return is_result or any(message is each for each in questions())

    while True:
        message = await connection.until(is_next, f"the end of a task of {task.tool.name}")
        if "method" not in message:
            return
        status = await _status_when(probe, connection, task, {_NEEDS_INPUT, *TERMINAL})
        if status in (_NEEDS_INPUT, "working"):
            connection.point_at(message, connection.received[-1])
            why = f"asks {message['method']} for a task that is still {status}"
            probe.holds(_SET, status == _NEEDS_INPUT, why)
        await connection.send(answer_to(message, connection.client_capabilities))
        answered += 1
        status = await _status_when(probe, connection, task, {"working", *TERMINAL})
        if status and not questions():
            why = f"leaves a task in {status} although its question was answered"
            probe.holds(_LEAVES, status != _NEEDS_INPUT, why)


def _is_question(message: JsonObject) -> bool:
    return is_request(message) and message["method"] != "ping"


async def _status_when(
    probe: Probe, connection: RawConnection, task: StartedTask, wanted: set[str]
) -> str:
    """Return the status of a task, some time later if it is not one of these."""
    status = await task_status(connection, task.id)
    if status and status not in wanted:
        await connection.collect(probe.target.settling)
        status = await task_status(connection, task.id)
    return status


# -- cancelled


_BEFORE: Final = "tasks.cancel.cancelled-before-response"
_STAYS: Final = "tasks.cancel.stays-cancelled"
_STOPS: Final = "tasks.cancel.attempt-stop"
_CANCELLED: Final = (_BEFORE, _STAYS, _STOPS)
# How many settling times a cancelled task is watched.
_WAITS: Final = 4
# Seconds to wait for the first report of progress.
_SOON: Final = 0.2


@scenario(
    *_CANCELLED,
    "tasks.id.unique",
    "tasks.related.not-on-task-ops",
    opens=OWN,
    needs="tasks.cancel",
    sends=("tools/call", _CANCEL),
)
async def cancels_tasks(probe: Probe, connection: RawConnection) -> None:
    tools = task_tools(probe.facts)
    connection.respond = answer_pings_only
    cancelled: list[StartedTask] = []
    for tool in tools:
        # Once at the beginning, and once while it reports progress.
        for is_running in (False, True):
            task = await start_task(connection, tool)
            if isinstance(task, Reply) or (is_running and not await _reports(connection, task)):
                break
            if not await _cancel(probe, connection, task):
                break
            cancelled.append(task)
    # What was sent before the cancellation may still arrive.
    await connection.collect(probe.target.settling if cancelled else 0)
    since = len(connection.received)
    await connection.collect(probe.target.settling * _WAITS if cancelled else 0)
    for task in cancelled:
        _judge_stopping(probe, connection, task, since)
        reply = await connection.ask("tasks/get", {"taskId": task.id})
        status = reply.result.get("status")
        # A server may forget a task that was cancelled.
        if isinstance(status, str):
            why = f"moves a task of {task.tool.name} from cancelled to {status}"
            probe.holds(_STAYS, status == "cancelled", why)
    why = "every task had ended before it was cancelled" if tools else NO_TASKS
    probe.skip(_CANCELLED if not cancelled else _STAYS, why)
    probe.skip(_STOPS, "no tool that may be called as a task reports progress")


async def _reports(connection: RawConnection, task: StartedTask) -> bool:
    """Return whether a task soon reports progress."""
    try:
        await connection.until(
            lambda message: _token(message) == task.token, "progress", patience=_SOON
        )
    except MessageTimeout:
        return False
    return True


async def _cancel(probe: Probe, connection: RawConnection, task: StartedTask) -> bool:
    """Cancel a task; return whether it was cancelled while it was unfinished."""
    reply = await connection.ask(_CANCEL, {"taskId": task.id})
    status = reply.result.get("status")
    if status == "cancelled":
        later = await task_status(connection, task.id)
        why = f"answers tasks/cancel although the task is still {later}"
        return probe.holds(_BEFORE, later not in ("working", _NEEDS_INPUT), why)
    now = await task_status(connection, task.id)
    is_unfinished = now in ("working", _NEEDS_INPUT)
    if is_unfinished or not reply.is_error:
        connection.point_at(reply.message, connection.received[-1])
        what = reply if reply.is_error else f"a task that is {status}"
        why = f"answers tasks/cancel of an unfinished task with {what}, expected cancelled"
        # A task that ended on the way may be shown as it is.
        is_over = not is_unfinished and status == now
        if not is_over:
            probe.fail(_BEFORE, why)
    return False


def _judge_stopping(probe: Probe, connection: RawConnection, task: StartedTask, since: int) -> None:
    def of_task(messages: list[JsonObject]) -> list[JsonObject]:
        return [each for each in messages if _token(each) == task.token]

    early, late = of_task(connection.received[:since]), of_task(connection.received[since:])
    asked = [
        each
        for each in connection.received[since:]
        if _is_question(each) and related_task(each) == task.id
    ]
    if early or late or asked:
        connection.point_at(*late[-2:], *asked[-1:])
        why = f"works on a task of {task.tool.name} that was cancelled: it sends {len(late)} "
        why += f"reports of progress and {len(asked)} questions"
        probe.holds(_STOPS, not late and not asked, why)


def _token(message: JsonObject) -> Any:
    is_progress = message.get("method") == "notifications/progress"
    return params_of(message).get("progressToken") if is_progress else None
