"""Extensions: identifiers and settings of any of them, and the rules of the tasks extension."""

from collections.abc import Iterator
from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import REQUEST
from accord.protocol.rules._rule import (
    Finding,
    Outcome,
    check,
    combine,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.meta import is_label, is_name, split_key
from accord.protocol.rules.body.notifications import (
    LISTEN,
    find_subscription,
    requested_notifications,
)
from accord.protocol.rules.body.rounds import judge_input_request
from accord.protocol.rules.body.tasks import (
    REPORT_KINDS,
    STATUSES,
    TERMINAL,
    find_known_task,
    find_tasks,
    reported_tasks,
)
from accord.protocol.rules.shapes import BodyShape, shapes
from accord.protocol.rules.values import META, Located, as_object, quote
from accord.protocol.violation import CLIENT, SERVER
from accord.types._base import JsonObject

_TASKS: Final = f"{META}tasks"
_DECLARED: Final = f"extensions.{_TASKS}"
_GET: Final = "tasks/get"
_UPDATE: Final = "tasks/update"
_CANCEL: Final = "tasks/cancel"
_NOTIFICATION: Final = "notifications/tasks"
_OLD_CAPABILITIES: Final = ("requests", "cancel", "list")


# -- identifiers and settings of any extension


def _declared_in(step: Step) -> object:
    if step.kind == REQUEST:
        return meta_of(step.body).get(f"{META}clientCapabilities")
    return as_object(step.body).get("capabilities")


def _declarations(step: Step, conversation: Conversation) -> Iterator[Located]:
    capabilities = as_object(_declared_in(step))
    if "extensions" in capabilities:
        yield "capabilities", capabilities


_SETTINGS: Final = {"extensions.settings-object": "extensions: {*: object}"}

shapes(requests(by=CLIENT), _SETTINGS, within=_declarations)
shapes(results("server/discover", by=SERVER), _SETTINGS, within=_declarations)


@check("extensions.identifier-format", requests(by=CLIENT))
@check("extensions.identifier-format", results("server/discover", by=SERVER))
def extension_has_a_prefix_and_a_name(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _is_identifier(key)
        or f"declares the extension {key[:60]!r}, expected a prefix, a slash and a name"
        for _, capabilities in _declarations(step, conversation)
        for key in as_object(capabilities["extensions"])
    )


def _is_identifier(key: str) -> bool:
    labels, name = split_key(key)
    return labels is not None and all(is_label(label) for label in labels) and is_name(name)


# -- tasks: capabilities


@check(
    "tasks-ext.capability.client-per-request", requests((_GET, _UPDATE, _CANCEL, LISTEN), by=CLIENT)
)
def client_with_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    if step.name == LISTEN and not requested_notifications(step.body).get("taskIds"):
        return None
    if _DECLARED in (conversation.capabilities(CLIENT, step.exchange) or ()):
        return True
    return f"sends {step.name} without declaring the extension {_TASKS}"


@check("tasks-ext.capability.server", results(by=SERVER))
def server_with_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.parties[SERVER].capabilities
    if as_object(step.body).get("resultType") != "task" or declared is None:
        return None
    return _DECLARED in declared or f"creates a task without declaring the extension {_TASKS}"


@check("tasks-ext.legacy.capabilities-not-advertised", results("server/discover", by=SERVER))
def server_does_not_advertise_older_tasks(step: Step, conversation: Conversation) -> Outcome:
    capabilities = as_object(as_object(step.body).get("capabilities"))
    old = [name for name in _OLD_CAPABILITIES if name in as_object(capabilities.get("tasks"))]
    if old:
        return f"declares tasks.{old[0]}, which belongs to an older revision"
    return True if _TASKS in as_object(capabilities.get("extensions")) else None


# -- tasks: the task

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
    messages(REPORT_KINDS, by=SERVER),
    {"tasks-ext.status.failed-message": "statusMessage: any"},
    within=find_tasks("failed"),
)
shapes(
    results(_GET, by=SERVER),
    {"tasks-ext.get.completed-has-result": _COMPLETED},
    within=find_tasks("completed"),
)
shapes(
    results(_GET, by=SERVER),
    {"tasks-ext.get.failed-has-error": _FAILED},
    within=find_tasks("failed"),
)


@check("tasks-ext.create.result-type-task", results(by=SERVER))
def task_has_its_result_type(step: Step, conversation: Conversation) -> Outcome:
    if not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.body.get("resultType") == "task":
        is_task = not {"taskId", "status"}.isdisjoint(step.body)
        return is_task or "sends a result of type task without taskId and status"
    looks_like_task = step.body.keys() >= {"taskId", "status", "createdAt"}
    type_ = quote(step.body.get("resultType"))
    return f"sends a task with resultType {type_}, expected 'task'" if looks_like_task else None


