"""No limit ends as a time-out: each is one clear error, at once, that names it and its setting."""

import asyncio
import os
import re
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from accord import Limits, connect
from accord.errors import RequestTimeout
from accord.http.settings import HttpLimits, HttpSettings, settings_of
from interaction.servers import limited
from interaction.servers.limited import LARGE, SMALL, on_sample, payload
from support.http_server import bounded, on_listener
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
async def joined(link: str, *, server: Limits, client: Limits, **settings: Any) -> Any:
    transport, _, revision = link.partition(":")
    options: Any = {
        "revision": revision,
        "timeout": TIMEOUT,
        "limits": client,
        "on_sample": on_sample,
    }
    if transport == "memory":
        async with connect(limited.make(server, **settings), **options) as connected:
            yield connected
    elif transport == "stdio":
        env = {"PYTHONPATH": os.pathsep.join(sys.path)}
        text = msgspec.json.encode(server).decode()
        command = [sys.executable, str(Path(limited.__file__)), text]
        async with connect(command, env=env, **options) as connected:
            yield connected
    else:
        answers = "stream" if transport == "http-stream" else "auto"
        app = limited.make(server, **settings).asgi(sse=transport == "sse", answers=answers)
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


# -- more at a time than a server takes


@pytest.mark.parametrize("link", ["memory:2025-11-25", "memory:2026-07-28", "http:2025-11-25"])
def test_a_request_beyond_those_in_flight_is_refused_by_name(link: str) -> None:
    async def main() -> None:
        async with joined(link, server=LARGE, client=LARGE, in_flight=2) as client:
            held = [asyncio.ensure_future(client.call_tool("hold")) for _ in range(2)]
            found = await outcome(client, "arguments", "depth")
            while "in_flight" not in found:  # they may be on their way
                assert found == "taken"
                found = await outcome(client, "arguments", "depth")
            assert found.endswith("2 requests are under way (in_flight) (-32603)")
            await client.ping()
            for call in held:
                call.cancel()

    run(main())


# -- limits of HTTP


def post(body: bytes, *, length: int | None = None) -> bytes:
    """A POST, whose body may be announced to be longer than what is sent."""
    head = (
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\n"
        f"Content-Length: {len(body) if length is None else length}\r\n\r\n"
    )
    return head.encode() + body


def message(id: int | None, method: str, **params: Any) -> bytes:
    body = {"jsonrpc": "2.0", "method": method, "params": params}
    return msgspec.json.encode(body if id is None else {**body, "id": id})


