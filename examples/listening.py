"""A server whose lists and resources change, and a client that listens and keeps what is fresh.

python examples/listening.py
"""

import asyncio

from accord import Server, connect
from accord.client import NoticesLost, ResourceUpdated, ToolsChanged
from accord.server import CacheHints

# Clients may keep the list for an hour: those that listen hear of a change at once.
server = Server("board", cache=CacheHints(tools=3600, reads=3600))
scores = {"home": 0, "away": 0}


@server.resource("score://now")
def score() -> dict[str, int]:
    """The score."""
    return scores


@server.tool
def goal(side: str) -> str:
    """Count a goal."""
    scores[side] += 1
    server.resource_updated("score://now")
    return "counted"


@server.tool
def finish() -> str:
    """End the match: from then on there are no goals."""
    server.tool_entries.remove("goal")
    return "finished"


async def main() -> None:
    async with (
        connect(server) as client,
        client.listen(tools=True, uris=["score://now"]) as changes,
    ):
        print("now:", (await client.read_resource("score://now")).contents[0].text)
        await client.call_tool("goal", {"side": "home"})
        async for change in changes:
            match change:
                case ResourceUpdated(uri):
                    print("changed:", (await client.read_resource(uri)).contents[0].text)
                    await client.call_tool("finish")
                case ToolsChanged():
                    print("tools:", [tool.name async for tool in client.tools()])
                    break
                case NoticesLost(reason):
                    print("fetch everything again:", reason)


if __name__ == "__main__":
    asyncio.run(main())
