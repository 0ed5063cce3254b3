"""A client written with FastMCP and its tasks.

python fastmcp_task_client.py REVISION COMMAND... | URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp_client import Heard, told, transport
from fastmcp_tasks import call_tool_task
from scenario import play
from task_scenario import SCENARIO


class Player:
    """The steps of the scenario."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def opened(self) -> Any:
        return {"revision": self._client.protocol_version}

    async def result(self, name: str, arguments: dict[str, Any]) -> Any:
        task = await call_tool_task(self._client, name, arguments, raise_on_error=False)
        result = await task.result()
        final = await task.status()
        texts = [block.text for block in result.content]
        told = {"error": result.is_error, "text": " ".join(texts)}
        return {"first": task.create_result.status, "final": final.status, **told}

    async def cancel(self, name: str) -> Any:
        task = await call_tool_task(self._client, name)
        await task.cancel()
        return (await task.wait(timeout=10)).status

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self._client.call_tool_mcp(name, arguments))


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    revision, *command = sys.argv[1:]
    heard = Heard()
    options: Any = {"elicitation_handler": heard.elicit, "mode": revision}
    async with Client(transport(*command), **options) as client:
        yield Player(client)


if __name__ == "__main__":
    asyncio.run(play(connected, SCENARIO))
