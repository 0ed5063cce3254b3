"""Tasks of the extension: a server answers calls with them, and a check follows them."""

import asyncio
from collections.abc import Mapping
from typing import Final

from accord.types import JsonObject
from accord_tools.check.probing.messages import Reply, answer_to, objects_in
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.server_facts import ServerFacts
from accord_tools.check.probing.task_calls import TERMINAL
from accord_tools.check.probing.tool_calls import ToolCall

EXTENSION: Final = "io.modelcontextprotocol/tasks"
NO_EXTENSION: Final = f"the server did not declare the extension {EXTENSION}"
NO_TASK: Final = "no tool that may be called becomes a task"
# How often a task is looked at before a check gives up.
_LOOKS: Final = 40
# This many tools show how a server makes tasks.
_TOOLS: Final = 6


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
