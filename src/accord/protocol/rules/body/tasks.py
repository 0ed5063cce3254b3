"""Tasks of 2025-11-25: their creation, their life, and the messages related to them."""

from typing import Final

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.monitor_memory import KnownTask, Memory
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
from accord.protocol.rules.shapes import Within, shapes
from accord.protocol.rules.state import TASK_TOKENS
from accord.protocol.rules.values import META, Located, as_object, objects_at, quote, request_params
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
_GET: Final = "tasks/get"
_CANCEL: Final = "tasks/cancel"
_OPERATIONS: Final = (_GET, "tasks/list", _CANCEL)
_STATUS: Final = "notifications/tasks/status"
_PROGRESS: Final = "notifications/progress"
REPORT_KINDS: Final = (RESULT, NOTIFICATION)
_REPORTS: Final = messages(REPORT_KINDS, (*TASK_REQUESTS, *_OPERATIONS, _STATUS))


# -- the tasks in messages, and what later rules need to know of them


def _created_task(step: Step) -> JsonObject | None:
    """Return the task in a result by which a request became a task."""
    if step.kind != RESULT or not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.revision.result_type:
        return step.body if step.body.get("resultType") == "task" else None
    task = step.body.get("task")
    return task if isinstance(task, dict) and "task" in request_params(step) else None


def reported_tasks(step: Step) -> list[Located]:
    """Return every task that a message reports, with its place."""
    task = _created_task(step)
    if task is not None:
        return [("a new task", task)]
    if not isinstance(step.body, dict):
        return []
    if step.kind == RESULT and step.name == "tasks/list":
        return objects_at(step.body, "tasks")
    reports = (_GET, _CANCEL) if step.kind == RESULT else (_STATUS, "notifications/tasks")
    # The extension acknowledges a cancellation with an empty result.
    if step.name not in reports or (step.revision.result_type and step.name == _CANCEL):
        return []
    return [("the task", step.body)] if step.kind in REPORT_KINDS else []


