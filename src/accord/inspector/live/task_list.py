"""Tasks: tool calls whose results are fetched later, of 2025-11-25 and of the tasks extension."""

import time
from typing import TYPE_CHECKING, Any, Final

from accord.client.tasks import ToolTask
from accord.errors import AccordError
from accord.inspector.definition import Refused
from accord.inspector.live.connection import LiveConnection
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject

if TYPE_CHECKING:
    from accord.client import Client
    from accord.client.options import CallOptions
    from accord.inspector.live.call_state import Call
    from accord.inspector.session import Session

_KEPT: Final = 200
_EXTENSION: Final = "io.modelcontextprotocol/tasks"


class _KnownTask:
    """A task as it is known."""

    def __init__(self, task: ToolTask, call: str | None) -> None:
        self.task = task
        self.call = call
        self.at = time.time()
        self.seen_at = self.at

    def snapshot(self) -> JsonObject:
        task = self.task
        return {
            "id": task.id,
            "status": task.status,
            "message": task.message or "",
            "at": self.at,
            "updated_at": self.seen_at,
            "ttl": task.ttl,
            "poll": task.poll_interval,
            "call": self.call,
            "tool": task.tool or "",
        }


class TaskList:
    """The tasks of a session, a part of it."""

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._known: dict[str, _KnownTask] = {}

    def _mark(self) -> None:
        self._session.mark("tasks")

    def follow(self, task: ToolTask, call: str | None) -> None:
        """Show a task and follow it to its end."""
        self._add(task, call)
        self._session.spawn(self._follow(task))

    def _add(self, task: ToolTask, call: str | None = None) -> _KnownTask:
        known = self._known.get(task.id)
        if known is None:
            known = self._known[task.id] = _KnownTask(task, call)
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        else:
            known.task = task
        known.seen_at = time.time()
        self._mark()
        return known

    async def _follow(self, task: ToolTask) -> None:
        try:
            async for _ in task:
                self._add(task)
        except AccordError:
            self._mark()  # the call or the log says why

    # -- for the page

    def support(self) -> tuple[bool, str]:
        """Return whether the server has tasks, and why not."""
        client = self._session.part(LiveConnection).current
        if client is None:
            return False, "there is no connection"
        can, revision = client.capabilities, REVISIONS[client.revision]
        if revision.tasks:
            if can.tasks is None:
                return False, "the server does not declare tasks"
            return True, ""
        if revision.result_type:
            if _EXTENSION not in (can.extensions or {}):
                return False, f"the server does not declare the extension {_EXTENSION}"
            return True, "the server decides which calls become tasks"
        return False, f"tasks are not part of revision {client.revision}"

    def snapshot(self) -> JsonObject:
        """Return all tasks, the newest first."""
        is_supported, reason = self.support()
        tasks = [each.snapshot() for each in reversed(self._known.values())]
        return {"is_supported": is_supported, "reason": reason, "tasks": tasks}

    async def refresh(self, id: str | None) -> None:
        """Ask for the state of a task, or of all; servers that list tasks are asked for the list.

        Raises:
            Refused: the server does not answer that.
        """
        client = self._session.part(LiveConnection).client
        try:
            if id is not None:
                await self._refresh_one(client, id)
                return
            if _lists(client):
                count = 0
                async for task in client.tasks():
                    self._add(task)
                    count += 1
                    if count >= _KEPT:
                        return
            for known in list(self._known.values()):
                if not known.task.is_finished:
                    await self._refresh_one(client, known.task.id)
        except AccordError as error:
            raise Refused(str(error)) from None

    async def _refresh_one(self, client: "Client", id: str) -> None:
        known = self._known.get(id)
        found = await client.task(id)
        if known is not None:
            found.tool = known.task.tool
        self._add(found)

    def fetch_result(self, id: str) -> "Call":
        """Fetch the result of a task, shown as a call.

        Raises:
            Refused: there is no connection.
        """
        from accord.inspector.live.calls import Calls

        known = self._known.get(id)

        async def perform(client: "Client", call: "Call", how: "CallOptions") -> Any:
            call.tasks.append(id)
            task = await client.task(id)
            if known is not None:
                task.tool = known.task.tool
            self._add(task, call.id)
            await task.result()
            self._add(task)

        tool = known.task.tool if known is not None else None
        return self._session.part(Calls).follow("tool", tool or id, perform)

    async def cancel(self, id: str) -> None:
        """Cancel a task.

        Raises:
            Refused: it is finished, or the server refuses.
        """
        client = self._session.part(LiveConnection).client
        try:
            task = await client.task(id)
            if task.is_finished:
                self._add(task)
                raise Refused(f"the task is over already: {task.status}")
            await task.cancel()
            await task.refresh()
            self._add(task)
        except AccordError as error:
            if isinstance(error, Refused):
                raise
            raise Refused(str(error)) from None


def _lists(client: "Client") -> bool:
    tasks = client.capabilities.tasks if REVISIONS[client.revision].tasks else None
    return tasks is not None and getattr(tasks, "list", None) is not None
