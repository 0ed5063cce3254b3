"""Tasks of 2025-11-25, and what later rules need to know of any tasks."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.party import KnownTask, Memory
from accord.protocol.rules._rule import (
    Findings,
    Outcome,
    breach_at,
    check,
    holds,
    messages,
    notifications,
    requests,
    results,
)
from accord.protocol.rules.body.notifications import (
    LISTEN,
    find_subscription,
    requested_notifications,
)
from accord.protocol.rules.body.rounds import judge_input_request
from accord.protocol.rules.shapes import BodyShape, Within, shapes
from accord.protocol.rules.state import TASK_TOKENS
from accord.protocol.rules.values import (
    META,
    Located,
    as_object,
    crosses,
    declared_in,
    memory_of,
    objects_at,
    quote,
    request_params,
)
from accord.protocol.violation import CLIENT, OTHER, SERVER, Party
from accord.types._base import JsonObject

RELATED: Final = f"{META}related-task"
TASK_REQUESTS: Final = ("tools/call", "sampling/createMessage", "elicitation/create")
"""The requests that can become tasks in 2025-11-25."""
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
STATUSES: Final = TERMINAL | {"working", "input_required"}

_CALL: Final = "tools/call"
_CALLS: Final = requests(_CALL, by=CLIENT)
_FIRST_RESULTS: Final = results(TASK_REQUESTS)
_TOOL_TASKS: Final = "tasks.requests.tools.call"
GET: Final = "tasks/get"
CANCEL: Final = "tasks/cancel"
_OPERATIONS: Final = (GET, "tasks/list", CANCEL)
_STATUS: Final = "notifications/tasks/status"
_PROGRESS: Final = "notifications/progress"
REPORT_KINDS: Final = (RESULT, NOTIFICATION)
_REPORTS: Final = messages(REPORT_KINDS, (*TASK_REQUESTS, *_OPERATIONS, _STATUS))


# -- the tasks in messages, and what later rules need to know of them


def find_created_task(step: Step) -> JsonObject | None:
    """Return the task in a result by which a request became a task."""
    if step.kind != RESULT or not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.revision.result_type:
        return step.body if step.body.get("resultType") == "task" else None
    task = step.body.get("task")
    return task if isinstance(task, dict) and "task" in request_params(step) else None


def find_reported_tasks(step: Step) -> list[Located]:
    task = find_created_task(step)
    if task is not None:
        return [("a new task", task)]
    if not isinstance(step.body, dict):
        return []
    if step.kind == RESULT and step.name == "tasks/list":
        return objects_at(step.body, "tasks")
    reports = (GET, CANCEL) if step.kind == RESULT else (_STATUS, "notifications/tasks")
    # The extension acknowledges a cancellation with an empty result.
    if step.name not in reports or (step.revision.result_type and step.name == CANCEL):
        return []
    return [("the task", step.body)] if step.kind in REPORT_KINDS else []


def find_tasks(status: str | None = None) -> Within:
    """Return a finder of the tasks in a message, all or those in one status, for shapes."""

    def find(step: Step, conversation: Conversation) -> list[Located]:
        if status is None:
            return find_reported_tasks(step)
        return [
            (f"{place} in status {status}", task)
            for place, task in find_reported_tasks(step)
            if task.get("status") == status
        ]

    return find


def learn_tasks(step: Step, memory: Memory) -> None:
    """Note new tasks, their status, and their questions and answers."""
    if step.kind == REQUEST:
        if step.name == "tasks/update":
            params = as_object(step.body)
            answered = memory.tasks.get((SERVER, str(params.get("taskId"))))
            if answered is not None:
                answered.answered.update(as_object(params.get("inputResponses")))
        return
    is_new = find_created_task(step) is not None
    for _, task in find_reported_tasks(step):
        id = task.get("taskId")
        if not isinstance(id, str):
            continue
        known = memory.tasks.get((step.sender, id))
        if known is None or is_new:
            request = step.exchange if is_new else None
            since = step.record.t if step.record else None
            known = KnownTask(owner=step.sender, request=request, since=since)
            memory.tasks[step.sender, id] = known
        if isinstance(task.get("status"), str) and not _is_overtaken(task, known, step):
            known.status = task["status"]
            known.updated = str(task.get("lastUpdatedAt"))
            known.stream = _stream_of(step)
        known.asked.update(as_object(task.get("inputRequests")))


def _is_overtaken(task: JsonObject, known: KnownTask, step: Step) -> bool:
    """Return whether a report may be older than one that came before, on another stream."""
    updated = task.get("lastUpdatedAt")
    if not isinstance(updated, str) or len(updated) != len(known.updated):
        return False
    # Of two changes in one millisecond the one reported on another stream may be the first.
    is_elsewhere = step.kind == NOTIFICATION and _stream_of(step) != known.stream
    return updated < known.updated or (updated == known.updated and is_elsewhere)


def _stream_of(step: Step) -> str | None:
    http = step.record and step.record.http
    return http.stream if http else None


def find_known_task(conversation: Conversation, owner: Party, id: object) -> KnownTask | None:
    return memory_of(conversation).tasks.get((owner, id)) if isinstance(id, str) else None


# -- capabilities of 2025-11-25


@check("tasks.capability.declared", _FIRST_RESULTS, at="task")
def creator_of_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.party(step.sender).capabilities
    if find_created_task(step) is None or declared is None:
        return None
    return "tasks" in declared or f"answers {step.name} with a task without declaring tasks"


def _asks_for_task(step: Step) -> bool:
    return "task" in as_object(step.body)


@check("tasks.capability.requestor-respects", requests(TASK_REQUESTS), at="task")
def task_is_requested_where_declared(step: Step, conversation: Conversation) -> Outcome:
    # A peer without any tasks is judged by tasks.capability.none-no-tasks.
    if "tasks" not in (conversation.party(OTHER[step.sender]).capabilities or ()):
        return None
    return _judge_task_request(step, conversation, f"tasks.requests.{step.name.replace('/', '.')}")


@check("tasks.capability.none-no-tasks", requests(TASK_REQUESTS), at="task")
def peer_without_tasks_is_not_asked_for_one(step: Step, conversation: Conversation) -> Outcome:
    return _judge_task_request(step, conversation, "tasks")


def _judge_task_request(step: Step, conversation: Conversation, needed: str) -> Outcome:
    other = OTHER[step.sender]
    declared = conversation.party(other).capabilities
    if not _asks_for_task(step) or declared is None:
        return None
    if needed in declared:
        return True
    # Tools are judged by tasks.tool.no-capability-no-task.
    why = f"asks for {step.name} as a task, but the {other} did not declare {needed}"
    return None if step.name == _CALL else why


@check("tasks.tool.no-capability-no-task", _CALLS, at="task")
def tool_is_not_a_task_without_capability(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.server.capabilities
    if not _asks_for_task(step) or declared is None:
        return None
    return _TOOL_TASKS in declared or (
        f"calls a tool as a task, but the server did not declare {_TOOL_TASKS}"
    )


def _support_of(params: JsonObject, conversation: Conversation) -> object:
    """Return the taskSupport of a called tool; None when it is unknown or tasks are off."""
    name = params.get("name")
    tools = memory_of(conversation).tools
    if not isinstance(name, str) or name not in tools:
        return None
    if _TOOL_TASKS not in (conversation.server.capabilities or ()):
        return None
    return as_object(tools[name].get("execution")).get("taskSupport", "forbidden")


@check("tasks.tool.forbidden-not-tasked", _CALLS, at="task")
def tool_without_task_support_is_called_plainly(step: Step, conversation: Conversation) -> Outcome:
    support = _support_of(as_object(step.body), conversation)
    if support is None or not _asks_for_task(step):
        return None
    return support != "forbidden" or (
        f"calls tool {quote(step.body['name'])} as a task, but its taskSupport is 'forbidden'"
    )


@check("tasks.tool.required-tasked", _CALLS, at="name")
def tool_that_requires_a_task_is_called_as_one(step: Step, conversation: Conversation) -> Outcome:
    if _support_of(as_object(step.body), conversation) != "required":
        return None
    return _asks_for_task(step) or (
        f"calls tool {quote(step.body['name'])} without a task, but its taskSupport is 'required'"
    )


# -- the task and its life

shapes(
    _REPORTS,
    {
        "tasks.id.string": "taskId: string",
        "tasks.status.valid-transitions": f"status: {'|'.join(sorted(STATUSES))}",
        "tasks.times.created-at": "createdAt: time",
        "tasks.times.last-updated-at": "lastUpdatedAt: time",
    },
    within=find_tasks(),
)
shapes(
    _REPORTS, {"tasks.errors.status-message": "statusMessage: string"}, within=find_tasks("failed")
)
shapes(_REPORTS, {"tasks.ttl.in-get": "ttl: duration"}, within=find_tasks())


@check("tasks.create.returns-task", _FIRST_RESULTS, at="/result")
def request_for_a_task_is_answered_with_one(step: Step, conversation: Conversation) -> Outcome:
    if "task" not in request_params(step) or not isinstance(step.body, dict):
        return None
    if step.name == _CALL:
        is_due = _support_of(request_params(step), conversation) in ("optional", "required")
    else:
        declared = conversation.party(step.sender).capabilities or ()
        is_due = f"tasks.requests.{step.name.replace('/', '.')}" in declared
    if not is_due:
        return None
    is_task = isinstance(step.body.get("task"), dict)
    return is_task or f"answers {step.name}, requested as a task, with a plain result"


@check("tasks.status.starts-working", _FIRST_RESULTS, at="task.status")
def new_task_is_working(step: Step, conversation: Conversation) -> Outcome:
    status = as_object(find_created_task(step)).get("status")
    # A status that does not exist is judged by tasks.status.valid-transitions.
    if not isinstance(status, str) or status not in STATUSES:
        return None
    return status == "working" or f"creates a task in status {status}, expected working"


@check("tasks.id.receiver-generated", _FIRST_RESULTS, at="task.taskId")
def task_id_is_not_from_the_request(step: Step, conversation: Conversation) -> Outcome:
    task = find_created_task(step)
    if task is None or not isinstance(task.get("taskId"), str):
        return None
    requested = as_object(request_params(step).get("task")).values()
    return task["taskId"] not in requested or (
        f"creates the task {quote(task['taskId'])} with an id from the request"
    )


@check("tasks.id.unique", _FIRST_RESULTS, at="task.taskId")
def task_id_is_new(step: Step, conversation: Conversation) -> Outcome:
    task = find_created_task(step)
    if task is None or not isinstance(task.get("taskId"), str):
        return None
    known = memory_of(conversation).tasks.get((step.sender, task["taskId"]))
    # A notification may overtake the answer that creates a task.
    is_known = known is not None and known.request is not None
    return f"creates a second task {quote(task['taskId'])}" if is_known else True


@check("tasks.status.terminal-final", _REPORTS)
def ended_task_keeps_its_status(step: Step, conversation: Conversation) -> Findings:
    for place, task in find_reported_tasks(step) if find_created_task(step) is None else ():
        id, status = task.get("taskId"), task.get("status")
        known = find_known_task(conversation, step.sender, id)
        if known is None or _is_overtaken(task, known, step):
            continue
        if known.status in TERMINAL and isinstance(status, str):
            why = f"moves the task {quote(id)} from {known.status} to {quote(status)}"
            yield status == known.status or breach_at(why, place, "status")


# -- related-task


def _related_task(body: object) -> object:
    """Return the task id that a message names as related; None without one."""
    return as_object(meta_of(body).get(RELATED)).get("taskId")


# A server may ask for roots at any time, whatever its tasks wait for.
@check("tasks.input.related-task", requests(TASK_REQUESTS[1:], by=SERVER))
def question_of_a_task_names_it(step: Step, conversation: Conversation) -> Outcome:
    if RELATED in meta_of(step.body):
        has_id = isinstance(_related_task(step.body), str)
        return has_id or f"sends {step.name} with a related-task that has no taskId"
    open_requests = conversation.party(OTHER[step.sender]).open.values()
    if any(not exchange.name.startswith("tasks/") for exchange in open_requests):
        # It may be a question of that request.
        return None
    for (owner, id), task in memory_of(conversation).tasks.items():
        if owner == step.sender and task.status == "input_required":
            return f"sends {step.name} for the task {quote(id)} without related-task"
    return None


@check("tasks.result.related-task", results("tasks/result"), at="_meta")
def result_of_a_task_names_it(step: Step, conversation: Conversation) -> Outcome:
    id = request_params(step).get("taskId")
    if not isinstance(step.body, dict) or not isinstance(id, str):
        return None
    return _related_task(step.body) == id or f"answers tasks/result without related-task {id!r}"


@check("tasks.related.everywhere", results())
def answer_names_the_task_of_its_request(step: Step, conversation: Conversation) -> Outcome:
    id = _related_task(request_params(step))
    is_operation = step.name.startswith("tasks/")
    if is_operation or not isinstance(id, str) or not isinstance(step.body, dict):
        return None
    return _related_task(step.body) == id or f"answers {step.name} without related-task {id!r}"


@check("tasks.related.everywhere", notifications(_PROGRESS))
def progress_of_a_task_names_it(step: Step, conversation: Conversation) -> Outcome:
    token = as_object(step.body).get("progressToken")
    is_token = isinstance(token, int | str) and not isinstance(token, bool)
    if step.exchange is not None or not is_token:
        return None
    id = memory_of(conversation).facts.get(TASK_TOKENS, {}).get((OTHER[step.sender], token))
    if not id:
        return None
    return _related_task(step.body) == id or (
        f"reports progress of the task {quote(id)} without related-task"
    )


@check(
    "tasks.related.not-on-task-ops",
    messages((REQUEST, RESULT, NOTIFICATION), (*_OPERATIONS, _STATUS)),
    at=RELATED,
)
def operation_on_a_task_has_no_related_task(step: Step, conversation: Conversation) -> Outcome:
    return RELATED not in meta_of(step.body) or f"sends {step.name} with related-task"


# -- the tasks extension of revisions without handshake

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
