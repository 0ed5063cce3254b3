"""A client written with the official Python SDK, `mcp`.

    python mcp_client.py REVISION COMMAND... | URL

With a revision the handshake is made by hand, because the SDK always offers its newest one; with
`default`, and with the revision that has none, the client connects as its users write it.
"""

import asyncio
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.session import ClientSession
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.subscriptions import ResourceUpdated, ToolsListChanged
from scenario import BEGUN, MODERN, play, until

# Logging, roots and sampling are deprecated by the newest revision, and used by all others.
warnings.simplefilter("ignore")

INFO = types.Implementation(name="mcp-python", version="2")


class Heard:
    """Everything the server says or asks of its own accord."""

    def __init__(self) -> None:
        self.logs: list[list[Any]] = []
        self.changes: list[str] = []
        self.updates: list[str] = []
        self.is_modern = False
        self.answers = ["accept", "decline", "cancel", "accept"]

    async def log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logs.append([params.level, params.data, params.logger])

    async def message(self, message: Any) -> None:
        if self.is_modern:  # where what is listened to comes by events
            return
        if isinstance(message, types.ResourceUpdatedNotification):
            self.updates.append(str(message.params.uri))
        elif isinstance(message, types.ToolListChangedNotification):
            self.changes.append("tools")

    async def sample(self, _: Any, params: types.CreateMessageRequestParams) -> Any:
        asked = params.messages[0].content
        assert isinstance(asked, types.TextContent)
        return types.CreateMessageResult(
            role="assistant",
            content=types.TextContent(type="text", text=f"echo {asked.text}"),
            model="parrot",
            stop_reason="endTurn",
        )

    async def elicit(self, _: Any, params: Any) -> types.ElicitResult:
        action = self.answers.pop(0)
        content = {"name": "Ada", "age": 36} if action == "accept" else None
        return types.ElicitResult(action=action, content=content)

    async def roots(self, _: Any) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])

    def callbacks(self) -> dict[str, Any]:
        return {
            "sampling_callback": self.sample,
            "elicitation_callback": self.elicit,
            "list_roots_callback": self.roots,
            "logging_callback": self.log,
            "message_handler": self.message,
            "client_info": INFO,
        }


