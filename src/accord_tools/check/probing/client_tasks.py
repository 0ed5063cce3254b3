"""Tasks of 2025-11-25 that the checker keeps as a client: a server asks it by requests with `task`.

The checker never announces a change of them, and ends them after a few looks.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.check.probing.messages import RELATED, answer_to, params_of
from accord_tools.check.probing.raw_connection import RawConnection

TASKS: Final[JsonObject] = {
    "list": {},
    "cancel": {},
    "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
}
"""The capability of a client that keeps tasks."""
POLL_SECONDS: Final = 0.1
# A task is shown as working this many times.
_LOOKS: Final = 2
_UNKNOWN: Final = {"code": -32602, "message": "there is no such task"}


class ClientTask(msgspec.Struct):
    """A question that became a task.

    Attributes:
        id: names it.
        result: what answers the question.
        looks: when the server asked for its state, in seconds of the event loop.
        is_fetched: whether the server asked for its result.
    """

    id: str
    result: JsonObject
    looks: list[float] = []
    is_fetched: bool = False

    def state(self) -> JsonObject:
        """Return the task as messages show it."""
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        is_over = self.is_fetched or len(self.looks) > _LOOKS
        return {
            "taskId": self.id,
            "status": "completed" if is_over else "working",
            "createdAt": now,
            "lastUpdatedAt": now,
            "ttl": 60_000,
            "pollInterval": round(POLL_SECONDS * 1000),
        }


class ClientTasks:
    """Answers a server as a client that keeps tasks; `respond` is for a raw connection.

    Attributes:
        kept: the tasks, by id.
    """

    def __init__(self) -> None:
        self.kept: dict[str, ClientTask] = {}

    async def respond(self, connection: RawConnection, question: JsonObject) -> None:
        """Answer a request of the server, as a task if it asks for one."""
        method = str(question.get("method"))
        body = self._operate(method, params_of(question)) if method.startswith("tasks/") else None
        if body is None:
            answer = answer_to(question, connection.client_capabilities)
            if "task" in params_of(question) and "result" in answer:
                answer = answer | {"result": {"task": self._keep(answer["result"]).state()}}
        else:
            answer = {"jsonrpc": "2.0", "id": question.get("id"), **body}
        await connection.send(answer)

    def _keep(self, result: JsonObject) -> ClientTask:
        task = ClientTask(f"accord-check-task-{len(self.kept)}", result)
        self.kept[task.id] = task
        return task

    def _operate(self, method: str, params: JsonObject) -> JsonObject | None:
        """Return the answer to an operation on a task; None if there is no such operation."""
        if method == "tasks/list":
            return {"result": {"tasks": [each.state() for each in self.kept.values()]}}
        task = self.kept.get(str(params.get("taskId")))
        if task is None:
            return {"error": _UNKNOWN}
        if method == "tasks/result":
            task.is_fetched = True
            related = {RELATED: {"taskId": task.id}}
            return {"result": {**task.result, "_meta": related}}
        if method == "tasks/get":
            task.looks.append(asyncio.get_running_loop().time())
            return {"result": task.state()}
        if method == "tasks/cancel":
            return {"result": task.state() | {"status": "cancelled"}}
        return None


def shortest_wait(task: ClientTask) -> float | None:
    """Return the shortest time between two looks at a task; None if there were not two."""
    waits: list[Any] = [later - one for one, later in zip(task.looks, task.looks[1:], strict=False)]
    return min(waits, default=None)
