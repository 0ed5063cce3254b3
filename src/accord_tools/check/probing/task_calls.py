"""Tools called as tasks of 2025-11-25: started, looked at, fetched and cancelled by a check."""

import asyncio
from typing import Any, Final

import msgspec

from accord.types import JsonObject
from accord_tools.check.probing.failures import MessageTimeout
from accord_tools.check.probing.messages import RELATED, Reply, next_id, params_of
from accord_tools.check.probing.raw_connection import RawConnection
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
