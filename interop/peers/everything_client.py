"""The accord client for the official everything server, whose tools are its own.

python everything_client.py REVISION COMMAND... | URL
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from scenario import play, until

from accord import Client, connect
from accord.types import (
    CallToolResult,
    CreateMessageParams,
    CreateMessageResult,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

TEXT: Final = "demo://resource/dynamic/text/1"
TEMPLATE: Final = "demo://resource/dynamic/text/{resourceId}"
SCENARIO: Final[list[tuple[str, str, tuple[Any, ...]]]] = [
    ("opened", "opened", ()),
    ("tools", "tools", ()),
    ("echo", "call", ("echo", {"message": "hello"})),
    ("sum", "call", ("get-sum", {"a": 1, "b": 2})),
    ("bad arguments", "call", ("get-sum", {"a": "x", "b": 2})),
    ("structured", "structured", ()),
    ("image", "call", ("get-tiny-image", {})),
    ("links", "call", ("get-resource-links", {"count": 2})),
    ("reference", "call", ("get-resource-reference", {"resourceType": "Text", "resourceId": 1})),
    ("progress", "progress", ()),
    ("cancel", "cancel", ()),
    ("sample", "call", ("trigger-sampling-request", {"prompt": "hello", "maxTokens": 50})),
    ("elicit", "call", ("trigger-elicitation-request", {})),
    ("roots", "call", ("get-roots-list", {})),
    ("resources", "resources", ()),
    ("templates", "templates", ()),
    ("read text", "read", (TEXT,)),
    ("read blob", "read", ("demo://resource/dynamic/blob/1",)),
    ("read missing", "read", ("demo://nowhere",)),
    ("subscribe", "subscribe", ()),
    ("prompts", "prompts", ()),
    ("prompt", "prompt", ()),
    ("complete prompt", "complete", (PromptReference("completable-prompt"), "department", "S")),
    ("complete template", "complete", (ResourceTemplateReference(TEMPLATE), "resourceId", "1")),
    ("complete in context", "complete_in_context", ()),
]


def told(result: CallToolResult) -> dict[str, Any]:
    """Show a tool's result as plain values."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    kinds = [type(block).__struct_config__.tag for block in result.content]
    return {"error": result.is_error, "text": "\n".join(texts), "types": kinds}


class Player:
    """The steps of the scenario, and what the server says of its own accord."""

    client: Client

    def __init__(self) -> None:
        self.levels: list[str] = []
        self.updates: list[str] = []
        self.changes: list[str] = []

    def options(self) -> dict[str, Any]:
        return {
            "on_sample": self.sample,
            "on_elicit": lambda _: {"name": "Ada", "check": True},
            "roots": [Root("file:///work", name="work")],
            "on_log": lambda message: self.levels.append(message.level),
            "on_tools_changed": lambda: self.changes.append("tools"),
            "on_resource_updated": self.updates.append,
        }

    async def sample(self, params: CreateMessageParams) -> CreateMessageResult:
        asked = params.messages[0].content
        assert isinstance(asked, TextContent)
        answer = TextContent(f"echo {asked.text}")
        return CreateMessageResult(role="assistant", content=answer, model="parrot")

    async def opened(self) -> Any:
        return {"revision": self.client.revision, "server": self.client.server_info.name}

    async def tools(self) -> Any:
        # Tools that ask the client are registered when the opening is over. Over HTTP the
        # notification is lost where that happens before the client listens.
        names: list[str] = []
        while "trigger-sampling-request" not in names:
            names = [tool.name async for tool in self.client.tools()]
        return names

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self.client.call_tool(name, arguments))

    async def structured(self) -> Any:
        location = {"location": "Chicago"}
        kind = dict[str, Any]
        return await self.client.call_tool("get-structured-content", location, result_type=kind)

    async def progress(self) -> Any:
        seen: list[list[Any]] = []
        result = await self.client.call_tool(
            "trigger-long-running-operation",
            {"duration": 0.3, "steps": 3},
            on_progress=lambda now: seen.append([now.progress, now.total]),
        )
        return {"seen": seen, **told(result)}

    async def cancel(self) -> Any:
        # Their tool does not look at cancellations; what counts is that no answer comes.
        slow = {"duration": 0.5, "steps": 1}
        task = asyncio.create_task(self.client.call_tool("trigger-long-running-operation", slow))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.wait([task])
        await self.client.ping()
        return task.cancelled()

    async def resources(self) -> Any:
        return [each.uri async for each in self.client.resources()]

    async def templates(self) -> Any:
        return [each.uri_template async for each in self.client.resource_templates()]

    async def read(self, uri: str) -> Any:
        held = (await self.client.read_resource(uri)).contents[0]
        return [held.uri, held.text is not None, held.blob is not None]

    async def subscribe(self) -> Any:
        await self.client.set_log_level("debug")
        await self.client.subscribe(TEXT)
        await self.client.call_tool("toggle-subscriber-updates")
        await until(lambda: bool(self.updates))
        await self.client.call_tool("toggle-subscriber-updates")
        await self.client.unsubscribe(TEXT)
        return {"updates": sorted(set(self.updates)), "logged": "info" in self.levels}

    async def prompts(self) -> Any:
        return [prompt.name async for prompt in self.client.prompts()]

    async def prompt(self) -> Any:
        filled = await self.client.get_prompt("args-prompt", {"city": "Oslo"})
        content = filled.messages[0].content
        assert isinstance(content, TextContent)
        return content.text

    async def complete(self, ref: Any, argument: str, typed: str) -> Any:
        return (await self.client.complete(ref, argument, typed)).values

    async def complete_in_context(self) -> Any:
        ref, known = PromptReference("completable-prompt"), {"department": "Sales"}
        return (await self.client.complete(ref, "name", "", context=known)).values


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    revision, *command = sys.argv[1:]
    target: Any = command[0] if command[0].startswith("http://") else command
    player = Player()
    options = player.options() | ({} if revision == "default" else {"revision": revision})
    async with connect(target, **options) as client:
        player.client = client
        yield player


if __name__ == "__main__":
    asyncio.run(play(connected, SCENARIO))
