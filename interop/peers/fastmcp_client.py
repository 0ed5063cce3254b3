"""A client written with FastMCP.

    python fastmcp_client.py REVISION COMMAND... | URL

FastMCP has no option for the revision to offer in a handshake: the server is started with the one
to agree on.
"""

import asyncio
import contextlib
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.messages import MessageHandler
from fastmcp.client.transports import SSETransport, StdioTransport, StreamableHttpTransport
from fastmcp.exceptions import ToolError
from mcp.client.subscriptions import listen
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from scenario import BEGUN, MODERN, play, until

# Logging, roots and sampling are deprecated by the newest revision, and used by all others.
warnings.simplefilter("ignore")


class Heard(MessageHandler):
    """Everything the server says or asks of its own accord."""

    def __init__(self) -> None:
        self.logs: list[list[Any]] = []
        self.changes: list[str] = []
        self.updates: list[str] = []
        self.is_modern = False
        self.answers = ["accept", "decline", "cancel", "accept"]

    async def on_tool_list_changed(self, message: Any) -> None:
        if not self.is_modern:  # where what is listened to comes by events
            self.changes.append("tools")

    async def on_resource_updated(self, message: Any) -> None:
        if not self.is_modern:
            self.updates.append(str(message.params.uri))

    async def log(self, message: Any) -> None:
        self.logs.append([message.level, message.data, message.logger])

    async def sample(self, messages: Any, params: Any, context: Any) -> str:
        return f"echo {messages[0].content.text}"

    async def elicit(self, message: str, response_type: Any, params: Any, context: Any) -> Any:
        action = self.answers.pop(0)
        if action == "accept":
            return response_type(name="Ada", age=36)
        return ElicitResult(action=action)


