"""No limit ends as a time-out: each is one clear error, at once, that names it and its setting."""

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord import Limits, connect
from accord.errors import RequestTimeout
from interaction.servers import limited
from interaction.servers.limited import LARGE, SMALL, on_sample, payload
from support.http_server import bounded
from support.waiting import LONG, run

LINKS = (
    "memory:2025-11-25",
    "memory:2026-07-28",
    "stdio:2025-11-25",
    "stdio:2026-07-28",
    "http:2025-11-25",
    "http:2026-07-28",
    "http-stream:2025-11-25",
    "http-stream:2026-07-28",
    "sse:2025-11-25",
)
KINDS = ("message_bytes", "message_values", "depth")
# What is tried, and what it takes for the side with the small limits.
ACTIONS = ("result", "arguments", "question", "answer")
# Far more than the tests wait.
TIMEOUT = 10 * LONG


@asynccontextmanager
async def joined(link: str, *, server: Limits, client: Limits) -> Any:
    transport, _, revision = link.partition(":")
    options: Any = {
        "revision": revision,
        "timeout": TIMEOUT,
        "limits": client,
        "on_sample": on_sample,
    }
    if transport == "memory":
        async with connect(limited.make(server), **options) as connected:
            yield connected
    elif transport == "stdio":
        env = {"PYTHONPATH": os.pathsep.join(sys.path)}
        text = msgspec.json.encode(server).decode()
        command = [sys.executable, str(Path(limited.__file__)), text]
        async with connect(command, env=env, **options) as connected:
            yield connected
    else:
        answers = "stream" if transport == "http-stream" else "auto"
        app = limited.make(server).asgi(sse=transport == "sse", answers=answers)
        with bounded(app) as port:
            path = "sse" if transport == "sse" else "mcp"
            async with connect(f"http://127.0.0.1:{port}/{path}", **options) as connected:
                yield connected


async def outcome(client: Any, action: str, kind: str) -> str:
    """Do what is too much, and return what its caller, or the handler that asked, learns."""
    calls = {
        "result": ("give", {"kind": kind}),
        "arguments": ("take", {"value": payload(kind)}),
        "question": ("ask", {"question": kind}),
        "answer": ("ask", {"answer": kind}),
    }
    try:
        async with asyncio.timeout(LONG):
            return str((await client.call_tool(*calls[action])).text)
    except RequestTimeout as error:
        return f"timed out: {error}"
    except TimeoutError:
        return "no answer"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("small", ["server", "client"])
@pytest.mark.parametrize("link", LINKS)
def test_a_message_beyond_a_limit_fails_its_own_call_at_once_by_name(link: str, small: str) -> None:
    sides = {"server": LARGE, "client": LARGE, small: SMALL}
    wrong = {}

    async def main() -> None:
        async with joined(link, **sides) as client:
            for action in ACTIONS:
                for kind in KINDS:
                    held = asyncio.ensure_future(client.call_tool("hold"))
                    found = await outcome(client, action, kind)
                    if f"({kind})" not in found or "timed out" in found:
                        wrong[action, kind] = found[:200]
                    # Another call on the same connection goes on, and so do later ones.
                    async with asyncio.timeout(LONG):
                        await client.call_tool("let_go")
                        assert (await held).text == "held"

    run(main())
    assert not wrong, "\n".join(f"{each}: {found}" for each, found in wrong.items())
