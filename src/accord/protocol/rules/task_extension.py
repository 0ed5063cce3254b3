"""Deep rules of the tasks extension: its capability, the task handle, polling, questions."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, each, has, may_have, object_of, shown
from accord.protocol.rules.listening import LISTEN, filter_of, subscription_of
from accord.protocol.rules.rounds import is_a_question
from accord.protocol.rules.task_reports import STATUSES, TERMINAL, reported
from accord.protocol.rules.tasks import has_duration, has_time
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

EXTENSION: Final = "io.modelcontextprotocol/tasks"
_DECLARED: Final = f"extensions.{EXTENSION}"
_GET: Final = "tasks/get"
_UPDATE: Final = "tasks/update"
_CANCEL: Final = "tasks/cancel"
_NOTICE: Final = "notifications/tasks"
_CANCELLED: Final = "notifications/cancelled"
_HANDLE: Final = frozenset({"taskId", "status", "createdAt"})
_OLD: Final = ("requests", "cancel", "list")


# -- capabilities


@check(
    "tasks-ext.capability.client-per-request",
    by=CLIENT,
    kind=REQUEST,
    on=(_GET, _UPDATE, _CANCEL, LISTEN),
)
def client_with_tasks_declares_them(step: Step, conversation: "Conversation") -> Outcome:
    if step.name == LISTEN and not filter_of(step.body).get("taskIds"):
        return None
    if _DECLARED in (conversation.capabilities(CLIENT, step.exchange) or ()):
        return True
    return f"sends {step.name} without declaring the extension {EXTENSION}"


@check("tasks-ext.capability.server", by=SERVER, kind=RESULT)
def server_with_tasks_declares_them(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.parties[SERVER].capabilities
    if object_of(step.body).get("resultType") != "task" or declared is None:
        return None
    return _DECLARED in declared or f"makes a task without advertising the extension {EXTENSION}"


@check("tasks-ext.legacy.capabilities-not-advertised", by=SERVER, kind=RESULT, on="server/discover")
def server_does_not_advertise_older_tasks(step: Step, conversation: "Conversation") -> Outcome:
    capabilities = object_of(object_of(step.body).get("capabilities"))
    old = [name for name in _OLD if name in object_of(capabilities.get("tasks"))]
    if old:
        return f"advertises tasks.{old[0]}, which belongs to an older revision"
    return True if EXTENSION in object_of(capabilities.get("extensions")) else None


# -- the handle and the task


@check("tasks-ext.create.result-type-task", by=SERVER, kind=RESULT)
def handle_says_that_it_is_one(step: Step, conversation: "Conversation") -> Outcome:
    if not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.body.get("resultType") == "task":
        is_task = not {"taskId", "status"}.isdisjoint(step.body)
        return is_task or "sends a result of type task that is no task"
    return "sends a task whose resultType is not task" if step.body.keys() >= _HANDLE else None


@check("tasks-ext.task.required-fields", by=SERVER, kind=RESULT)
def task_has_its_members(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        finding
        for place, task in reported(step)
        if step.name == _GET or not {"taskId", "status"}.isdisjoint(task)
        for finding in _members(task, place)
    )


def _members(task: dict[str, Any], place: str) -> Iterator[Finding]:
    yield has(task, place, "taskId", "string")
    yield has(task, place, "status", "string")
    yield has_time(task, place, "createdAt")
    yield has_time(task, place, "lastUpdatedAt")
    yield has_duration(task, place, "ttlMs")
    yield may_have(task, place, "pollIntervalMs", "integer")
    yield may_have(task, place, "statusMessage", "string")


@check("tasks-ext.task.status-values", by=SERVER, kind=(RESULT, NOTIFICATION))
def status_is_a_known_one(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        task["status"] in STATUSES or f"sends {place} with status {shown(task['status'])}"
        for place, task in reported(step)
        if isinstance(task.get("status"), str)
    )


@check("tasks-ext.status.failed-message", by=SERVER, kind=(RESULT, NOTIFICATION))
def failed_task_says_why(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        "statusMessage" in task or f"sends {place}, which failed, without statusMessage"
        for place, task in reported(step)
        if task.get("status") == "failed"
    )


@check("tasks-ext.get.result-type-complete", by=SERVER, kind=RESULT, on=(_GET, _UPDATE, _CANCEL))
def operations_are_answered_completely(step: Step, conversation: "Conversation") -> Outcome:
    type_ = object_of(step.body).get("resultType")
    if not isinstance(type_, str):
        return None
    return type_ == "complete" or f"answers {step.name} with a result of type {shown(type_)}"


@check("tasks-ext.get.input-requests", by=SERVER, kind=RESULT, on=_GET)
def waiting_task_has_its_questions(step: Step, conversation: "Conversation") -> Outcome:
    return each(_outcomes(step, "input_required"))


@check("tasks-ext.get.completed-has-result", by=SERVER, kind=RESULT, on=_GET)
def completed_task_has_its_result(step: Step, conversation: "Conversation") -> Outcome:
    return each(_outcomes(step, "completed"))


@check("tasks-ext.get.failed-has-error", by=SERVER, kind=RESULT, on=_GET)
def failed_task_has_its_error(step: Step, conversation: "Conversation") -> Outcome:
    return each(_outcomes(step, "failed"))


def _outcomes(step: Step, status: str) -> Iterator[Finding]:
    for place, task in reported(step):
        if task.get("status") == status:
            yield from _outcome(task, f"{place}, which is {status},")


def _outcome(task: dict[str, Any], place: str) -> Iterator[Finding]:
    """Judge what a task must have in its status."""
    status = task.get("status")
    if status == "completed":
        yield has(task, place, "result", "object")
    elif status == "failed":
        yield has(task, place, "error", "object")
        if isinstance(task.get("error"), dict):
            yield has(task["error"], f"the error of {place}", "code", "integer")
            yield has(task["error"], f"the error of {place}", "message", "string")
    elif status == "input_required":
        yield has(task, place, "inputRequests", "object")
        asked = object_of(task.get("inputRequests"))
        if asked == task.get("inputRequests") and not asked:
            yield f"sends {place} without any question"
        for key, request in asked.items():
            yield is_a_question(key, request)


# -- questions and answers


@check(
    "tasks-ext.input.keys-unique-for-life",
    by=SERVER,
    kind=(RESULT, NOTIFICATION),
    on=(_GET, _NOTICE),
)
def key_stands_for_one_question(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for _, task in reported(step):
        id, memory = task.get("taskId"), conversation.memory
        known = memory.tasks.get((SERVER, id)) if memory and isinstance(id, str) else None
        earlier = known.asked if known else {}
        for key, request in object_of(task.get("inputRequests")).items():
            same = earlier.get(key, request) == request
            findings.append(same or f"asks another question under the key {shown(key)}")
    return each(findings)


@check("tasks-ext.update.keys-outstanding", by=CLIENT, kind=REQUEST, on=_UPDATE)
def only_open_questions_are_answered(step: Step, conversation: "Conversation") -> Outcome:
    params, memory = object_of(step.body), conversation.memory
    known = memory.tasks.get((SERVER, str(params.get("taskId")))) if memory else None
    if known is None:
        return None
    return each(
        (key in known.asked and key not in known.answered)
        or f"answers {shown(key)}, which the task does not ask"
        for key in object_of(params.get("inputResponses"))
    )


@check("tasks-ext.cancel.not-by-notification", by=CLIENT, kind=REQUEST, on=_CANCEL)
def task_is_cancelled_as_a_task(step: Step, conversation: "Conversation") -> Outcome:
    return True


@check("tasks-ext.cancel.not-by-notification", by=CLIENT, kind=NOTIFICATION, on=_CANCELLED)
def task_is_not_cancelled_as_a_request(step: Step, conversation: "Conversation") -> Outcome:
    id = object_of(step.body).get("requestId")
    if step.exchange is not None or conversation.memory is None or isinstance(id, bool | float):
        return None
    for task in conversation.memory.tasks.values():
        if task.request is not None and task.request.id == id and task.status not in TERMINAL:
            return f"cancels the request {shown(id)}, which became a task"
    return None


# -- notifications


@check("tasks-ext.notify.full-state", by=SERVER, kind=NOTIFICATION, on=_NOTICE)
def notification_tells_the_whole_task(step: Step, conversation: "Conversation") -> Outcome:
    task = object_of(step.body)
    return each([*_members(task, "a task"), *_outcome(task, "a task")])


@check(
    "tasks-ext.notify.no-progress-or-logs",
    by=SERVER,
    kind=NOTIFICATION,
    on=(_NOTICE, "notifications/progress", "notifications/message"),
)
def stream_of_tasks_tells_tasks_only(step: Step, conversation: "Conversation") -> Outcome:
    listen = subscription_of(step, conversation)
    if listen is None or not filter_of(listen.params).get("taskIds"):
        return None
    return step.name == _NOTICE or f"sends {step.name} to a subscription to tasks"
