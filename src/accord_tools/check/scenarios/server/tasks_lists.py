"""Several tasks of 2025-11-25: their ids and lists, and whose they are."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.jsonrpc import INVALID_PARAMS
from accord_tools.check.probing.messages import RELATED, Reply, decode_json, is_same_id, objects_in
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.task_calls import (
    NO_TASKS,
    TASK_CALLS,
    TERMINAL,
    StartedTask,
    as_task,
    start_task,
    task_outcome,
    task_status,
    task_tools,
    without_meta,
)
from accord_tools.check.scenarios._scenario import scenario

if TYPE_CHECKING:
    from accord.types import JsonObject

_GET: Final = "tasks/get"
_LIST: Final = "tasks/list"
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


@scenario(*_LISTS, needs="tasks.list", sends=(_LIST, _GET))
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
    reply = await connection.ask(_LIST, {"cursor": "accord-check-no-such-cursor"})
    probe.expects(_BAD_CURSOR, reply, INVALID_PARAMS, "tasks/list with a made-up cursor")
    probe.skip((_PAGINATED, _NEXT), "all tasks are on one page, without a cursor")
    probe.skip(_CONSISTENT, NO_TASKS)


async def _walk(probe: Probe, connection: RawConnection) -> list[str] | None:
    """Return the ids of all listed tasks, in order; None if the pages do not end."""
    listed: list[str] = []
    used: list[str] = []
    cursor: object = None
    while len(used) < _PAGES:
        reply = await connection.ask(_LIST, {} if cursor is None else {"cursor": cursor})
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


@asynccontextmanager
async def open_as_other(probe: Probe) -> AsyncIterator[RawConnection]:
    """Open a connection with the token of another user, which is not judged."""
    headers = {
        name: text
        for name, text in probe.target.spec.headers.items()
        if name.lower() != "authorization"
    }
    headers["authorization"] = f"Bearer {probe.target.other_token}"
    async with probe.target.reached_with(headers=headers).connection(is_judged=False) as connection:
        await connection.begin_conversation(probe.revision)
        yield connection


@scenario(*_OF_OTHERS, needs=TASK_CALLS, on=("http",))
async def asks_for_a_task_of_another_user(probe: Probe, connection: RawConnection) -> None:
    if not probe.target.bearer:
        probe.not_applicable(_OF_OTHERS, "the server asks for no authorization")
        return
    if probe.target.other_token is None:
        probe.skip(_OF_OTHERS, "this needs a token of another user: give --other-bearer")
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
