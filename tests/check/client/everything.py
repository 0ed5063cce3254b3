"""A client program that does everything that accord's client offers.

    python everything.py REVISION URL | REVISION COMMAND...

A revision of `any` offers all of them. With WITHOUT_CALLBACKS set, it answers no questions.
"""

import asyncio
import contextlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from accord import Client, connect
from accord.auth import MemoryStore, OAuth
from accord.check.probing.samples import sample
from accord.errors import AccordError, RequestTimeout
from accord.types import (
    CreateMessageParams,
    CreateMessageResult,
    ElicitParams,
    PromptReference,
    Root,
    TextContent,
)

# Every server under which this runs answers at once, or never.
PATIENCE: Final = 1.5
SAMPLING: Final = 0.15


async def answer_sampling(_asked: CreateMessageParams) -> CreateMessageResult:
    await asyncio.sleep(SAMPLING)
    content = TextContent(text="hello")
    return CreateMessageResult(role="assistant", content=content, model="parrot")


def fill_in(asked: ElicitParams) -> Any:
    return sample(asked.requested_schema or {})


def agree_in_browser(url: str) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=5) as page:
            page.read()
    except urllib.error.HTTPError as refused:
        refused.close()  # what the client says to a faulty answer


def options(target: str | Sequence[str], revision: str, *, has_callbacks: bool) -> dict[str, Any]:
    chosen: dict[str, Any] = {"timeout": 10.0, "connect_timeout": 5.0}
    if revision != "any":
        chosen["revision"] = revision
    if has_callbacks:
        roots = [Root(uri="file:///srv", name="srv")]
        chosen |= {"on_sample": answer_sampling, "on_elicit": fill_in, "roots": roots}
    if isinstance(target, str):
        chosen["auth"] = OAuth(store=MemoryStore(), open_browser=agree_in_browser, timeout=5)
    else:
        chosen |= {"exit_grace": 0.3, "terminate_grace": 0.3}
    return chosen


async def every(pages: AsyncIterator[Any]) -> list[Any]:
    return [each async for each in pages]


async def explore(client: Client) -> None:
    """Use each operation once; what the server refuses is no reason to stop."""
    how: Any = {"timeout": PATIENCE}
    heard: list[Any] = []
    tools = await tried(every(client.tools(**how))) or []
    await tried(every(client.resources(**how)))
    await tried(every(client.resource_templates(**how)))
    await tried(every(client.prompts(**how)))
    for tool in tools[:2]:
        arguments = sample(tool.input_schema)
        await tried(
            client.call_tool(tool.name, arguments, on_progress=heard.append, cap=1.8, **how)
        )
    await tried(client.read_resource("play://note", **how))
    await tried(client.subscribe("play://note", **how))
    await tried(client.unsubscribe("play://note", **how))
    await tried(client.get_prompt("greet", {"name": "Ada"}, **how))
    ref = PromptReference(name="greet")
    await tried(client.complete(ref, "name", "A", context={"mood": "good"}, **how))
    await tried(client.set_log_level("debug", **how))
    await client.ping(**how)
    await cancel_a_call(client)


async def cancel_a_call(client: Client) -> None:
    call = asyncio.ensure_future(client.call_tool("echo", {"text": "cancelled"}))
    await asyncio.sleep(0)
    call.cancel()
    with contextlib.suppress(asyncio.CancelledError, AccordError):
        await call
    await client.ping(timeout=PATIENCE)


async def tried(work: Any) -> Any:
    try:
        return await work
    except RequestTimeout:
        return None
    except AccordError as error:
        if "schema" in str(error):
            raise
        return None


async def run(target: str | Sequence[str], revision: str = "any", **how: Any) -> int:
    """Connect, explore, close; returns the exit code."""
    chosen = options(target, revision, has_callbacks=how.pop("has_callbacks", True)) | how
    try:
        async with connect(target, **chosen) as client:
            await explore(client)
            if "roots" in chosen:
                await client.roots_changed([Root(uri="file:///tmp", name="tmp")])
    except AccordError as error:
        print(error, file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    _, revision, *place = sys.argv
    target = place[0] if place[0].startswith("http") else place
    has_callbacks = "WITHOUT_CALLBACKS" not in os.environ
    sys.exit(asyncio.run(run(target, revision, has_callbacks=has_callbacks)))
