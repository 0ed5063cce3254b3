"""Tasks of 2025-11-25 before their end: they ask the client, or are cancelled."""

from typing import Any, Final

from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply, answer_to, is_request, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.task_calls import (
    NO_TASKS,
    TASK_CALLS,
    TERMINAL,
    StartedTask,
    related_task,
    start_task,
    task_status,
    task_tools,
)
from accord_tools.check.scenarios._scenario import OWN, scenario

_SET: Final = "tasks.input.status-set"
_LEAVES: Final = "tasks.input.leaves-status"
_ASKING: Final = (_SET, _LEAVES, "tasks.input.related-task", "tasks.related.everywhere")
_NEEDS_INPUT: Final = "input_required"
_NO_QUESTION: Final = "no tool that may be called as a task asks the client"


@scenario(*_ASKING, opens=OWN, needs=TASK_CALLS, sends=("tools/call", "tasks/result"))
async def answers_questions_of_tasks_late(probe: Probe, connection: RawConnection) -> None:
    tools = task_tools(probe.facts)
    connection.respond = _keep_waiting
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


async def _keep_waiting(connection: RawConnection, question: JsonObject) -> None:
    """Leave questions unanswered; the scenario answers them by itself."""
    if question.get("method") == "ping":
        await connection.send(answer_to(question, connection.client_capabilities))


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

_CANCEL: Final = "tasks/cancel"
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
    connection.respond = _keep_waiting
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
