"""Tasks as clients see them, of 2025-11-25 and of the later extension, asked for on any worker."""

import asyncio
import json
from typing import Any

from support.scale.calls import Call
from support.scale.modern_client import ModernClient
from support.scale.raw_client import RawClient
from support.waiting import LONG

TERMINAL = frozenset({"completed", "failed", "cancelled"})
EXTENSION = "io.modelcontextprotocol/tasks"


class WatchedTask:
    """One task, with every status that was seen of it.

    Attributes:
        id: as the server named it.
        key: of the call, in the ledger.
        statuses: in the order in which they were seen; equal ones in a row are there once.
        facts: those of the last look.
    """

    def __init__(self, client: "TaskClient", id: str, key: str) -> None:
        self.client = client
        self.id = id
        self.key = key
        self.statuses: list[str] = []
        self.facts: Any = None

    @property
    def status(self) -> str:
        return self.statuses[-1]

    async def look(self, worker: int | None = None) -> str:
        """Ask for the status; it must not leave a terminal one."""
        call = await self.client.about("tasks/get", self.id, worker=worker)
        assert "result" in (call.response or {}), f"task {self.id}: {call.excerpt()}"
        self.facts = call.response["result"]
        status = str(self.facts["status"])
        if not self.statuses or self.statuses[-1] != status:
            self.statuses.append(status)
        ended = [each for each in self.statuses if each in TERMINAL]
        assert len(ended) <= 1, f"task {self.id} went on after its end: {self.statuses}"
        return status

    async def wait_for(self, *statuses: str, worker: int | None = None) -> str:
        """Ask until the task has one of these statuses; of any terminal one by default."""
        wanted = frozenset(statuses) or TERMINAL
        async with asyncio.timeout(LONG):
            while (status := await self.look(worker)) not in wanted:
                assert status not in TERMINAL, f"task {self.id} is {self.facts}"
                await asyncio.sleep(0.05)
        return status

    async def result(self, worker: int | None = None) -> Call:
        """Return the call that fetched the result."""
        return await self.client.fetch_result(self, worker)

    async def cancel(self, worker: int | None = None) -> Call:
        return await self.client.about("tasks/cancel", self.id, worker=worker)


class TaskClient:
    """What differs between the two forms of tasks."""

    name: str

    async def start(self, tool: str, key: str, *, worker: int | None = None, **more: Any) -> Any:
        raise NotImplementedError

    async def about(self, method: str, id: str, *, worker: int | None = None, **more: Any) -> Call:
        raise NotImplementedError

    async def answer(self, task: WatchedTask, worker: int | None = None) -> None:
        """Answer the question of a task."""
        raise NotImplementedError

    async def fetch_result(self, task: WatchedTask, worker: int | None) -> Call:
        raise NotImplementedError

    def text_of(self, call: Call) -> str:
        """Return the text of a result."""
        found = call.response["result"]
        found = found.get("result", found)
        return str(found["content"][0]["text"])


class SessionTasks(TaskClient):
    """Tasks of 2025-11-25, of one session."""

    def __init__(self, client: RawClient) -> None:
        self.client = client
        self.name = client.name

    async def start(
        self, tool: str, key: str, *, worker: int | None = None, **more: Any
    ) -> WatchedTask | Call:
        """Begin a task; return the call if it has no task."""
        params = {"name": tool, "arguments": {"key": key, **more}, "task": {"ttl": 120_000}}
        call = await self.client.request("tools/call", params, worker=worker, key=key)
        found = (call.response or {}).get("result", {}).get("task")
        return call if found is None else WatchedTask(self, found["taskId"], key)

    async def about(self, method: str, id: str, *, worker: int | None = None, **more: Any) -> Call:
        return await self.client.request(method, {"taskId": id, **more}, worker=worker)

    async def answer(self, task: WatchedTask, worker: int | None = None) -> None:
        # Questions come on the stream of the request for the result, and are answered there.
        call = await self.fetch_result(task, worker)
        assert call.outcome == "answered", call.excerpt()

    async def fetch_result(self, task: WatchedTask, worker: int | None) -> Call:
        params = {"taskId": task.id}
        return await self.client.request("tasks/result", params, worker=worker, key=task.key)


class ModernTasks(TaskClient):
    """Tasks of the extension."""

    def __init__(self, client: ModernClient) -> None:
        self.client = client
        self.name = client.name
        client.capabilities = {**client.capabilities, "extensions": {EXTENSION: {}}}

    async def start(
        self, tool: str, key: str, *, worker: int | None = None, **more: Any
    ) -> WatchedTask | Call:
        """Begin a task; return the call if it has no task."""
        call = await self.client.call_once(tool, key, worker=worker, **more)
        found = (call.response or {}).get("result", {})
        if found.get("resultType") != "task":
            return call
        return WatchedTask(self, found["taskId"], key)

    async def about(self, method: str, id: str, *, worker: int | None = None, **more: Any) -> Call:
        params = {"taskId": id, **more}
        return await self.client.request(method, params, name=id, worker=worker)

    async def answer(self, task: WatchedTask, worker: int | None = None) -> None:
        asked = task.facts["inputRequests"]
        answers = {key: self.client._answer(each) for key, each in asked.items()}
        call = await self.about("tasks/update", task.id, worker=worker, inputResponses=answers)
        assert "result" in (call.response or {}), call.excerpt()

    async def fetch_result(self, task: WatchedTask, worker: int | None) -> Call:
        return await self.about("tasks/get", task.id, worker=worker)


def answers_of(text: str) -> list[str]:
    """Return the answers that a result repeats."""
    found: list[str] = json.loads(text)
    return found
