"""What messages tell of tasks: where a task stands in one, and what a bystander notes of it."""

from typing import TYPE_CHECKING, Any, Final

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, RESULT
from accord.protocol.monitor_memory import KnownTask
from accord.protocol.rules.items import Placed, object_of, objects, params_of

if TYPE_CHECKING:
    from accord.protocol.monitor_memory import Memory

TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
STATUSES: Final = TERMINAL | {"working", "input_required"}
_TELLING: Final = ("tasks/get", "tasks/cancel")
_NOTICES: Final = ("notifications/tasks/status", "notifications/tasks")


def created(step: Step) -> dict[str, Any] | None:
    """Return the task that a request became, where this result tells so."""
    if step.kind != RESULT or not isinstance(step.body, dict) or step.name.startswith("tasks/"):
        return None
    if step.revision.result_type:
        return step.body if step.body.get("resultType") == "task" else None
    task = step.body.get("task")
    return task if isinstance(task, dict) and "task" in params_of(step) else None


def reported(step: Step) -> list[Placed]:
    """Return every task that a message tells, with its place."""
    task = created(step)
    if task is not None:
        return [("a new task", task)]
    if not isinstance(step.body, dict):
        return []
    if step.kind == RESULT and step.name == "tasks/list":
        return objects(step.body, "tasks")
    tells = step.name in (_TELLING if step.kind == RESULT else _NOTICES)
    # The extension acknowledges a cancellation with an empty result.
    if not tells or (step.revision.result_type and step.name == "tasks/cancel"):
        return []
    return [("the task", step.body)] if step.kind in (RESULT, NOTIFICATION) else []


def learn_tasks(step: Step, memory: "Memory") -> None:
    """Take note of new tasks, of their status, and of their questions and answers."""
    if step.kind == REQUEST:
        if step.name == "tasks/update":
            _learn_answers(object_of(step.body), memory)
        return
    is_new = created(step) is not None
    for _, task in reported(step):
        id = task.get("taskId")
        if not isinstance(id, str):
            continue
        known = memory.tasks.get((step.sender, id))
        if known is None or is_new:
            request = step.exchange if is_new else None
            known = memory.tasks[step.sender, id] = KnownTask(owner=step.sender, request=request)
        if isinstance(task.get("status"), str):
            known.status = task["status"]
        known.asked.update(object_of(task.get("inputRequests")))


def _learn_answers(params: dict[str, Any], memory: "Memory") -> None:
    known = memory.tasks.get(("server", str(params.get("taskId"))))
    if known is not None:
        known.answered.update(object_of(params.get("inputResponses")))