def told(result: types.CallToolResult) -> dict[str, Any]:
    """Show a tool's result as plain values."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    return {
        "error": result.is_error,
        "text": " ".join(texts),
        "structured": result.structured_content,
        "types": [block.type for block in result.content],
    }


async def every_page(fetch: Any, member: str) -> tuple[list[Any], int]:
    page = await fetch(params=None)
    found, pages = list(getattr(page, member)), 1
    while page.next_cursor is not None:
        page = await fetch(params=types.PaginatedRequestParams(cursor=page.next_cursor))
        found += getattr(page, member)
        pages += 1
    return found, pages


class Player:
    """The steps of the scenario."""

    def __init__(self, session: ClientSession, heard: Heard, client: Client | None = None) -> None:
        self._session = session
        self._heard = heard
        self._client = client
        # What may be answered by questions first is asked of the client, which answers them.
        self._calls = client if client is not None else session
        self._is_modern = heard.is_modern = session.protocol_version == MODERN

    async def opened(self) -> Any:
        if self._is_modern:  # a client that was pinned to it has not asked yet
            found = await self._session.send_discover(MODERN)
            self._session.adopt(types.DiscoverResult.model_validate(found))
        info, capabilities = self._session.server_info, self._session.server_capabilities
        assert info is not None
        assert capabilities is not None
        return {
            "revision": self._session.protocol_version,
            "server": [info.name, info.version],
            "instructions": self._session.instructions,
            "capabilities": sorted(capabilities.model_dump(exclude_none=True)),
        }

    async def tools(self) -> Any:
        tools, pages = await every_page(self._session.list_tools, "tools")
        return {
            "names": [each.name for each in tools],
            "pages": pages,
            "first": tools[0].model_dump(by_alias=True, mode="json", exclude_none=True),
        }

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        return told(await self._calls.call_tool(name, arguments))

    async def weather(self) -> Any:
        return await self.call("weather", {"city": "Oslo"})

    async def progress(self, to: int) -> Any:
        seen: list[list[Any]] = []

        async def report(now: float, total: float | None, message: str | None) -> None:
            seen.append([now, total, message])

        result = await self._calls.call_tool("count", {"to": to}, progress_callback=report)
        await until(lambda: len(seen) == to)
        return {"seen": seen, **told(result)}

    async def cancel(self) -> Any:
        with anyio.move_on_after(BEGUN) as scope:

            async def report(now: float, total: float | None, message: str | None) -> None:
                scope.cancel()

            await self._calls.call_tool("wait", {}, progress_callback=report)
        return {"gave up": scope.cancelled_caught, **await self.call("cancelled", {})}

    async def time_out(self) -> Any:
        try:
            await self._calls.call_tool("wait", {}, read_timeout_seconds=0.5)
        except Exception as error:  # which one is theirs to choose
            return {"raised": type(error).__name__, **await self.call("cancelled", {})}
        return "answered"

    async def log(self) -> Any:
        if not self._is_modern:  # where the client was made with the level
            await self._session.set_logging_level("warning")
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
        tools, _ = await every_page(self._session.list_tools, "tools")
        is_new = "extra" in [tool.name for tool in tools]
        return {"changes": self._heard.changes, "new": is_new, **await self.call("extra", {})}

    async def large(self, text: str) -> Any:
        return told(await self._calls.call_tool("echo", {"text": text}))["text"] == text

    async def at_once(self, number: int) -> Any:
        calls = [self.call("add", {"a": each, "b": each}) for each in range(number)]
        return [each["text"] for each in await asyncio.gather(*calls)]

    async def invalid_cursor(self) -> Any:
        params = types.PaginatedRequestParams(cursor="nonsense")
        return len((await self._session.list_tools(params=params)).tools)

    async def ping(self) -> Any:
        answer = await self._session.send_ping()
        return answer.model_dump(exclude_none=True, exclude={"result_type"})

    async def roots_changed(self) -> Any:
        await self._session.send_roots_list_changed()

    async def resources(self) -> Any:
        found, _ = await every_page(self._session.list_resources, "resources")
        return [[each.uri, each.mime_type] for each in found]

    async def templates(self) -> Any:
        fetch = self._session.list_resource_templates
        found, _ = await every_page(fetch, "resource_templates")
        return [each.uri_template for each in found]

    async def read(self, uri: str) -> Any:
        held = (await self._calls.read_resource(uri)).contents[0]
        text = getattr(held, "text", None)
        return [str(held.uri), held.mime_type, text if text is not None else held.blob]

    @asynccontextmanager
    async def _listening(self, **wanted: Any) -> AsyncIterator[None]:
        """Listen to changes meanwhile."""
        assert self._client is not None
        async with self._client.listen(**wanted) as events:

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
        await self._session.subscribe_resource(uri)
        await self.call("touch", {"uri": uri})
        await until(lambda: bool(self._heard.updates))
        await self._session.unsubscribe_resource(uri)
        await self.call("touch", {"uri": uri})
        await self._session.send_ping()
        return self._heard.updates

    async def prompts(self) -> Any:
        found, _ = await every_page(self._session.list_prompts, "prompts")
        return [
            [each.name, [[a.name, bool(a.required)] for a in each.arguments or ()]]
            for each in found
        ]

    async def prompt(self, name: str, arguments: dict[str, str]) -> Any:
        messages = (await self._calls.get_prompt(name, arguments)).messages
        return [[each.role, getattr(each.content, "text", each.content.type)] for each in messages]

    async def complete_prompt(self, name: str, argument: str, typed: str) -> Any:
        ref = types.PromptReference(type="ref/prompt", name=name)
        result = await self._session.complete(ref, {"name": argument, "value": typed})
        return result.completion.values

    async def complete_in_context(
        self, name: str, argument: str, typed: str, known: dict[str, str]
    ) -> Any:
        ref = types.PromptReference(type="ref/prompt", name=name)
        filled = {"name": argument, "value": typed}
        result = await self._session.complete(ref, filled, context_arguments=known)
        return result.completion.values

    async def complete_template(self, uri: str, argument: str, typed: str) -> Any:
        ref = types.ResourceTemplateReference(type="ref/resource", uri=uri)
        result = await self._session.complete(ref, {"name": argument, "value": typed})
        return result.completion.values


async def _open(session: ClientSession, revision: str) -> None:
    """Offer one revision."""
    params = types.InitializeRequestParams(
        protocol_version=revision,
        capabilities=types.ClientCapabilities(
            sampling=types.SamplingCapability(),
            roots=types.RootsCapability(list_changed=True),
            elicitation=types.ElicitationCapability() if revision >= "2025-06-18" else None,
        ),
        client_info=INFO,
    )
    request = types.InitializeRequest(params=params)
    session.adopt(await session.send_request(request, types.InitializeResult))
    await session.send_notification(types.InitializedNotification())


def transport(command: str, args: list[str]) -> Any:
    if command.endswith("/sse"):
        return sse_client(command)
    if command.startswith("http://"):
        return streamable_http_client(command)
    return stdio_client(StdioServerParameters(command=command, args=args))


@asynccontextmanager
async def connected() -> AsyncIterator[Player]:
    revision, command, *args = sys.argv[1:]
    heard = Heard()
    if revision in ("default", MODERN):
        how = {"mode": revision} if revision == MODERN else {}
        options = {"log_level": "warning", **heard.callbacks(), **how}
        async with Client(transport(command, args), **options) as client:
            yield Player(client.session, heard, client)
        return
    async with (
        transport(command, args) as (reading, writing),
        ClientSession(reading, writing, **heard.callbacks()) as session,
    ):
        await _open(session, revision)
        yield Player(session, heard)


if __name__ == "__main__":
    asyncio.run(play(connected))
