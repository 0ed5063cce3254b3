"""Calls made with the official Python SDK: `python official_client.py URL SESSIONS CALLS`.

It runs in the environment of foreign packages. Prints one JSON object: what came of each call.
"""

import asyncio
import json
import sys
import warnings
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client

warnings.simplefilter("ignore")

CALL_WITHIN = 60.0


class SdkUser:
    """One session, with a log of what it heard."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logs: list[str] = []
        self.outcomes: dict[str, Any] = {}

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append(str(params.data))

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> Any:
        asked = params.messages[0].content
        assert isinstance(asked, types.TextContent)
        text = f"{asked.text}@{self.name}"
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(type="text", text=text), model="m"
        )

    async def use(self, url: str, calls: int) -> None:
        async with (
            streamable_http_client(url) as (read, write),
            ClientSession(
                read, write, sampling_callback=self.sample, logging_callback=self.log
            ) as session,
        ):
            await session.initialize()
            for number in range(calls):
                key = f"{self.name}/{number}"
                await self._call(session, f"{key}q", "quick")
                await self._call(session, f"{key}r", "repeatable", steps=10, pause=0.05)
                await self._call(session, f"{key}a", "ask", kind="sample", times=2)

    async def _call(self, session: ClientSession, key: str, tool: str, **more: Any) -> None:
        try:
            async with asyncio.timeout(CALL_WITHIN):
                result = await session.call_tool(tool, {"key": key, **more})
        except Exception as error:
            self.outcomes[key] = {"failed": f"{type(error).__name__}: {error}"}
        else:
            block = result.content[0]
            assert isinstance(block, types.TextContent)
            self.outcomes[key] = {"text": block.text, "error": bool(result.is_error)}


async def main() -> None:
    url, sessions, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    users = [SdkUser(f"sdk{number}") for number in range(sessions)]
    await asyncio.gather(*(user.use(url, calls) for user in users))
    found = {"outcomes": {}, "logs": []}
    for user in users:
        found["outcomes"] |= user.outcomes  # type: ignore[operator]
        found["logs"] += user.logs  # type: ignore[operator]
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main())
