"""Deep rules of tasks as 2025-11-25 has them: who may make one, its life, its traces in `_meta`."""

import re
from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step, meta_of
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, each, has, is_a, object_of, params_of, shown
from accord.protocol.rules.progress import TASK_TOKENS
from accord.protocol.rules.task_reports import STATUSES, TERMINAL, created, reported
from accord.protocol.violation import CLIENT, OTHER, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

RELATED: Final = "io.modelcontextprotocol/related-task"
_CALL: Final = "tools/call"
_TASKED: Final = (_CALL, "sampling/createMessage", "elicitation/create")
_OPERATIONS: Final = ("tasks/get", "tasks/list", "tasks/cancel")
_STATUS: Final = "notifications/tasks/status"
_PROGRESS: Final = "notifications/progress"
_TOLD: Final = (RESULT, NOTIFICATION)
_TELLING: Final = (*_TASKED, *_OPERATIONS, _STATUS)

_ISO_8601: Final = re.compile(
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])"
    r"T(?:[01]\d|2[0-4]):[0-5]\d(?::[0-6]\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def has_time(task: dict[str, Any], place: str, name: str) -> Finding:
    """Judge that a task has a time in ISO 8601."""
    finding = has(task, place, name, "string")
    if finding is True and not _ISO_8601.fullmatch(task[name]):
        return f"sends {place} whose {name} is {shown(task[name])}, not in ISO 8601"
    return finding


# -- capabilities