def find_tasks(status: str | None = None) -> Within:
    """Return a finder of the tasks in a message, all or those in one status, for shapes."""

    def find(step: Step, conversation: Conversation) -> list[Located]:
        if status is None:
            return reported_tasks(step)
        return [
            (f"{place} in status {status}", task)
            for place, task in reported_tasks(step)
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
    is_new = _created_task(step) is not None
    for _, task in reported_tasks(step):
        id = task.get("taskId")
        if not isinstance(id, str):
            continue
        known = memory.tasks.get((step.sender, id))
        if known is None or is_new:
            request = step.exchange if is_new else None
            known = memory.tasks[step.sender, id] = KnownTask(owner=step.sender, request=request)
        if isinstance(task.get("status"), str):
            known.status = task["status"]
        known.asked.update(as_object(task.get("inputRequests")))


def find_known_task(conversation: Conversation, owner: Party, id: object) -> KnownTask | None:
    """Return what is remembered of a task."""
    memory = conversation.memory
    return memory.tasks.get((owner, id)) if memory and isinstance(id, str) else None


# -- capabilities of 2025-11-25


@check("tasks.capability.declared", _FIRST_RESULTS)
def creator_of_tasks_declares_them(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.parties[step.sender].capabilities
    if _created_task(step) is None or declared is None:
        return None
    return "tasks" in declared or f"answers {step.name} with a task without declaring tasks"


def _asks_for_task(step: Step) -> bool:
    return "task" in as_object(step.body)


def _capability(name: str) -> str:
    return f"tasks.requests.{name.replace('/', '.')}"


@check("tasks.capability.requestor-respects", requests(TASK_REQUESTS))
def task_is_requested_where_declared(step: Step, conversation: Conversation) -> Outcome:
    declared = conversation.parties[OTHER[step.sender]].capabilities
    # A peer without any tasks is judged by tasks.capability.none-no-tasks, tools by their own rule.
    if not _asks_for_task(step) or declared is None or "tasks" not in declared:
        return None
    needed = _capability(step.name)
    if needed in declared:
        return True
    other = OTHER[step.sender]
    why = f"asks for {step.name} as a task, but the {other} did not declare {needed}"
    return None if step.name == _CALL else why


@check("tasks.capability.none-no-tasks", requests(TASK_REQUESTS))
def task_is_not_requested_from_a_peer_without_tasks(
    step: Step, conversation: Conversation
) -> Outcome:
    declared = conversation.parties[OTHER[step.sender]].capabilities
    if not _asks_for_task(step) or declared is None:
        return None
    if "tasks" in declared:
        return True
    why = f"asks for {step.name} as a task, but the {OTHER[step.sender]} did not declare tasks"
    return None if step.name == _CALL else why


@check("tasks.tool.no-capability-no-task", _CALLS)
def tool_is_not_a_task_without_capability(step: Step, conversation: Conversation) -> Outcome:
    offered = _offers_tool_tasks(conversation)
    if not _asks_for_task(step) or offered is None:
        return None
    needed = _capability(_CALL)
    return offered or f"calls a tool as a task, but the server did not declare {needed}"


def _offers_tool_tasks(conversation: Conversation) -> bool | None:
    declared = conversation.parties[SERVER].capabilities
    return None if declared is None else _capability(_CALL) in declared


def _task_support(step: Step, conversation: Conversation) -> object:
    """Return the taskSupport of a called tool; None when it is unknown or tasks are off."""
    name = as_object(step.body).get("name")
    memory = conversation.memory
    if memory is None or not isinstance(name, str) or name not in memory.tools:
        return None
    if not _offers_tool_tasks(conversation):
        return None
    return as_object(memory.tools[name].get("execution")).get("taskSupport", "forbidden")


@check("tasks.tool.forbidden-not-tasked", _CALLS)
def tool_without_task_support_is_called_plainly(step: Step, conversation: Conversation) -> Outcome:
    support = _task_support(step, conversation)
    if support is None or not _asks_for_task(step):
        return None
    return support != "forbidden" or (
        f"calls tool {quote(step.body['name'])} as a task, but its taskSupport is 'forbidden'"
    )


@check("tasks.tool.required-tasked", _CALLS)
def tool_that_requires_a_task_is_called_as_one(step: Step, conversation: Conversation) -> Outcome:
    if _task_support(step, conversation) != "required":
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
    _REPORTS,
    {"tasks.errors.status-message": "statusMessage: string"},
    within=find_tasks("failed"),
)
shapes(results(_GET), {"tasks.ttl.in-get": "ttl: duration"}, within=find_tasks())


@check("tasks.id.receiver-generated", _FIRST_RESULTS)
def task_id_is_not_from_the_request(step: Step, conversation: Conversation) -> Outcome:
    task = _created_task(step)
    if task is None or not isinstance(task.get("taskId"), str):
        return None
    requested = as_object(request_params(step).get("task")).values()
    return task["taskId"] not in requested or (
        f"creates the task {quote(task['taskId'])} with an id from the request"
    )


@check("tasks.id.unique", _FIRST_RESULTS)
def task_id_is_new(step: Step, conversation: Conversation) -> Outcome:
    task, memory = _created_task(step), conversation.memory
    if task is None or memory is None or not isinstance(task.get("taskId"), str):
        return None
    is_known = (step.sender, task["taskId"]) in memory.tasks
    return f"creates a second task {quote(task['taskId'])}" if is_known else True


@check("tasks.status.terminal-final", _REPORTS)
def ended_task_keeps_its_status(step: Step, conversation: Conversation) -> Outcome:
    if _created_task(step) is not None:
        return None
    findings: list[Finding] = []
    for _, task in reported_tasks(step):
        id, status = task.get("taskId"), task.get("status")
        known = find_known_task(conversation, step.sender, id)
        if known is None or known.status not in TERMINAL or not isinstance(status, str):
            continue
        why = f"moves the task {quote(id)} from {known.status} to {quote(status)}"
        findings.append(status == known.status or why)
    return combine(findings)


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
    waiting = _waiting_tasks(step, conversation)
    if not waiting or _serves_another_request(step, conversation):
        return None
    return f"sends {step.name} for the task {quote(waiting[0])} without related-task"


def _waiting_tasks(step: Step, conversation: Conversation) -> list[str]:
    tasks = conversation.memory.tasks if conversation.memory else {}
    return [
        id
        for (owner, id), task in tasks.items()
        if owner == step.sender and task.status == "input_required"
    ]


def _serves_another_request(step: Step, conversation: Conversation) -> bool:
    exchanges = conversation.parties[OTHER[step.sender]].open.values()
    return any(not exchange.name.startswith("tasks/") for exchange in exchanges)


@check("tasks.result.related-task", results("tasks/result"))
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
    if conversation.memory is None or step.exchange is not None or not is_token:
        return None
    id = conversation.memory.facts.get(TASK_TOKENS, {}).get((OTHER[step.sender], token))
    if id is None:
        return None
    return _related_task(step.body) == id or (
        f"reports progress of the task {quote(id)} without related-task"
    )


@check(
    "tasks.related.not-on-task-ops",
    messages((REQUEST, RESULT, NOTIFICATION), (*_OPERATIONS, _STATUS)),
)
def operation_on_a_task_has_no_related_task(step: Step, conversation: Conversation) -> Outcome:
    return RELATED not in meta_of(step.body) or f"sends {step.name} with related-task"
