"""Tasks: tool calls whose results are fetched later, of 2025-11-25 and of the tasks extension."""

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.client.tasks import ToolTask
from accord.errors import AccordError
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.live_connection import LiveConnection

if TYPE_CHECKING:
    from accord.client import Client
    from accord_tools.inspector.live.call_state import Call
    from accord_tools.inspector.live.capture import CapturedExchange
    from accord_tools.inspector.session import InspectedSession

_KEPT: Final = 200
_EXTENSION: Final = "io.modelcontextprotocol/tasks"
# Answers that describe a task.
_DESCRIBING: Final = ("tools/call", "tasks/get", "tasks/cancel")
_FINISHED: Final = ("completed", "failed", "cancelled")


class _TaskFields(msgspec.Struct, rename="camel"):
    """What a server says of a task; either kind of tasks has some of it."""

    task_id: str
    status: str
    status_message: str | None = None
    ttl: Any = None
    ttl_ms: Any = None
    poll_interval: Any = None
    poll_interval_ms: Any = None


class _Created(msgspec.Struct):
    task: _TaskFields


class _Notice(msgspec.Struct):
    params: _TaskFields


class _KnownTask:
    """A task as it is known."""

    def __init__(self, id: str, tool: str, call: str | None) -> None:
        self.id = id
        self.tool = tool
        self.call = call
        self.status = ""
        self.message = ""
        self.ttl: float | None = None
        self.poll: float | None = None
        self.at = self.updated_at = time.time()

    def change(self, status: str, message: str | None) -> None:
        if (status, message or "") != (self.status, self.message):
            self.updated_at = time.time()
        self.status, self.message = status, message or ""

    def snapshot(self) -> JsonObject:
        return dict(vars(self))


class TaskList:
    """The tasks of a session, a part of it."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._known: dict[str, _KnownTask] = {}

    # -- what the server says

    def take_answer(self, exchange: "CapturedExchange", call: "Call") -> str | None:
        """Take what the answer of a request of a call says of a task; return its id."""
        result = exchange.result if exchange.method in _DESCRIBING else None
        if result is None or b"task" not in result:
            return None
        fields = _read_fields(result)
        if fields is None:
            return None
        known = self._find_or_add(fields.task_id, call.name, call.id)
        self._take_fields(known, fields)
        return known.id

    def take_notice(self, data: bytes) -> None:
        """Take what a notification says of a task that is known."""
        try:
            fields = msgspec.json.decode(data, type=_Notice).params
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return  # the log says what is wrong with it
        known = self._known.get(fields.task_id)
        if known is not None:
            self._take_fields(known, fields)

    def _take_fields(self, known: _KnownTask, fields: _TaskFields) -> None:
        known.change(fields.status, fields.status_message)
        known.ttl = _seconds(fields.ttl, fields.ttl_ms)
        known.poll = _seconds(fields.poll_interval, fields.poll_interval_ms)
        self._session.mark("tasks")

    def _find_or_add(self, id: str, tool: str, call: str | None) -> _KnownTask:
        known = self._known.get(id)
        if known is None:
            known = self._known[id] = _KnownTask(id, tool, call)
            while len(self._known) > _KEPT:
                del self._known[next(iter(self._known))]
        return known

    def _take(self, task: ToolTask) -> None:
        known = self._find_or_add(task.id, task.tool or "", None)
        known.change(task.status, task.message)
        known.ttl, known.poll = task.ttl, task.poll_interval
        self._session.mark("tasks")

    def is_cancelled(self, id: str) -> bool:
        """Whether a task was cancelled."""
        known = self._known.get(id)
        return known is not None and known.status == "cancelled"

    # -- for the page

    def support(self) -> tuple[bool, str]:
        """Return whether the server has tasks, and why not."""
        client = self._session.part(LiveConnection).current
        if client is None:
            return False, "there is no connection"
        can, revision = client.capabilities, REVISIONS[client.revision]
        if revision.tasks:
            is_declared = can.tasks is not None
            return is_declared, "" if is_declared else "the server does not declare tasks"
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
            ActionRefused: the server does not answer that.
        """
        client = self._session.part(LiveConnection).client
        try:
            if id is not None:
                self._take(await client.task(id))
                return
            await self._read_list(client)
            for known in list(self._known.values()):
                if known.status not in _FINISHED:
                    self._take(await client.task(known.id))
        except AccordError as error:
            raise ActionRefused(str(error)) from None

    async def _read_list(self, client: "Client") -> None:
        tasks = client.capabilities.tasks if REVISIONS[client.revision].tasks else None
        if tasks is None or tasks.list is None:
            return
        count = 0
        async for task in client.tasks():
            self._take(task)
            count += 1
            if count >= _KEPT:
                return

    def tool_of(self, id: str) -> str:
        """Return the tool of a task, as far as it is known."""
        known = self._known.get(id)
        return "" if known is None else known.tool

    async def cancel(self, id: str) -> None:
        """Cancel a task.

        Raises:
            ActionRefused: it is finished, or the server refuses.
        """
        client = self._session.part(LiveConnection).client
        try:
            task = await client.task(id)
            self._take(task)
            if not task.is_finished:
                await task.cancel()
                await task.refresh()
                self._take(task)
                return
        except AccordError as error:
            raise ActionRefused(str(error)) from None
        raise ActionRefused(f"the task is over already: {task.status}")


def _read_fields(result: bytes) -> _TaskFields | None:
    for type_ in (_Created, _TaskFields):
        try:
            found: Any = msgspec.json.decode(result, type=type_)
        except msgspec.MsgspecError:
            continue
        fields: _TaskFields = found.task if isinstance(found, _Created) else found
        return fields
    return None


def _seconds(*milliseconds: Any) -> float | None:
    for each in milliseconds:
        if isinstance(each, int | float):
            return each / 1000
    return None


# -- actions of the page


@action("tasks.list")
async def list_tasks(session: "InspectedSession") -> object:
    """Return the tasks that are known."""
    return session.part(TaskList).snapshot()


@action("tasks.refresh")
async def refresh_tasks(session: "InspectedSession", *, id: str | None = None) -> None:
    """Ask for the state of tasks."""
    await session.part(TaskList).refresh(id)


@action("tasks.cancel")
async def cancel_task(session: "InspectedSession", *, id: str) -> None:
    """Cancel a task."""
    await session.part(TaskList).cancel(id)
