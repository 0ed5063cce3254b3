"""The accord client that talks to foreign servers, written with the public names alone.

python accord_client.py REVISION COMMAND... | URL
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from scenario import BEGUN, MODERN, play, until

from accord import Client, ToolError, connect
from accord.client.subscriptions import ResourceUpdated, ToolsChanged
from accord.errors import RequestTimeout
from accord.types import (
    CallToolResult,
    ContentBlock,
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    LogMessageParams,
    PromptReference,
    ResourceTemplateReference,
    Root,
    TextContent,
)

ADA = {"name": "Ada", "age": 36}


@dataclass
class Weather:
    """What a tool is expected to tell."""

    city: str
    celsius: float
    sky: str


class Heard:
    """Everything the server says or asks of its own accord."""

    def __init__(self) -> None:
        self.logs: list[list[Any]] = []
        self.changes: list[str] = []
        self.updates: list[str] = []
        self.answers: list[Any] = [ADA, False, None, ADA]

    def log(self, message: LogMessageParams) -> None:
        self.logs.append([message.level, message.data, message.logger])

    async def sample(self, params: CreateMessageParams) -> CreateMessageResult:
        asked = params.messages[0].content
        assert isinstance(asked, TextContent)
        answer = TextContent(f"echo {asked.text}")
        return CreateMessageResult(role="assistant", content=answer, model="parrot")

    def elicit(self, params: ElicitParams) -> Any:
        return self.answers.pop(0)

    def options(self) -> dict[str, Any]:
        return {
            "on_sample": self.sample,
            "on_elicit": self.elicit,
            "roots": [Root("file:///work", name="work")],
            "on_log": self.log,
            "on_tools_changed": lambda: self.changes.append("tools"),
            "on_resource_updated": self.updates.append,
        }


def told(result: CallToolResult) -> dict[str, Any]:
    """Show a tool's result as plain values."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    kinds = [kind(block) for block in result.content]
    return {"error": result.is_error, "text": " ".join(texts), "types": kinds}


def kind(block: ContentBlock) -> Any:
    """Say of which type a content block is, as it is called on the wire."""
    return type(block).__struct_config__.tag


class Player:
    """The steps of the scenario."""

    def __init__(self, client: Client, heard: Heard) -> None:
        self._client = client
        self._heard = heard

    async def opened(self) -> Any:
        client = self._client
        declared = client.capabilities
        fields = declared.__struct_fields__
        return {
            "revision": client.revision,
            "server": [client.server_info.name, client.server_info.version],
            "instructions": client.instructions,
            "capabilities": [name for name in fields if getattr(declared, name) is not None],
        }

    async def tools(self) -> Any:
        page = await self._client.list_tools()
        names, pages = [tool.name for tool in page.tools], 1
        while page.next_cursor is not None:
            page = await self._client.list_tools(page.next_cursor)
            names += [tool.name for tool in page.tools]
            pages += 1
        assert names == [tool.name async for tool in self._client.tools()]
        return {"names": names, "pages": pages}

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self._client.call_tool(name, arguments))

    async def typed(self) -> Any:
        return await self._client.call_tool("add", {"a": 1, "b": 2}, result_type=int)

    async def weather(self) -> Any:
        found = await self._client.call_tool("weather", {"city": "Oslo"}, result_type=Weather)
        return [found.city, found.celsius, found.sky]

    async def raised(self) -> Any:
        try:
            await self._client.call_tool("fail", result_type=str)
        except ToolError as error:
            return str(error)
        return "no error"

    async def progress(self, to: int) -> Any:
        seen: list[list[Any]] = []
        result = await self._client.call_tool(
            "count",
            {"to": to},
            on_progress=lambda now: seen.append([now.progress, now.total, now.message]),
        )
        return {"seen": seen, **told(result)}

    async def cancel(self) -> Any:
        begun = asyncio.Event()
        call = self._client.call_tool("wait", on_progress=lambda _: begun.set())
        task = asyncio.create_task(call)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(begun.wait(), BEGUN)
        task.cancel()
        await asyncio.wait([task])
        return {"gave up": task.cancelled(), **await self.call("cancelled", {})}

    async def time_out(self) -> Any:
        try:
            await self._client.call_tool("wait", timeout=0.5)
        except RequestTimeout as error:
            return {"raised": type(error).__name__, **await self.call("cancelled", {})}
        return "answered"

    async def log(self) -> Any:
        try:
            await self._client.set_log_level("warning")
        finally:
            # Some servers log without having declared it.
            await self.call("say", {"level": "info", "text": "unheard"})
            await self.call("say", {"level": "error", "text": "heard"})
        await until(lambda: bool(self._heard.logs))
        return self._heard.logs

    async def grow(self) -> Any:
        if self._client.revision == MODERN:
            async with self._client.listen(tools=True) as changes:
                await self.call("grow", {})
                assert isinstance(await anext(changes), ToolsChanged)
        else:
            await self.call("grow", {})
        await until(lambda: bool(self._heard.changes))
        is_new = "extra" in [tool.name async for tool in self._client.tools()]
        return {"changes": self._heard.changes, "new": is_new, **await self.call("extra", {})}

    async def large(self, text: str) -> Any:
        return told(await self._client.call_tool("echo", {"text": text}))["text"] == text

    async def at_once(self, number: int) -> Any:
        calls = [self.call("add", {"a": each, "b": each}) for each in range(number)]
        return [each["text"] for each in await asyncio.gather(*calls)]

    async def ping(self) -> Any:
        return await self._client.ping()

    async def roots_changed(self) -> Any:
        return await self._client.roots_changed()

    async def resources(self) -> Any:
        return [[each.uri, each.mime_type] async for each in self._client.resources()]

    async def templates(self) -> Any:
        return [each.uri_template async for each in self._client.resource_templates()]

    async def read(self, uri: str) -> Any:
        held = (await self._client.read_resource(uri)).contents[0]
        return [held.uri, held.mime_type, held.text if held.text is not None else held.blob]

    async def subscribe(self, uri: str) -> Any:
        if self._client.revision == MODERN:
            async with self._client.listen(uris=[uri]) as changes:
                await self.call("touch", {"uri": uri})
                change = await anext(changes)
            await self.call("touch", {"uri": uri})
            assert isinstance(change, ResourceUpdated)
            return [change.uri]
        await self._client.subscribe(uri)
        await self.call("touch", {"uri": uri})
        await until(lambda: bool(self._heard.updates))
        await self._client.unsubscribe(uri)
        await self.call("touch", {"uri": uri})
        await self._client.ping()
        return self._heard.updates

    async def prompts(self) -> Any:
        return [
            [each.name, [[a.name, bool(a.required)] for a in each.arguments or ()]]
            async for each in self._client.prompts()
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        messages = (await self._client.get_prompt(name, arguments)).messages
        return [[each.role, getattr(each.content, "text", kind(each.content))] for each in messages]

    async def complete_prompt(self, name: str, argument: str, typed: str) -> Any:
        return (await self._client.complete(PromptReference(name), argument, typed)).values

    async def complete_template(self, uri: str, argument: str, typed: str) -> Any:
        return (await self._client.complete(ResourceTemplateReference(uri), argument, typed)).values


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    revision, *command = sys.argv[1:]
    target: Any = command[0] if command[0].startswith("http://") else command
    heard = Heard()
    options = heard.options() | ({} if revision == "default" else {"revision": revision})
    # Interpreters with many packages take their time to end on a busy machine.
    async with connect(target, exit_grace=20, **options) as client:
        yield Player(client, heard)


if __name__ == "__main__":
    asyncio.run(play(connected))
