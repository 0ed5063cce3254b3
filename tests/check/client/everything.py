"""A client program that does everything that accord's clients offer.

    python everything.py REVISION URL | REVISION COMMAND...

A revision of `any` offers all of them. With WITHOUT_CALLBACKS set, it answers no questions.
"""

import asyncio
import contextlib
import inspect
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, Final

from accord import connect
from accord.auth import MemoryStore, OAuth
from accord.client import blocking
from accord.errors import AccordError, InvalidParams, RequestTimeout
from accord.protocol.revisions import HANDSHAKE
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    Implementation,
    PromptReference,
    Root,
    TextContent,
    ToolUseContent,
)
from accord_tools.arguments.samples import sample

# Every server under which this runs answers at once, or never.
PATIENCE: Final = 1.5
SAMPLING: Final = 0.15
INFO: Final = Implementation("everything", "1", title="Everything")
META: Final = {"com.example/trace": "1"}
SAID: Final = CreateMessageResult("assistant", TextContent("hello"), "parrot")


class Model:
    """Answers after a while, and says how far it is."""

    client: Any = None

    async def answer(self, asked: CreateMessageParams) -> CreateMessageResult:
        await self.client.report_progress(asked, 1, 2, message="reading")
        await asyncio.sleep(SAMPLING)
        await self.client.report_progress(asked, 2, 2, message="writing")
        return SAID

    def answer_plainly(self, asked: CreateMessageParams) -> CreateMessageResult:
        self.client.report_progress(asked, 1, 2, message="reading")
        time.sleep(SAMPLING)
        self.client.report_progress(asked, 2, 2, message="writing")
        return SAID


class Threaded:
    """A blocking client whose methods may be awaited, each in a thread that waits for it."""

    def __init__(self, client: blocking.Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        async def call(*given: Any, **how: Any) -> Any:
            return await asyncio.to_thread(method, *given, **how)

        return call


def no_answer(_asked: CreateMessageParams) -> CreateMessageResult:
    raise InvalidParams("the model takes no images", data={"expected": "text"})


def no_roots() -> list[Root]:
    raise OSError("the folders are gone")


def fill_in(asked: ElicitParams) -> Any:
    return sample(asked.requested_schema or {})


def print_nothing() -> None:
    """Hear of a change, and do nothing."""


def visit(_asked: ElicitParams) -> bool:
    return False


def with_tools(asked: CreateMessageParams) -> Any:
    """Use a tool where one is required."""
    if asked.tool_choice is not None and asked.tool_choice.mode == "required":
        assert asked.tools
        use = ToolUseContent("use-1", asked.tools[0].name, {"city": "Oslo"})
        return CreateMessageResult("assistant", [use], "parrot", stop_reason="toolUse")
    return SAID


def agree_in_browser(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as page:
            page.read()
    except urllib.error.HTTPError as refused:
        refused.close()  # what the client says to a faulty answer


def options(target: str | Sequence[str], revision: str, model: Model, mood: str) -> dict[str, Any]:
    chosen: dict[str, Any] = {"timeout": 10.0, "connect_timeout": 5.0, "client_info": INFO}
    if revision != "any":
        chosen["revision"] = revision
    if mood == "willing":
        roots = [Root(uri="file:///srv", name="srv", meta=META)]
        chosen |= {"on_sample": model.answer, "on_elicit": fill_in, "roots": roots}
        chosen |= {"on_tools_changed": print_nothing, "on_prompts_changed": print_nothing}
    elif mood == "able":
        chosen |= {"on_sample": with_tools, "sampling_tools": True, "on_elicit_url": visit}
    elif mood == "failing":
        chosen |= {"on_sample": no_answer, "roots": no_roots}
    if isinstance(target, str):
        chosen["auth"] = OAuth(store=MemoryStore(), open_browser=agree_in_browser, timeout=5)
    else:
        chosen |= {"exit_grace": 0.3, "terminate_grace": 0.3}
    return chosen


async def every(pages: Any) -> list[Any]:
    if inspect.isawaitable(pages):
        return await asyncio.to_thread(list, await pages)
    return [each async for each in pages]


async def explore(client: Any) -> None:
    """Use each operation once; a refusal of the server does not stop it."""
    how: Any = {"timeout": PATIENCE}
    heard: list[Any] = []
    tools = await tried(every(client.tools(**how))) or []
    await tried(every(client.resources(**how)))
    await tried(every(client.resource_templates(**how)))
    await tried(every(client.prompts(**how)))
    for tool in tools[: 2 if client.revision in HANDSHAKE else None]:
        arguments = sample(tool.input_schema)
        reports = {"on_progress": heard.append, "cap": 1.8, "meta": META}
        await tried(client.call_tool(tool.name, arguments, **reports, **how))
    await tried(client.read_resource("play://note", **how))
    await tried(every(client.tools(**how)))
    await tried(client.read_resource("play://note", **how))
    await tried(client.subscribe("play://note", **how))
    await tried(client.unsubscribe("play://note", **how))
    await tried(client.get_prompt("greet", {"name": "Ada"}, **how))
    ref = PromptReference(name="greet")
    await tried(client.complete(ref, "name", "A", context={"mood": "good"}, **how))
    await tried(client.set_log_level("debug", **how))
    for _ in range(2):
        await client.ping(**how)


async def cancel_a_call(client: Any) -> None:
    call = asyncio.ensure_future(client.call_tool("echo", {"text": "cancelled"}))
    await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, AccordError):
        await call
    await client.ping(timeout=PATIENCE)


async def tried(work: Any) -> Any:
    try:
        return await work
    except (RequestTimeout, OSError):
        return None
    except AccordError as error:
        if "schema" in str(error):
            raise
        return None


async def run(
    target: str | Sequence[str],
    revision: str = "any",
    *,
    mood: str = "willing",
    is_blocking: bool = False,
) -> int:
    """Connect, explore, close; returns the exit code.

    Args:
        target: the server.
        revision: the one to speak, or `any`.
        mood: how the server's questions are met: `willing`, `able` (with what 2025-11-25 added),
            `failing`, or `silent`.
        is_blocking: whether it is the client for code without asyncio.
    """
    model = Model()
    chosen = options(target, revision, model, mood)
    try:
        if is_blocking:
            await asyncio.to_thread(lambda: run_plainly(target, chosen, model))
            return 0
        async with connect(target, **chosen) as client:
            model.client = client
            await explore(client)
            await cancel_a_call(client)
            if mood == "willing":
                await client.roots_changed([Root(uri="file:///tmp", name="tmp")])
    except AccordError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


def run_plainly(target: str | Sequence[str], chosen: dict[str, Any], model: Model) -> None:
    chosen["on_sample"] = model.answer_plainly
    with blocking.connect(target, **chosen) as client:
        model.client = client
        asyncio.run(explore(Threaded(client)))
        client.roots_changed([Root(uri="file:///tmp", name="tmp")])


if __name__ == "__main__":
    _, revision, *place = sys.argv
    target = place[0] if place[0].startswith("http") else place
    mood = "silent" if "WITHOUT_CALLBACKS" in os.environ else "willing"
    sys.exit(asyncio.run(run(target, revision, mood=mood)))
