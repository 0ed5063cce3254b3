"""The methods of a client about tasks; what they need is loaded when they are first called."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Final, Unpack

from accord.client.arguments import check_text, encode_arguments
from accord.client.link import Link
from accord.client.options import CallOptions
from accord.client.results import OutputSchema
from accord.errors import LocalProtocolError
from accord.types import CallToolParams, CallToolResult, TaskHandle, Tool

if TYPE_CHECKING:
    from accord.client.tasks import ToolTask

TOOL_TASKS: Final = "tasks.requests.tools.call"


def link_has_tasks(link: Link) -> bool:
    """Whether tools may be called as tasks by the client's wish."""
    if not link.endpoint.revision.tasks:
        return False
    declared = link.endpoint.conversation.server.capabilities
    return TOOL_TASKS in (declared or ())


def task_support(tool: Tool) -> str:
    """Return whether a tool may be called as a task."""
    return (tool.execution and tool.execution.task_support) or "forbidden"


class TaskCalls:
    """Calls of tools as tasks."""

    _link: Link
    _outputs: dict[str, OutputSchema]
    _task_support: dict[str, str]

    async def start_tool(
        self,
        name: str,
        arguments: Mapping[str, object] | None = None,
        *,
        ttl: float | None = None,
        **how: Unpack[CallOptions],
    ) -> "ToolTask":
        """Call a tool as a task, whose result is fetched later; returns when it has begun.

        Args:
            name: the tool.
            arguments: its arguments by name.
            ttl: seconds for which the server should keep the task; it may decide otherwise.

        Raises:
            LocalProtocolError: the negotiated revision, the server or the tool has no tasks.
        """
        from accord.client.tasks import start

        check_text("the name of the tool", name)
        if self._task_support.get(name) == "forbidden":  # tasks.tool.forbidden-not-tasked
            raise LocalProtocolError(f"tool {name!r} does not run as a task, says the server")
        params = CallToolParams(name, encode_arguments(arguments))
        return await start(self._link, params, how, ttl=ttl, schema=self._outputs.get(name))

    async def task(self, id: str, **how: Unpack[CallOptions]) -> "ToolTask":
        """Come back to a task by its id, also on another connection.

        Raises:
            InvalidParams: the server does not know it, or not as ours.
        """
        from accord.client.tasks import find

        return await find(self._link, id, how)

    def tasks(self, **how: Unpack[CallOptions]) -> "AsyncIterator[ToolTask]":
        """Iterate over our tasks, of servers that list them (only those of 2025-11-25 do)."""
        from accord.client.tasks import find_all

        return find_all(self._link, how)

    # -- for `call_tool`

    async def _call_as_task(self, params: CallToolParams, how: CallOptions) -> CallToolResult:
        from accord.client.tasks import start, wait_for

        return await wait_for(await start(self._link, params, how), how)

    async def _wait_for_task(
        self, params: CallToolParams, handle: TaskHandle, how: CallOptions
    ) -> CallToolResult:
        from accord.client.tasks import wait_for, wrap

        return await wait_for(wrap(self._link, params, handle, how), how)
