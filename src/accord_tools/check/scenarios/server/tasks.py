"""Tasks of 2025-11-25: how they begin, ask, are cancelled and end; their ids, lists and owners."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, Final

from accord.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from accord.types import JsonObject
from accord_tools.check.probing.messages import (
    RELATED,
    Reply,
    answer_to,
    decode_json,
    is_request,
    is_same_id,
    objects_in,
    params_of,
)
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
    lacks_other_user,
    open_as_other,
    scenario,
)

_GET: Final = "tasks/get"
_RESULT: Final = "tasks/result"

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
    methods = [_GET, _RESULT, *(["tasks/cancel"] if probe.facts.declares("tasks.cancel") else [])]
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
    sends=("tools/call", "tasks/cancel"),
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
    reply = await connection.ask("tasks/cancel", {"taskId": task.id})
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


# -- several tasks

_UNGUESSABLE: Final = "tasks.security.unguessable-ids"
_PARAM_WINS: Final = "tasks.related.param-wins"
_NO_SSE: Final = "tasks.http.no-sse-for-get"
_TERMINAL: Final = "tasks.cancel.terminal-32602"
_OWN_IDS: Final = "tasks.id.receiver-generated"
# Judged by the monitor too, in the messages of these scenarios.
_FINAL: Final = "tasks.status.terminal-final"
_SEVERAL: Final = (
    "tasks.id.unique",
    _FINAL,
    _OWN_IDS,
    _UNGUESSABLE,
    _PARAM_WINS,
    _NO_SSE,
    _TERMINAL,
)
# Enough to see how a server makes ids.
_TASKS: Final = 5


async def _start_several(connection: RawConnection, facts: ServerFacts) -> list[StartedTask]:
    """Start tasks one after the other, of all tools by turns; they end by themselves."""
    tools = task_tools(facts)
    started: list[StartedTask] = []
    for number in range(_TASKS if tools else 0):
        task = await start_task(connection, tools[number % len(tools)])
        if isinstance(task, StartedTask):
            started.append(task)
    return started


@scenario(*_SEVERAL, needs=TASK_CALLS, sends=("tools/call", _GET, "tasks/result"))
async def starts_several_tasks(probe: Probe, connection: RawConnection) -> None:
    tasks = await _start_several(connection, probe.facts)
    if not tasks:
        probe.skip(_SEVERAL, NO_TASKS)
        return
    await _offer_id(probe, connection, tasks[0])
    outcomes = {task.id: await task_outcome(connection, task.id) for task in tasks}
    ended = [task for task in tasks if outcomes[task.id] is not None]
    _judge_ids(probe, [task.id for task in tasks])
    if connection.log.transport == "http":
        reply = await connection.ask(_GET, {"taskId": tasks[0].id})
        why = "answers tasks/get with an event stream"
        probe.holds(_NO_SSE, not _is_streamed(connection, reply), why)
    else:
        probe.not_applicable(_NO_SSE, "the server is not reached over http")
    if ended:
        await _try_other_meta(probe, connection, ended, outcomes)
    if probe.facts.declares("tasks.cancel"):
        for task in ended[:2]:
            await _cancel_ended(probe, connection, task)
    else:
        probe.not_applicable(_TERMINAL, "the server did not declare tasks.cancel")
    probe.skip((_PARAM_WINS, _TERMINAL), "no two tasks ended in time")


async def _offer_id(probe: Probe, connection: RawConnection, task: StartedTask) -> None:
    offered = "accord-check-own-id"
    params = as_task(task.tool)
    reply = await connection.ask(
        "tools/call", params | {"task": params["task"] | {"taskId": offered}}
    )
    created = reply.result.get("task")
    if isinstance(created, dict):
        why = f"takes the id {offered!r} of a task from the request"
        probe.holds(_OWN_IDS, created.get("taskId") != offered, why)


def _judge_ids(probe: Probe, ids: Sequence[str]) -> None:
    if probe.target.bearer:
        probe.skip(_UNGUESSABLE, "tasks are bound to the token")
    elif len(ids) < _TASKS:
        probe.skip(_UNGUESSABLE, "too few tasks could be started to see how ids are made")
    else:
        why = why_guessable(ids)
        probe.holds(_UNGUESSABLE, why is None, f"gives tasks ids that can be guessed: {why}")


# A part of an id that has fewer characters can be tried out.
_SHORTEST: Final = 8
# Numbers as near as this follow from each other, or from the time.
_NEAR: Final = 2**32


def why_guessable(ids: Sequence[str]) -> str | None:
    """Return why the next id of several, in the order they were made, can be guessed.

    >>> why_guessable(["task-7", "task-8", "task-9"])
    "only '7' and '8' differ in 'task-7' and 'task-8'"
    """
    start = _common_start(ids)
    end = _common_start([each[start:][::-1] for each in ids])
    parts = [each[start : len(each) - end] for each in ids]
    shown = f"{ids[0]!r} and {ids[1]!r}"
    if max(map(len, parts)) < _SHORTEST:
        return f"only {parts[0]!r} and {parts[1]!r} differ in {shown}"
    for base in (10, 16):
        try:
            # The digits behind a common start count too.
            numbers = [int(each.replace("-", ""), base) for each in parts]
        except ValueError:
            continue
        steps = [later - earlier for earlier, later in pairwise(numbers)]
        if all(0 < step < _NEAR for step in steps):
            return f"they count up, as {shown}"
    return None


def _common_start(texts: Sequence[str]) -> int:
    """Return how many characters all texts begin with."""
    columns = zip(*texts, strict=False)
    return sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns))


def _is_streamed(connection: RawConnection, reply: Reply) -> bool:
    """Return whether an answer came in an event stream."""
    for record in reversed(connection.log.records):
        if record.sender != "server" or record.message is None or record.http is None:
            continue
        if _holds_answer(bytes(record.message), reply.id):
            return record.http.event is not None
    return False


def _holds_answer(data: bytes, id: Any) -> bool:
    found = objects_in(decode_json(data))
    return any("method" not in each and is_same_id(each.get("id"), id) for each in found)


async def _try_other_meta(
    probe: Probe,
    connection: RawConnection,
    tasks: Sequence[StartedTask],
    outcomes: Mapping[str, Reply | None],
) -> None:
    """Name one task in the parameters, and another in the metadata."""
    one, outcome = tasks[0], outcomes[tasks[0].id]
    others = [each for each in tasks if each.id != one.id]
    # Best one with another result.
    others.sort(key=lambda each: each.tool.name == one.tool.name)
    if not others or outcome is None:
        return
    other = others[0]
    params: JsonObject = {"taskId": one.id, "_meta": {RELATED: {"taskId": other.id}}}
    if not await task_status(connection, one.id):
        return
    reply = await connection.ask(_GET, params)
    why = f"answers tasks/get of {one.id!r:.60} with {reply}, as its related-task named another"
    probe.holds(_PARAM_WINS, reply.result.get("taskId") == one.id, why)
    again = await task_outcome(connection, one.id)
    if again is None or without_meta(again) != without_meta(outcome):
        # The server forgets results that were fetched.
        return
    reply = await connection.ask("tasks/result", params)
    why = f"answers tasks/result of {one.id!r:.60} with {reply}, as its related-task named another"
    probe.holds(_PARAM_WINS, without_meta(reply) == without_meta(outcome), why)


async def _cancel_ended(probe: Probe, connection: RawConnection, task: StartedTask) -> None:
    status = await task_status(connection, task.id)
    if status in TERMINAL:
        reply = await connection.ask("tasks/cancel", {"taskId": task.id})
        what = f"tasks/cancel of a task that is {status}"
        probe.expects(_TERMINAL, reply, INVALID_PARAMS, what)


# -- lists

_BAD_CURSOR: Final = "tasks.errors.bad-cursor"
_PAGINATED: Final = "tasks.list.paginated"
_NEXT: Final = "tasks.list.next-cursor"
_CONSISTENT: Final = "tasks.list.consistent-with-get"
_LISTED: Final = (_FINAL, "tasks.status.valid-transitions", "tasks.related.not-on-task-ops")
_LISTS: Final = (*_LISTED, _BAD_CURSOR, _PAGINATED, _NEXT, _CONSISTENT)
_PAGES: Final = 50


@scenario(*_LISTS, needs="tasks.list", sends=("tasks/list", _GET))
async def lists_tasks(probe: Probe, connection: RawConnection) -> None:
    tasks = await _start_several(connection, probe.facts)
    for task in tasks[:2]:
        # The monitor compares their status with what is listed.
        if await task_outcome(connection, task.id) is not None:
            await task_status(connection, task.id)
    listed = await _walk(probe, connection)
    if tasks and listed is not None:
        await _find_in_list(probe, connection, tasks, listed)
    # Not before: the server may mend its list when it hears of a bad cursor.
    reply = await connection.ask("tasks/list", {"cursor": "accord-check-no-such-cursor"})
    probe.expects(_BAD_CURSOR, reply, INVALID_PARAMS, "tasks/list with a made-up cursor")
    probe.skip((_PAGINATED, _NEXT), "all tasks are on one page, without a cursor")
    probe.skip(_CONSISTENT, NO_TASKS)


async def _walk(probe: Probe, connection: RawConnection) -> list[str] | None:
    """Return the ids of all listed tasks, in order; None if the pages do not end."""
    listed: list[str] = []
    used: list[str] = []
    cursor: object = None
    while len(used) < _PAGES:
        reply = await connection.ask("tasks/list", {} if cursor is None else {"cursor": cursor})
        if reply.is_error and cursor is not None:
            probe.fail(_PAGINATED, f"answers tasks/list with its own cursor with {reply}")
            return None
        entries = objects_in(reply.result.get("tasks"))
        ids = [each["taskId"] for each in entries if isinstance(each.get("taskId"), str)]
        if cursor is not None and ids and set(ids) <= set(listed):
            probe.fail(_PAGINATED, "answers tasks/list with its own cursor with an earlier page")
            return None
        listed += ids
        cursor = reply.result.get("nextCursor")
        if not isinstance(cursor, str):
            if used:
                probe.passes(_PAGINATED, _NEXT)
            return listed
        if cursor in used:
            probe.fail(_PAGINATED, f"never ends tasks/list: the cursor {cursor!r:.80} is repeated")
            return None
        used.append(cursor)
    return None


async def _find_in_list(
    probe: Probe, connection: RawConnection, tasks: Sequence[StartedTask], listed: Sequence[str]
) -> None:
    """Judge that tasks which can be got are listed.

    A list that ends after some of them, and names no further page, has left out the cursor.
    """
    missing = [each for each in tasks if each.id not in listed]
    if not missing:
        probe.passes(_CONSISTENT)
        return
    last = connection.received[-1]
    # A task may have been dropped in between: only one that can still be got is missing.
    held = [each for each in missing if await task_status(connection, each.id)]
    if not held:
        return
    connection.point_at(last, connection.received[-1])
    kept = [each for each in tasks if each.id in listed]
    is_cut = bool(kept) and tasks[: len(kept)] == kept and len(held) == len(missing) > 1
    is_cut = is_cut or (bool(kept) and [*tasks[-len(kept) :]] == kept and len(missing) > 1)
    if is_cut:
        why = f"ends tasks/list after {len(listed)} tasks without nextCursor; more can be got"
        probe.fail(_NEXT, why)
    else:
        why = f"does not list the task {held[0].id!r:.60}, which tasks/get returns"
        probe.fail(_CONSISTENT, why)


# -- other users

_UNIDENTIFIED: Final = "tasks.security.no-list-unidentified"
_BOUND: Final = "tasks.security.bound-to-context"
_FOREIGN: Final = "tasks.security.foreign-rejected"
_OWN_ONLY: Final = "tasks.security.list-own-only"
_OF_OTHERS: Final = (_BOUND, _FOREIGN, _OWN_ONLY)


@scenario(_UNIDENTIFIED, needs="tasks.list", on=("http",))
async def lists_tasks_of_another_session(probe: Probe, connection: RawConnection) -> None:
    if probe.target.bearer:
        probe.not_applicable(_UNIDENTIFIED, "the token tells users apart")
        return
    tasks = (await _start_several(connection, probe.facts))[:1]
    async with probe.open() as other:
        listed = await _walk(probe, other) if tasks else None
    if listed is not None:
        why = "lists the tasks of another session, and asks for no authorization"
        probe.holds(_UNIDENTIFIED, tasks[0].id not in listed, why)
    probe.skip(_UNIDENTIFIED, NO_TASKS)


@scenario(*_OF_OTHERS, needs=TASK_CALLS, on=("http",))
async def asks_for_a_task_of_another_user(probe: Probe, connection: RawConnection) -> None:
    if lacks_other_user(probe, _OF_OTHERS):
        return
    tasks = (await _start_several(connection, probe.facts))[:2]
    if not tasks:
        probe.skip(_OF_OTHERS, NO_TASKS)
        return
    id = tasks[0].id
    async with open_as_other(probe) as other:
        methods = [_GET, "tasks/result"]
        methods += ["tasks/cancel"] if probe.facts.declares("tasks.cancel") else []
        for method in methods:
            reply = await other.ask(method, {"taskId": id})
            connection.proof = other.proof
            why = f"answers {method} of a task of another user with {reply}"
            for each in (_FOREIGN, _BOUND):
                probe.holds(each, reply.is_error, why)
        if probe.facts.declares("tasks.list"):
            listed = await _walk(probe, other)
            connection.proof = other.proof
            if listed is not None:
                why = "lists a task of another user"
                probe.holds(_OWN_ONLY, id not in listed, why)
        else:
            probe.not_applicable(_OWN_ONLY, "the server did not declare tasks.list")