@check("tasks-ext.task.required-fields", results(by=SERVER))
def task_has_its_members(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        finding
        for place, task in reported_tasks(step)
        if step.name == _GET or not {"taskId", "status"}.isdisjoint(task)
        for finding in _TASK.judge(task, place)
    )


@check("tasks-ext.task.status-values", messages(REPORT_KINDS, by=SERVER))
def status_is_known(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        task["status"] in STATUSES or f"sends {place} with status {quote(task['status'])}"
        for place, task in reported_tasks(step)
        if isinstance(task.get("status"), str)
    )


@check("tasks-ext.get.result-type-complete", results((_GET, _UPDATE, _CANCEL), by=SERVER))
def operations_have_complete_results(step: Step, conversation: Conversation) -> Outcome:
    type_ = as_object(step.body).get("resultType")
    if not isinstance(type_, str):
        return None
    return type_ == "complete" or f"answers {step.name} with a result of type {quote(type_)}"


@check("tasks-ext.get.input-requests", results(_GET, by=SERVER))
def waiting_task_has_its_questions(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        finding
        for place, task in find_tasks("input_required")(step, conversation)
        for finding in _by_status(task, place)
    )


def _by_status(task: JsonObject, place: str) -> Iterator[Finding]:
    """Judge the members that a task has in its status."""
    status = task.get("status")
    shape = _BY_STATUS.get(status) if isinstance(status, str) else None
    if shape is None:
        return
    yield from shape.judge(task, place)
    if shape is _WAITING and isinstance(task.get("inputRequests"), dict):
        if not task["inputRequests"]:
            yield f"sends {place} without any question"
        for key, request in task["inputRequests"].items():
            yield judge_input_request(key, request)


# -- tasks: questions and answers, cancellation, notifications


@check(
    "tasks-ext.input.keys-unique-for-life", messages(REPORT_KINDS, (_GET, _NOTIFICATION), by=SERVER)
)
def key_stands_for_one_question(step: Step, conversation: Conversation) -> Outcome:
    findings: list[Finding] = []
    for _, task in reported_tasks(step):
        known = find_known_task(conversation, SERVER, task.get("taskId"))
        earlier = known.asked if known else {}
        for key, request in as_object(task.get("inputRequests")).items():
            is_same = earlier.get(key, request) == request
            findings.append(is_same or f"asks another question under the key {quote(key)}")
    return combine(findings)


@check("tasks-ext.update.keys-outstanding", requests(_UPDATE, by=CLIENT))
def only_open_questions_are_answered(step: Step, conversation: Conversation) -> Outcome:
    params = as_object(step.body)
    known = find_known_task(conversation, SERVER, str(params.get("taskId")))
    if known is None:
        return None
    return combine(
        (key in known.asked and key not in known.answered)
        or f"answers {quote(key)}, which is not an open question of the task"
        for key in as_object(params.get("inputResponses"))
    )


@check("tasks-ext.cancel.not-by-notification", requests(_CANCEL, by=CLIENT))
def task_is_cancelled_as_a_task(step: Step, conversation: Conversation) -> Outcome:
    return True


@check("tasks-ext.cancel.not-by-notification", notifications("notifications/cancelled", by=CLIENT))
def task_is_not_cancelled_as_a_request(step: Step, conversation: Conversation) -> Outcome:
    id = as_object(step.body).get("requestId")
    if step.exchange is not None or conversation.memory is None or isinstance(id, bool | float):
        return None
    for task in conversation.memory.tasks.values():
        if task.request is not None and task.request.id == id and task.status not in TERMINAL:
            return f"cancels the request {quote(id)}, which became a task: use {_CANCEL}"
    return None


@check("tasks-ext.notify.full-state", notifications(_NOTIFICATION, by=SERVER))
def notification_has_the_whole_task(step: Step, conversation: Conversation) -> Outcome:
    task = as_object(step.body)
    return combine([*_TASK.judge(task, "a task"), *_by_status(task, "a task")])


@check(
    "tasks-ext.notify.no-progress-or-logs",
    notifications((_NOTIFICATION, "notifications/progress", "notifications/message"), by=SERVER),
)
def subscription_to_tasks_gets_only_tasks(step: Step, conversation: Conversation) -> Outcome:
    listen = find_subscription(step, conversation)
    if listen is None or not requested_notifications(listen.params).get("taskIds"):
        return None
    return step.name == _NOTIFICATION or f"sends {step.name} to a subscription to tasks"
