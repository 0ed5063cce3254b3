"""The accord client that runs tools of foreign servers as tasks, with the public names alone.

python accord_task_client.py REVISION COMMAND... | URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from accord_client import ADA, told
from scenario import play
from task_scenario import SCENARIO

from accord import Client, connect


class Player:
    """The steps of the scenario."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def opened(self) -> Any:
        return {"revision": self._client.revision}

    async def result(self, name: str, arguments: dict[str, Any]) -> Any:
        task = await self._client.start_tool(name, arguments)
        first = task.status
        result = told(await task.result())
        del result["types"]
        return {"first": first, "final": task.status, **result}

    async def cancel(self, name: str) -> Any:
        task = await self._client.start_tool(name)
        await task.cancel()
        async for _ in task:
            pass
        return task.status

    async def list(self) -> Any:
        return sorted([task.status async for task in self._client.tasks()])

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self._client.call_tool(name, arguments))


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    revision, *command = sys.argv[1:]
    target: Any = command[0] if command[0].startswith("http://") else command
    options: Any = {"revision": revision, "on_elicit": lambda _: ADA, "exit_grace": 20}
    async with connect(target, **options) as client:
        yield Player(client)


if __name__ == "__main__":
    asyncio.run(play(connected, SCENARIO))