def opening(revision: str = "2025-11-25", name: str = "raw") -> bytes:
    client = {"name": name, "version": "1"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    return message(1, "initialize", **params)


class Visitor:
    """One TCP connection to a server."""

    def __init__(self, stack: AsyncExitStack, port: int) -> None:
        self._stack = stack
        self._port = port

    async def open(self) -> "Visitor":
        self._reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._stack.callback(self.writer.close)
        return self

    async def ask(self, data: bytes, *, then: bytes = b"", every: float = 0) -> str:
        """Send a request, and go on sending until there is the head of an answer."""
        self.writer.write(data)
        arriving = asyncio.ensure_future(self._reader.readuntil(b"\r\n\r\n"))
        while then and not (await asyncio.wait({arriving}, timeout=every))[0]:
            self.writer.write(then)
        head = (await arriving).decode()
        found = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        body = await self._reader.readexactly(int(found[1])) if found else b""
        return head + body.decode()

    async def open_session(self, revision: str = "2025-11-25") -> bytes:
        """Open a session; return the headers that name it."""
        answer = await self.ask(post(opening(revision)))
        found = re.search(r"mcp-session-id: (\S+)", answer, re.IGNORECASE)
        assert found is not None, answer
        return f"Mcp-Session-Id: {found[1]}\r\nMCP-Protocol-Version: {revision}\r\n".encode()


def within(headers: bytes, request: bytes) -> bytes:
    """A request of a session."""
    return request.replace(b"Host: localhost\r\n", b"Host: localhost\r\n" + headers)


async def too_long_opening(visitor: Visitor) -> str:
    return await visitor.ask(post(opening(name="x" * 200_000)))


async def half_a_body(visitor: Visitor) -> str:
    return await visitor.ask(post(b"x" * 2_000, length=4_000))


async def slow_body(visitor: Visitor) -> str:
    return await visitor.ask(post(b" ", length=4_000), then=b" ", every=0.05)


async def two_connections(visitor: Visitor) -> str:
    headers = await visitor.open_session()
    second = await Visitor(visitor._stack, visitor._port).open()
    refusal = await second.ask(post(opening()))
    # The first goes on.
    assert '"result":{}' in await visitor.ask(within(headers, post(message(3, "ping"))))
    return refusal


async def two_sessions(visitor: Visitor) -> str:
    headers = await visitor.open_session()
    call = message(2, "tools/call", name="hold", arguments={})
    visitor.writer.write(within(headers, post(call)))
    second = await Visitor(visitor._stack, visitor._port).open()
    while "HTTP/1.1 200" in (answer := await second.ask(post(opening()))):
        await asyncio.sleep(0.01)  # the call may be on its way
    # The session in use goes on.
    assert '"result":{}' in await second.ask(within(headers, post(message(3, "ping"))))
    return answer


async def two_listeners(visitor: Visitor) -> str:
    headers = await visitor.open_session()
    get = b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    await (await Visitor(visitor._stack, visitor._port).open()).ask(within(headers, get))
    return await visitor.ask(within(headers, get))


async def long_batch(visitor: Visitor) -> str:
    headers = await visitor.open_session("2025-03-26")
    batch = b"[%b]" % b",".join(message(id, "ping") for id in range(300))
    return await visitor.ask(within(headers, post(batch)))


# By setting: the options that let it be the one that is reached, and how it is reached.
HTTP: dict[str, tuple[dict[str, Any], Callable[[Visitor], Awaitable[str]]]] = {
    "opening_bytes": ({"opening_bytes": 1_000}, too_long_opening),
    "bodies_bytes": ({"bodies_bytes": 1_000}, half_a_body),
    "body_timeout": ({"body_timeout": 0.2}, half_a_body),
    "body_rate": ({"body_timeout": 0.3, "body_rate": 100_000}, slow_body),
    "request_timeout": ({"request_timeout": 0.3, "body_rate": 1}, slow_body),
    "connections": ({"connections": 1}, two_connections),
    "connections_per_address": ({"connections_per_address": 1}, two_connections),
    "sessions": ({"sessions": 1}, two_sessions),
    "sessions_per_caller": ({"sessions_per_caller": 1}, two_sessions),
    "listeners": ({"listeners": 1}, two_listeners),
    "batch_length": ({}, long_batch),
}
UNREAD = "a client that does not read hears of nothing: its connection is cut, and its calls end"
NO_LIMITS = {
    "session_idle": "the next request is answered with 404, and clients open a new session",
    "write_timeout": UNREAD,
    "unread_bytes": UNREAD,
    "stream_entries": "resuming is refused with 404",
    "retention": "resuming is refused with 404",
    "keep_alive": "how often a comment is sent",
    "retry": "a proposal to clients",
    "grace": "how long a stopping server waits",
    "store_patience": "how long a store is waited for",
    "lease": "when another worker takes over",
}


@on_listener
@pytest.mark.parametrize("setting", HTTP)
def test_a_client_beyond_a_limit_of_http_is_refused_at_once_by_name(
    setting: str, monkeypatch: Any
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "10.0.0.1")  # proxies may have any number
    options, reach = dict(HTTP[setting][0]), HTTP[setting][1]

    async def main(port: int) -> str:
        async with AsyncExitStack() as stack, asyncio.timeout(LONG):
            return await reach(await Visitor(stack, port).open())

    limits = {each: options.pop(each) for each in HttpLimits.__struct_fields__ if each in options}
    app = limited.make(Limits()).asgi(limits=HttpLimits(**limits), **options)
    with bounded(app) as port:
        answer = run(main(port))
    status = int(answer.split()[1])
    assert status >= 400
    assert f"({setting}" in answer


def test_each_limit_is_tried_or_has_a_reason_not_to_be() -> None:
    of_http = {
        name
        for name, setting in settings_of(HttpSettings).items()
        if isinstance(setting.default, int | float) and not isinstance(setting.default, bool)
    }
    limits = of_http | {*HttpLimits.__struct_fields__} | {*Limits.__struct_fields__}
    assert limits == {*KINDS} | HTTP.keys() | NO_LIMITS.keys()
    assert not HTTP.keys() & NO_LIMITS.keys()
