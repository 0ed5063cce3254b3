"""A tour in seconds: starts the everything server as a process and shows what the protocol offers.

`make run` runs it. A monitor checks every message of both sides.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

from accord import Client
from accord.errors import ResourceNotFound
from accord.testing import Recording, connected
from accord.types import (
    CallToolResult,
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    LogMessageParams,
    ProgressParams,
    PromptReference,
    TextContent,
)

EVERYTHING = Path(__file__).with_name("everything.py")
PATIENCE = 10.0

NEXT = """\
Try next:
  .venv/bin/accord list examples/everything.py
  .venv/bin/accord inspect examples/everything.py
  .venv/bin/accord call examples/everything.py book city=Lima
  .venv/bin/accord call examples/everything.py fly city=Lima hops=5 --format json
  .venv/bin/accord check server examples/everything.py
  .venv/bin/accord add examples/ten_lines.py --print cursor
  .venv/bin/accord check trace examples/traces/2025-06-18-faulty.jsonl
  .venv/bin/accord requirements progress.value.increases
and read examples/README.md, examples/ten_lines.py, examples/tickets.py, examples/everything.py"""


def show(label: str, *values: object) -> None:
    """Print one step at once."""
    print(f"  {label:<13}", *values, flush=True)


def text_of(result: CallToolResult) -> str:
    return " ".join(block.text for block in result.content if isinstance(block, TextContent))


class Traveller:
    """The client's side: its answers to requests, and the notifications it gets."""

    def __init__(self) -> None:
        self.updated = asyncio.Event()
        self.tools_changed = asyncio.Event()

    def options(self) -> dict[str, Any]:
        return {
            "on_elicit": self.choose_seat,
            "on_sample": self.think,
            "roots": [Path(__file__).parent],
            "on_log": self.hear,
            "on_resource_updated": lambda uri: self.updated.set(),
            "on_tools_changed": self.tools_changed.set,
        }

    def choose_seat(self, question: ElicitParams) -> dict[str, object]:
        fields = ", ".join((question.requested_schema or {})["properties"])
        show("elicitation", f"the server asks {question.message!r} for {fields}")
        return {"row": 7, "side": "aisle"}

    async def think(self, question: CreateMessageParams) -> CreateMessageResult:
        asked = question.messages[0].content
        show("sampling", "the server asks our model", repr(getattr(asked, "text", asked)))
        return CreateMessageResult("assistant", TextContent("Bring a coat."), model="a stand-in")

    def hear(self, message: LogMessageParams) -> None:
        show("logging", f"{message.level} from {message.logger or 'the server'}:", message.data)


async def tools(client: Client, traveller: Traveller) -> None:
    first = await client.list_tools()
    names = [tool.name async for tool in client.tools()]
    show("tools", f"{len(names)} of them, {len(first.tools)} on the first page:", ", ".join(names))
    result = await client.call_tool("weather", {"city": "Lima"})
    show("structured", "weather(Lima) is", result.structured_content)
    result = await client.call_tool("boarding_pass", {"name": "Ada"})
    show("content", "a pass is", ", ".join(type(block).__name__ for block in result.content))
    result = await client.call_tool("weather", {"city": "Atlantis"})
    show("tool error", "weather(Atlantis):", text_of(result), f"(isError {result.is_error})")
    result = await client.call_tool("weather", {"city": 7})
    show("validation", "weather(7):", text_of(result))


async def questions(client: Client, traveller: Traveller) -> None:
    show("", text_of(await client.call_tool("book", {"city": "Lima"})))
    show("", text_of(await client.call_tool("advise", {"city": "Lima"})))
    show("roots", "the server sees", text_of(await client.call_tool("luggage")))


async def long_work(client: Client, traveller: Traveller) -> None:
    def step(progress: ProgressParams) -> None:
        show("progress", f"{progress.progress:g} of {progress.total:g}, {progress.message}")

    await client.set_log_level("debug")
    await client.call_tool("fly", {"city": "Kyoto"}, on_progress=step)

    async def board_shows(column: str, count: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                board = await client.read_resource("desk://departures")
                if json.loads(board.contents[0].text or "")[column] == count:
                    return

    for count, name in enumerate(("queue", "search"), 1):
        call = asyncio.create_task(client.call_tool(name))
        await board_shows("waiting", count)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await board_shows("gave_up", 2)
    show("cancellation", "queue (async) and search (in a thread) both stopped early")


async def resources(client: Client, traveller: Traveller) -> None:
    uris = [each.uri async for each in client.resources()]
    templates = [each.uri_template async for each in client.resource_templates()]
    show("resources", f"{len(uris)} and the templates", *templates)
    for uri in ("desk://rules", "city://Peru/Lima", "desk://stamp.png"):
        part = (await client.read_resource(uri)).contents[0]
        size = f"{len(part.blob or '')} characters of base64"
        show("read", f"{uri} ({part.mime_type}):", part.text if part.text is not None else size)
    try:
        await client.read_resource("city://Peru/Atlantis")
    except ResourceNotFound as error:
        show("not found", error)
    await client.subscribe("desk://departures")
    await asyncio.wait_for(traveller.updated.wait(), PATIENCE)
    show("subscription", "desk://departures changed by itself, and we were notified")
    await client.unsubscribe("desk://departures")


async def prompts(client: Client, traveller: Traveller) -> None:
    typed = await client.complete(
        PromptReference("plan"), "city", "K", context={"country": "Japan"}
    )
    show("completion", "a city in Japan with K:", ", ".join(typed.values))
    filled = await client.get_prompt("plan", {"country": "Japan", "city": typed.values[0]})
    for message in filled.messages:
        show("prompt", f"{message.role}:", getattr(message.content, "text", message.content))


async def changes(client: Client, traveller: Traveller) -> None:
    await client.call_tool("open_lounge")
    await asyncio.wait_for(traveller.tools_changed.wait(), PATIENCE)
    names = [tool.name async for tool in client.tools()]
    show("list change", "we were notified; the lounge is open:", "lounge" in names)


@asynccontextmanager
async def open_session(recording: Recording, traveller: Traveller) -> AsyncIterator[Client]:
    start = perf_counter()
    async with connected(
        EVERYTHING, transport="stdio", recording=recording, **traveller.options()
    ) as client:
        ready = (perf_counter() - start) * 1000
        info = client.server_info
        show("connected", f"to {info.title} {info.version} in {ready:.0f} ms,", client.revision)
        yield client


async def main() -> None:
    traveller, recording = Traveller(), Recording()
    print(f"Starting {EVERYTHING.name} as a process and talking to it over stdio:\n")
    start = perf_counter()
    async with open_session(recording, traveller) as client:
        for part in (tools, questions, long_work, resources, prompts, changes):
            await part(client, traveller)
    show("closed", "the process and all its children are gone")
    kept = sum(verdict.verdict == "pass" for verdict in recording.verdicts())
    print(
        f"\nA monitor checked the {len(recording.records)} messages of these"
        f" {perf_counter() - start:.1f} s: {kept} requirements tested and kept,"
        f" {len(recording.violations)} broken.\n"
    )
    print(NEXT)


if __name__ == "__main__":
    asyncio.run(main())