@check("tasks.capability.declared", kind=RESULT, on=_TASKED)
def whoever_makes_tasks_declares_them(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.parties[step.sender].capabilities
    if created(step) is None or declared is None:
        return None
    return "tasks" in declared or f"makes a task of {step.name} without declaring tasks"


def _is_augmented(step: Step) -> bool:
    return "task" in object_of(step.body)


def _capability(name: str) -> str:
    return f"tasks.requests.{name.replace('/', '.')}"


@check("tasks.capability.requestor-respects", kind=REQUEST, on=_TASKED)
def task_is_asked_for_where_it_is_offered(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.parties[OTHER[step.sender]].capabilities
    # Without any tasks, tasks.capability.none-no-tasks speaks; of tools, the rule on tools.
    if not _is_augmented(step) or declared is None or "tasks" not in declared:
        return None
    needed = _capability(step.name)
    if needed in declared:
        return True
    other = OTHER[step.sender]
    why = f"asks for {step.name} as a task, but the {other} did not declare {needed}"
    return None if step.name == _CALL else why


@check("tasks.capability.none-no-tasks", kind=REQUEST, on=_TASKED)
def task_is_not_asked_of_a_peer_without_any(step: Step, conversation: "Conversation") -> Outcome:
    declared = conversation.parties[OTHER[step.sender]].capabilities
    if not _is_augmented(step) or declared is None:
        return None
    if "tasks" in declared:
        return True
    why = f"asks for {step.name} as a task, but the {OTHER[step.sender]} did not declare tasks"
    return None if step.name == _CALL else why


@check("tasks.tool.no-capability-no-task", by=CLIENT, kind=REQUEST, on=_CALL)
def tool_is_not_tasked_without_capability(step: Step, conversation: "Conversation") -> Outcome:
    offered = _offers_tasked_calls(conversation)
    if not _is_augmented(step) or offered is None:
        return None
    return offered or "calls a tool as a task, but the server did not declare that"


def _offers_tasked_calls(conversation: "Conversation") -> bool | None:
    declared = conversation.parties[SERVER].capabilities
    return None if declared is None else _capability(_CALL) in declared


def _support_of_tool(step: Step, conversation: "Conversation") -> Any:
    """Return the taskSupport of a called tool; None where it is unknown, or tasks are off."""
    name = object_of(step.body).get("name")
    memory = conversation.memory
    if memory is None or not isinstance(name, str) or name not in memory.tools:
        return None
    if not _offers_tasked_calls(conversation):
        return None
    return object_of(memory.tools[name].get("execution")).get("taskSupport", "forbidden")


@check("tasks.tool.forbidden-not-tasked", by=CLIENT, kind=REQUEST, on=_CALL)
def tool_without_support_is_not_tasked(step: Step, conversation: "Conversation") -> Outcome:
    support = _support_of_tool(step, conversation)
    if support is None or not _is_augmented(step):
        return None
    return support != "forbidden" or "calls a tool as a task that does not support it"


@check("tasks.tool.required-tasked", by=CLIENT, kind=REQUEST, on=_CALL)
def tool_that_needs_a_task_gets_one(step: Step, conversation: "Conversation") -> Outcome:
    if _support_of_tool(step, conversation) != "required":
        return None
    return _is_augmented(step) or "calls a tool plainly that must be called as a task"


# -- the task and its life


@check("tasks.id.string", kind=_TOLD, on=_TELLING)
def task_id_is_a_string(step: Step, conversation: "Conversation") -> Outcome:
    return each(has(task, place, "taskId", "string") for place, task in reported(step))


@check("tasks.id.receiver-generated", kind=RESULT, on=_TASKED)
def task_id_is_not_the_requestors(step: Step, conversation: "Conversation") -> Outcome:
    task = created(step)
    if task is None or not isinstance(task.get("taskId"), str):
        return None
    given = object_of(params_of(step).get("task")).values()
    return task["taskId"] not in given or "takes over a task id that came with the request"


@check("tasks.id.unique", kind=RESULT, on=_TASKED)
def task_id_is_new(step: Step, conversation: "Conversation") -> Outcome:
    task, memory = created(step), conversation.memory
    if task is None or memory is None or not isinstance(task.get("taskId"), str):
        return None
    known = (step.sender, task["taskId"]) in memory.tasks
    return f"makes a second task {shown(task['taskId'])}" if known else True


@check("tasks.status.valid-transitions", kind=_TOLD, on=_TELLING)
def status_moves_as_it_may(step: Step, conversation: "Conversation") -> Outcome:
    findings: list[Finding] = []
    for place, task in reported(step):
        finding = has(task, place, "status", "string")
        if finding is True and task["status"] not in STATUSES:
            finding = f"moves {place} to the status {shown(task['status'])}"
        findings.append(finding)
    return each(findings)


@check("tasks.status.terminal-final", kind=_TOLD, on=_TELLING)
def finished_task_stays_as_it_is(step: Step, conversation: "Conversation") -> Outcome:
    memory = conversation.memory
    findings: list[Finding] = []
    for _, task in reported(step) if memory and created(step) is None else ():
        id, status = task.get("taskId"), task.get("status")
        known = memory.tasks.get((step.sender, id)) if memory and isinstance(id, str) else None
        if known is None or known.status not in TERMINAL or not isinstance(status, str):
            continue
        why = f"moves the task {shown(id)} from {known.status} to {shown(status)}"
        findings.append(status == known.status or why)
    return each(findings)


@check("tasks.times.created-at", kind=_TOLD, on=_TELLING)
def task_has_its_time_of_creation(step: Step, conversation: "Conversation") -> Outcome:
    return each(has_time(task, place, "createdAt") for place, task in reported(step))


@check("tasks.times.last-updated-at", kind=_TOLD, on=_TELLING)
def task_has_its_time_of_update(step: Step, conversation: "Conversation") -> Outcome:
    return each(has_time(task, place, "lastUpdatedAt") for place, task in reported(step))


@check("tasks.ttl.in-get", kind=RESULT, on="tasks/get")
def task_has_its_time_to_live(step: Step, conversation: "Conversation") -> Outcome:
    return each(has_duration(task, place, "ttl") for place, task in reported(step))


def has_duration(task: dict[str, Any], place: str, name: str) -> Finding:
    """Judge that a task has a number of milliseconds, or null for no limit."""
    return True if name in task and task[name] is None else has(task, place, name, "integer")


@check("tasks.errors.status-message", kind=_TOLD, on=_TELLING)
def failed_task_says_why(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        has(task, f"{place}, which failed,", "statusMessage", "string")
        for place, task in reported(step)
        if task.get("status") == "failed"
    )


# -- related-task


def _related(body: Any) -> Any:
    """Return the task id that a message names as related; None where it names none."""
    related = meta_of(body).get(RELATED)
    return related.get("taskId") if isinstance(related, dict) else None


# A server may look for roots at any time, whatever its tasks wait for.
@check("tasks.input.related-task", by=SERVER, kind=REQUEST, on=_TASKED[1:])
def question_for_a_task_names_it(step: Step, conversation: "Conversation") -> Outcome:
    if RELATED in meta_of(step.body):
        named = isinstance(_related(step.body), str)
        return named or f"sends {step.name} whose related-task names no task"
    waiting = _waiting_tasks(step, conversation)
    if not waiting or _serves_another_request(step, conversation):
        return None
    return f"sends {step.name} for the task {shown(waiting[0])} without related-task"


def _waiting_tasks(step: Step, conversation: "Conversation") -> list[str]:
    tasks = conversation.memory.tasks if conversation.memory else {}
    return [
        id
        for (owner, id), task in tasks.items()
        if owner == step.sender and task.status == "input_required"
    ]


def _serves_another_request(step: Step, conversation: "Conversation") -> bool:
    under_way = conversation.parties[OTHER[step.sender]].open.values()
    return any(not exchange.name.startswith("tasks/") for exchange in under_way)


@check("tasks.result.related-task", kind=RESULT, on="tasks/result")
def result_of_a_task_names_it(step: Step, conversation: "Conversation") -> Outcome:
    asked = params_of(step).get("taskId")
    if not isinstance(step.body, dict) or not isinstance(asked, str):
        return None
    return _related(step.body) == asked or f"answers tasks/result without related-task {asked!r}"


@check("tasks.related.everywhere", kind=RESULT)
def answer_names_the_task_of_its_question(step: Step, conversation: "Conversation") -> Outcome:
    asked = _related(params_of(step))
    is_operation = step.name.startswith("tasks/")
    if is_operation or not isinstance(asked, str) or not isinstance(step.body, dict):
        return None
    return _related(step.body) == asked or f"answers {step.name} without related-task {asked!r}"


@check("tasks.related.everywhere", kind=NOTIFICATION, on=_PROGRESS)
def progress_of_a_task_names_it(step: Step, conversation: "Conversation") -> Outcome:
    token = object_of(step.body).get("progressToken")
    if conversation.memory is None or step.exchange is not None or not is_a_token(token):
        return None
    id = conversation.memory.facts.get(TASK_TOKENS, {}).get((OTHER[step.sender], token))
    if id is None:
        return None
    return _related(step.body) == id or f"reports progress of {shown(id)} without related-task"


def is_a_token(value: Any) -> bool:
    """Tell whether a value can be a progress token."""
    return is_a("string", value) or (isinstance(value, int) and not isinstance(value, bool))


@check(
    "tasks.related.not-on-task-ops",
    kind=(REQUEST, RESULT, NOTIFICATION),
    on=(*_OPERATIONS, _STATUS),
)
def operation_on_a_task_names_it_once(step: Step, conversation: "Conversation") -> Outcome:
    return RELATED not in meta_of(step.body) or f"sends {step.name} with related-task"