def told(result: types.CallToolResult) -> dict[str, Any]:
    """Show a tool's result as plain values."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return {
        "error": result.is_error,
        "text": " ".join(texts),
        "structured": result.structured_content,
        "types": [block.type for block in result.content],
    }


class Player:
    """The steps of the scenario."""

    def __init__(self, client: Client[Any], heard: Heard) -> None:
        self._client = client
        self._heard = heard
        self._is_modern = heard.is_modern = client.protocol_version == MODERN

    async def opened(self) -> Any:
        if self._is_modern:  # a client that was pinned to it has not asked yet
            found = await self._client.session.send_discover(MODERN)
            self._client.session.adopt(types.DiscoverResult.model_validate(found))
        info, capabilities = self._client.server_info, self._client.server_capabilities
        assert info is not None
        assert capabilities is not None
        return {
            "revision": self._client.protocol_version,
            "server": [info.name, info.version],
            "instructions": self._client.instructions,
            "capabilities": sorted(capabilities.model_dump(exclude_none=True)),
        }

    async def tools(self) -> Any:
        tools = await self._client.list_tools()
        first = tools[0].model_dump(by_alias=True, mode="json", exclude_none=True)
        return {"names": [each.name for each in tools], "first": first}

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self._client.call_tool_mcp(name, arguments))

    async def weather(self) -> Any:
        return await self.call("weather", {"city": "Oslo"})

    async def raised(self) -> Any:
        try:
            await self._client.call_tool("fail")
        except ToolError as error:
            return str(error)
        return "no error"

    async def progress(self, to: int) -> Any:
        seen: list[list[Any]] = []

        async def report(now: float, total: float | None, message: str | None) -> None:
            seen.append([now, total, message])

        result = await self._client.call_tool_mcp("count", {"to": to}, progress_handler=report)
        await until(lambda: len(seen) == to)
        return {"seen": seen, **told(result)}

    async def cancel(self) -> Any:
        begun = asyncio.Event()

        async def report(now: float, total: float | None, message: str | None) -> None:
            begun.set()

        task = asyncio.create_task(self._client.call_tool("wait", progress_handler=report))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(begun.wait(), BEGUN)
        task.cancel()
        await asyncio.wait([task])
        return {"gave up": task.cancelled(), **await self.call("cancelled", {})}

    async def time_out(self) -> Any:
        try:
            await self._client.call_tool("wait", timeout=0.5)
        except Exception as error:  # which one is theirs to choose
            return {"raised": type(error).__name__, **await self.call("cancelled", {})}
        return "answered"

    async def log(self) -> Any:
        if not self._is_modern:  # where it asks for everything
            await self._client.set_logging_level("warning")
        await self.call("say", {"level": "info", "text": "unheard"})
        await self.call("say", {"level": "error", "text": "heard"})
        await until(lambda: bool(self._heard.logs))
        return self._heard.logs

    async def grow(self) -> Any:
        if self._is_modern:
            async with self._listening(tools_list_changed=True):
                await self.call("grow", {})
                await until(lambda: bool(self._heard.changes))
        else:
            await self.call("grow", {})
            await until(lambda: bool(self._heard.changes))
        is_new = "extra" in [tool.name for tool in await self._client.list_tools()]
        return {"changes": self._heard.changes, "new": is_new, **await self.call("extra", {})}

    async def large(self, text: str) -> Any:
        return told(await self._client.call_tool_mcp("echo", {"text": text}))["text"] == text

    async def at_once(self, number: int) -> Any:
        calls = [self.call("add", {"a": each, "b": each}) for each in range(number)]
        return [each["text"] for each in await asyncio.gather(*calls)]

    async def invalid_cursor(self) -> Any:
        return len((await self._client.list_tools_mcp(cursor="nonsense")).tools)

    async def ping(self) -> Any:
        return {} if await self._client.ping() else "no answer"

    async def roots_changed(self) -> Any:
        await self._client.send_roots_list_changed()

    async def resources(self) -> Any:
        return [[str(each.uri), each.mime_type] for each in await self._client.list_resources()]

    async def templates(self) -> Any:
        return [each.uri_template for each in await self._client.list_resource_templates()]

    async def read(self, uri: str) -> Any:
        held = (await self._client.read_resource(uri))[0]
        text = getattr(held, "text", None)
        return [str(held.uri), held.mime_type, text if text is not None else held.blob]

    @asynccontextmanager
    async def _listening(self, **wanted: Any) -> AsyncIterator[None]:
        """Listen to changes meanwhile; FastMCP leaves that to the SDK under it."""
        async with listen(self._client.session, **wanted) as events:

            async def hear() -> None:
                async for event in events:
                    if isinstance(event, ToolsListChanged):
                        self._heard.changes.append("tools")
                    elif isinstance(event, ResourceUpdated):
                        self._heard.updates.append(event.uri)

            hearing = asyncio.create_task(hear())
            yield
            hearing.cancel()

    async def subscribe(self, uri: str) -> Any:
        if self._is_modern:
            async with self._listening(resource_subscriptions=[uri]):
                await self.call("touch", {"uri": uri})
                await until(lambda: bool(self._heard.updates))
            await self.call("touch", {"uri": uri})
            return self._heard.updates
        await self._client.session.subscribe_resource(uri)
        await self.call("touch", {"uri": uri})
        await until(lambda: bool(self._heard.updates))
        await self._client.session.unsubscribe_resource(uri)
        await self.call("touch", {"uri": uri})
        await self._client.ping()
        return self._heard.updates

    async def prompts(self) -> Any:
        return [
            [each.name, [[a.name, bool(a.required)] for a in each.arguments or ()]]
            for each in await self._client.list_prompts()
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        messages = (await self._client.get_prompt(name, arguments)).messages
        return [[each.role, getattr(each.content, "text", each.content.type)] for each in messages]

    async def complete_prompt(self, name: str, argument: str, typed: str) -> Any:
        ref = types.PromptReference(type="ref/prompt", name=name)
        return (await self._client.complete(ref, {"name": argument, "value": typed})).values

    async def complete_in_context(
        self, name: str, argument: str, typed: str, known: dict[str, str]
    ) -> Any:
        ref = types.PromptReference(type="ref/prompt", name=name)
        return (await self._client.complete(ref, {"name": argument, "value": typed}, known)).values

    async def complete_template(self, uri: str, argument: str, typed: str) -> Any:
        ref = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        return (await self._client.complete(ref, {"name": argument, "value": typed})).values


def transport(command: str, *args: str) -> Any:
    if command.endswith("/sse"):
        return SSETransport(command)
    if command.startswith("http://"):
        return StreamableHttpTransport(command)
    return StdioTransport(command, list(args), keep_alive=False)


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    heard = Heard()
    revision, *command = sys.argv[1:]
    how = {"mode": revision} if revision == MODERN else {}
    client = Client(
        transport(*command),
        roots=["file:///work"],
        sampling_handler=heard.sample,
        elicitation_handler=heard.elicit,
        log_handler=heard.log,
        message_handler=heard,
        **how,
    )
    async with client:
        yield Player(client, heard)


if __name__ == "__main__":
    asyncio.run(play(connected))
