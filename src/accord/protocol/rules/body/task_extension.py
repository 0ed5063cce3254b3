"""Tasks of the extension, which replaces those of 2025-11-25."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.rules._rule import Findings, Outcome, breach_at, check, holds
from accord.protocol.rules.body.notifications import (
    LISTEN,
    find_subscription,
    requested_notifications,
)
from accord.protocol.rules.body.rounds import judge_input_request
from accord.protocol.rules.body.tasks import (
    CANCEL,
    GET,
    REPORT_KINDS,
    STATUSES,
    TERMINAL,
    find_known_task,
    find_reported_tasks,
    find_tasks,
)
from accord.protocol.rules.selection import messages, notifications, requests, results
from accord.protocol.rules.shapes import BodyShape, shapes
from accord.protocol.rules.values import META, as_object, crosses, declared_in, memory_of, quote
from accord.protocol.violation import CLIENT, SERVER
from accord.types._base import JsonObject

_EXTENSION: Final = f"{META}tasks"
_EXTENSION_PATH: Final = f"extensions.{_EXTENSION}"
_UPDATE: Final = "tasks/update"
_NOTIFICATION: Final = "notifications/tasks"
_OLD_CAPABILITIES: Final = ("requests", "cancel", "list")
_STATES: Final = results(GET, by=SERVER)
_ANY_REPORT: Final = messages(REPORT_KINDS, by=SERVER)
_OPERATION_RESULTS: Final = results((GET, _UPDATE, CANCEL), by=SERVER)
_CANCELLATIONS: Final = notifications("notifications/cancelled", by=CLIENT)


# -- capabilities


@check(
    "tasks-ext.capability.client-per-request", requests((GET, _UPDATE, CANCEL, LISTEN), by=CLIENT)
)
def client_with_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    if step.name == LISTEN and not requested_notifications(step.body).get("taskIds"):
        return None
    if _EXTENSION_PATH in (conversation.capabilities(CLIENT, step.exchange) or ()):
        return True
    return f"sends {step.name} without declaring the extension {_EXTENSION}"


@check("tasks-ext.capability.server", results(by=SERVER), at="resultType")
def server_with_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.server.capabilities
    if as_object(step.body).get("resultType") != "task" or declared is None:
        return None
    is_declared = _EXTENSION_PATH in declared
    return is_declared or f"creates a task without declaring the extension {_EXTENSION}"


@check("tasks-ext.legacy.capabilities-not-advertised", results("server/discover", by=SERVER))
def server_does_not_advertise_older_tasks(step: Step, conversation: Conversation) -> Outcome:
    capabilities = declared_in(step) or {}
    old = [name for name in _OLD_CAPABILITIES if name in as_object(capabilities.get("tasks"))]
    if old:
        why = f"declares tasks.{old[0]}, which belongs to an older revision"
        return breach_at(why, "capabilities", "tasks", old[0])
    return True if _EXTENSION in as_object(capabilities.get("extensions")) else None


# -- the task

_TASK: Final = BodyShape(
    """
    taskId: string, status: string, createdAt: time, lastUpdatedAt: time,
    ttlMs: duration, pollIntervalMs?: integer, statusMessage?: string
    """
)
_COMPLETED: Final = "result: object"
_FAILED: Final = "error: {code: integer, message: string}"
_WAITING: Final = BodyShape("inputRequests: object")
_BY_STATUS: Final = {
    "completed": BodyShape(_COMPLETED),
    "failed": BodyShape(_FAILED),
    "input_required": _WAITING,
}

shapes(
    _ANY_REPORT,
    {"tasks-ext.status.failed-message": "statusMessage: any"},
    within=find_tasks("failed"),
)
shapes(_STATES, {"tasks-ext.get.completed-has-result": _COMPLETED}, within=find_tasks("completed"))
shapes(_STATES, {"tasks-ext.get.failed-has-error": _FAILED}, within=find_tasks("failed"))


@check("tasks-ext.create.result-type-task", results(by=SERVER))
def task_has_its_result_type(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.body.get("resultType") == "task":
        is_task = not {"taskId", "status"}.isdisjoint(step.body)
        return is_task or "sends a result of type task without taskId and status"
    looks_like_task = step.body.keys() >= {"taskId", "status", "createdAt"}
    type_ = quote(step.body.get("resultType"))
    why = f"sends a task with resultType {type_}, expected 'task'"
    return breach_at(why, "resultType") if looks_like_task else None


@check("tasks-ext.task.required-fields", results(by=SERVER))
def task_has_its_members(step: Step, conversation: Conversation) -> Findings:
    for place, task in find_reported_tasks(step):
        if step.name == GET or not {"taskId", "status"}.isdisjoint(task):
            yield from _TASK.judge(task, place)


@check("tasks-ext.task.status-values", _ANY_REPORT)
def status_is_known(step: Step, conversation: Conversation) -> Findings:
    for place, task in find_reported_tasks(step):
        status = task.get("status")
        if isinstance(status, str):
            yield status in STATUSES or breach_at(
                f"sends {place} with status {quote(status)}", place, "status"
            )


@check("tasks-ext.get.result-type-complete", _OPERATION_RESULTS, at="resultType")
def operations_have_complete_results(step: Step, conversation: Conversation) -> Outcome:
    type_ = as_object(step.body).get("resultType")
    if not isinstance(type_, str):
        return None
    return type_ == "complete" or f"answers {step.name} with a result of type {quote(type_)}"


@check("tasks-ext.get.input-requests", _STATES)
def waiting_task_has_its_questions(step: Step, conversation: Conversation) -> Findings:
    for place, task in find_tasks("input_required")(step, conversation):
        yield from _by_status(task, place)


def _by_status(task: JsonObject, place: str) -> Findings:
    """Judge the members that a task has in its status."""
    status = task.get("status")
    shape = _BY_STATUS.get(status) if isinstance(status, str) else None
    if shape is None:
        return
    yield from shape.judge(task, place)
    if shape is _WAITING and isinstance(task.get("inputRequests"), dict):
        if not task["inputRequests"]:
            yield breach_at(f"sends {place} without any question", "inputRequests")
        for key, request in task["inputRequests"].items():
            yield judge_input_request(key, request)


# -- questions and answers, cancellation, notifications


@check(
    "tasks-ext.input.keys-unique-for-life",
    messages(REPORT_KINDS, (GET, _NOTIFICATION), by=SERVER),
)
def key_stands_for_one_question(step: Step, conversation: Conversation) -> Findings:
    for _, task in find_reported_tasks(step):
        known = find_known_task(conversation, SERVER, task.get("taskId"))
        earlier = known.asked if known else {}
        for key, request in as_object(task.get("inputRequests")).items():
            is_same = earlier.get(key, request) == request
            yield is_same or breach_at(
                f"asks another question under the key {quote(key)}", "inputRequests", key
            )


@check("tasks-ext.update.keys-outstanding", requests(_UPDATE, by=CLIENT), at="inputResponses")
def only_open_questions_are_answered(step: Step, conversation: Conversation) -> Findings:
    params = as_object(step.body)
    known = find_known_task(conversation, SERVER, str(params.get("taskId")))
    for key in as_object(params.get("inputResponses")) if known else ():
        is_open = known is not None and key in known.asked and key not in known.answered
        yield is_open or f"answers {quote(key)}, which is not an open question of the task"


holds(requests(CANCEL, by=CLIENT), "tasks-ext.cancel.not-by-notification")


@check("tasks-ext.cancel.not-by-notification", _CANCELLATIONS, at="requestId")
def task_is_not_cancelled_as_a_request(step: Step, conversation: Conversation) -> Outcome:
    id = as_object(step.body).get("requestId")
    if step.exchange is not None or isinstance(id, bool | float):
        return None
    for task in memory_of(conversation).tasks.values():
        is_own = task.request is not None and task.request.id == id
        if is_own and task.status not in TERMINAL and not crosses(step, task.since):
            return f"cancels the request {quote(id)}, which became a task: use {CANCEL}"
    return None


@check("tasks-ext.notify.full-state", notifications(_NOTIFICATION, by=SERVER))
def notification_has_the_whole_task(step: Step, conversation: Conversation) -> Findings:
    yield from _TASK.judge(as_object(step.body), "a task")
    yield from _by_status(as_object(step.body), "a task")


@check(
    "tasks-ext.notify.no-progress-or-logs",
    notifications((_NOTIFICATION, "notifications/progress", "notifications/message"), by=SERVER),
    at="/method",
)
def subscription_to_tasks_gets_only_tasks(step: Step, conversation: Conversation) -> Outcome:
    listen = find_subscription(step, conversation)
    if listen is None or not requested_notifications(listen.params).get("taskIds"):
        return None
    return step.name == _NOTIFICATION or f"sends {step.name} to a subscription to tasks"
