"""Tasks in a check: calls of 2025-11-25 and of the extension, and those that a client keeps.

As a client, the checker never announces a change of its tasks, and ends them after a few looks.
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.check.probing.messages import (
    RELATED,
    Reply,
    answer_to,
    next_id,
    objects_in,
    params_of,
)
from accord_tools.check.probing.raw_connection import MessageTimeout, RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.tool_calls import ToolCall

TASK_CALLS: Final = "tasks.requests.tools.call"
"""The capability of a server whose tools can be called as tasks."""
TERMINAL: Final = frozenset({"completed", "failed", "cancelled"})
NO_TASKS: Final = "no tool that may be called can be called as a task"
# Long enough for a check; a server frees a finished task soon after.
_TTL: Final = 60_000
# This many tools show how a server treats tasks.
_TOOLS: Final = 6


class StartedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A call that became a task.

    Attributes:
        tool: the tool that was called.
        id: names the task.
        call: the id of the request.
        seconds: how long the answer with the task took.
        token: the progress token of the call.
    """

    tool: ToolCall
    id: str
    call: Any
    seconds: float
    token: str


def task_support(tool: JsonObject) -> str:
    """Return whether a tool can be called as a task: optional, required, forbidden or unknown."""
    execution = tool.get("execution")
    support = execution.get("taskSupport") if isinstance(execution, dict) else None
    if support is None:
        return "forbidden"
    return support if support in ("optional", "required", "forbidden") else "unknown"


def task_tools(facts: ServerFacts) -> list[ToolCall]:
    """Return the tools that may be called, and called as tasks."""
    if not facts.declares(TASK_CALLS):
        return []
    tools = facts.callable_tools()
    return [each for each in tools if task_support(each.tool) in ("optional", "required")][:_TOOLS]


def as_task(tool: ToolCall, token: str = "") -> JsonObject:
    """Return the parameters of a call as a task, with a progress token unless it is empty."""
    params = tool.with_progress(token) if token else tool.params
    return params | {"task": {"ttl": _TTL}}


async def start_task(connection: RawConnection, tool: ToolCall) -> StartedTask | Reply:
    """Call a tool as a task; return the answer if it is not a task.

    Raises:
        MessageTimeout: the call is not answered.
    """
    began = asyncio.get_running_loop().time()
    token = f"task-{next_id()}"
    reply = await connection.ask("tools/call", as_task(tool, token))
    seconds = asyncio.get_running_loop().time() - began
    task = reply.result.get("task")
    id = task.get("taskId") if isinstance(task, dict) else None
    if not isinstance(id, str):
        return reply
    return StartedTask(tool=tool, id=id, call=reply.id, seconds=seconds, token=token)


async def task_status(connection: RawConnection, id: str) -> str:
    """Return the status of a task; empty if the server does not tell."""
    status = (await connection.ask("tasks/get", {"taskId": id})).result.get("status")
    return status if isinstance(status, str) else ""


async def task_outcome(connection: RawConnection, id: str) -> Reply | None:
    """Wait for the result of a task; None if it does not come."""
    request = await connection.start("tasks/result", {"taskId": id})
    try:
        return await connection.reply_to(request, what="tasks/result")
    except MessageTimeout:
        await connection.notify("notifications/cancelled", {"requestId": request})
        return None


def related_task(message: JsonObject) -> object:
    """Return the id of the task that a request or notification names; None without one."""
    meta = params_of(message).get("_meta")
    related = meta.get(RELATED) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None


def without_meta(reply: Reply) -> JsonObject:
    """Return what an answer says, without its id and `_meta`."""
    result = {key: value for key, value in reply.result.items() if key != "_meta"}
    return {"error": reply.error} if reply.is_error else {"result": result}


EXTENSION: Final = "io.modelcontextprotocol/tasks"
NO_EXTENSION: Final = f"the server did not declare the extension {EXTENSION}"
NO_TASK: Final = "no tool that may be called becomes a task"
# How often a task is looked at before a check gives up.
_LOOKS: Final = 40


def has_extension(facts: ServerFacts) -> bool:
    """Return whether the server makes tasks of the extension."""
    for capabilities in objects_in(facts.opening.get("capabilities")):
        extensions = capabilities.get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)
    return False


def with_tasks(connection: RawConnection) -> JsonObject:
    """Return the capabilities of a request whose client handles tasks."""
    return {**connection.client_capabilities, "extensions": {EXTENSION: {}}}


async def call_for_task(connection: RawConnection, tool: ToolCall) -> Reply:
    """Call a tool as a client that handles tasks."""
    return await connection.ask("tools/call", tool.params, capabilities=with_tasks(connection))


def task_id(reply: Reply) -> str | None:
    """Return the id of the task that a call became; None for any other answer."""
    id = reply.result.get("taskId")
    return id if reply.result.get("resultType") == "task" and isinstance(id, str) else None


async def start_tasks(connection: RawConnection, facts: ServerFacts) -> dict[str, ToolCall]:
    """Call all tools that may be called; return those that became tasks, by the id of the task."""
    found: dict[str, ToolCall] = {}
    for tool in facts.callable_tools():
        if len(found) == _TOOLS:
            break
        id = task_id(await call_for_task(connection, tool))
        if id is not None:
            found[id] = tool
    return found


async def operate(
    connection: RawConnection, method: str, id: str, more: Mapping[str, object] | None = None
) -> Reply:
    """Send `tasks/get`, `tasks/update` or `tasks/cancel` as a client that handles tasks."""
    params = {"taskId": id, **(more or {})}
    return await connection.ask(method, params, capabilities=with_tasks(connection))


def answers_to_task(connection: RawConnection, state: Reply) -> JsonObject:
    """Return the answers to the questions of a task that waits."""
    asked = state.result.get("inputRequests")
    questions = asked.items() if isinstance(asked, dict) else ()
    answers = {
        key: answer_to(each, connection.client_capabilities)
        for key, each in questions
        if isinstance(each, dict)
    }
    return {key: each["result"] for key, each in answers.items() if "result" in each}


async def follow_task(connection: RawConnection, id: str, wait: float) -> Reply | None:
    """Look at a task until it ends, and answer its questions; None if it does not end.

    Args:
        connection: the task was made on it.
        id: names the task.
        wait: seconds between two looks.
    """
    answered: set[str] = set()
    for _ in range(_LOOKS):
        state = await operate(connection, "tasks/get", id)
        if state.is_error or state.result.get("status") in TERMINAL:
            return state
        answers = answers_to_task(connection, state)
        fresh = {key: answer for key, answer in answers.items() if key not in answered}
        if fresh:
            answered.update(fresh)
            await operate(connection, "tasks/update", id, {"inputResponses": fresh})
        else:
            await asyncio.sleep(wait)
    return None


TASKS: Final[JsonObject] = {
    "list": {},
    "cancel": {},
    "requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}},
}
"""The capability of a client that keeps tasks."""
POLL_SECONDS: Final = 0.1
# A task is shown as working this many times.
_SHOWN_WORKING: Final = 2
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
        is_over = self.is_fetched or len(self.looks) > _SHOWN_WORKING
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
