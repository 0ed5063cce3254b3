"""What hostile servers make a client spend: memory, sockets, requests, time.

    python benchmarks/attacks/client.py [ATTACK ...]

Each attack is a server in this process and a client in a process of its own, which is killed after
the time of the attack. Prints what it cost as a part of what it may cost; exit code 1 where that is
more than all of it.
"""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from measure import cpu_of, memory_of

SECONDS: Final = 12.0
MEMORY_MB: Final = 64
SOCKETS: Final = 100
REQUESTS_PER_SECOND: Final = 10
ENDING_SECONDS: Final = 30.0

CLIENT: Final = """
import asyncio, sys
from accord import connect
from accord.errors import AccordError

async def main():
    async with connect(sys.argv[1], revision="2025-11-25", timeout=120) as client:
        await client.ping()
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            if sys.argv[2] == "pages":
                async for tool in client.tools():
                    pass
            elif sys.argv[2] == "schema":
                await client.list_tools()
                await client.call_tool("x")
            elif sys.argv[2] == "calls":
                for _ in range(3):
                    await client.call_tool("x")
            else:
                await client.call_tool("x")
        except AccordError as error:
            print(type(error).__name__, str(error)[:150], flush=True)
        else:
            print("done", flush=True)

asyncio.run(main())
"""


class Server:
    """Speaks enough HTTP for a client to connect; an attack answers what comes afterwards."""

    def __init__(self, attack: "Attack") -> None:
        self.attack = attack
        self.requests = 0
        self.open = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.open += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = 0
                for line in head.lower().split(b"\r\n"):
                    if line.startswith(b"content-length:"):
                        length = int(line.split(b":")[1])
                body = await reader.readexactly(length)
                message = json.loads(body) if body else {}
                await self.answer(head, message, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self.open -= 1
            self.tasks.discard(task)
            writer.transport.abort()

    async def answer(self, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
        method = message.get("method") if isinstance(message, dict) else None
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "hostile", "version": "1"},
            }
            writer.write(plain(message["id"], result, session=True))
        elif method is None and not head.startswith(b"POST") and self.attack is not retry:
            writer.write(REFUSED)
        elif method == "ping" or (method or "").startswith("notifications/"):
            writer.write(plain(message.get("id"), {}))
        else:
            self.requests += 1
            await self.attack(self, head, message, writer)
        await sent(writer)


Attack = Callable[[Server, bytes, Any, asyncio.StreamWriter], Awaitable[None]]


def plain(id: Any, result: Any, *, session: bool = False) -> bytes:
    if id is None:
        return b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
    body = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    more = b"Mcp-Session-Id: s\r\n" if session else b""
    return (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%bContent-Length: %d\r\n\r\n%b"
        % (more, len(body), body)
    )


async def sent(writer: asyncio.StreamWriter) -> None:
    await writer.drain()
    if writer.is_closing():
        raise EOFError


STREAM: Final = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
REFUSED: Final = b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n"


async def event_ids(
    server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter
) -> None:
    """Name every event by a megabyte."""
    writer.write(STREAM)
    ping = b'data: {"jsonrpc":"2.0","method":"notifications/x"}\n\n'
    for number in range(2_000):
        writer.write(b"id: %d%b\n%b" % (number, b"x" * 1_000_000, ping))
        await sent(writer)


async def empty_lines(
    server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter
) -> None:
    """Send data lines without text."""
    writer.write(STREAM)
    while True:
        writer.write(b"data:\n" * 20_000)
        await sent(writer)


async def short_lines(
    server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter
) -> None:
    """Send data lines of two characters."""
    writer.write(STREAM)
    while True:
        writer.write(b"data: xy\n" * 20_000)
        await sent(writer)


async def questions(
    server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter
) -> None:
    """Ask without end, and take no answer."""
    if "method" not in message:
        await asyncio.sleep(3_600)
    writer.write(STREAM)
    number = 0
    while True:
        for _ in range(100):
            number += 1
            writer.write(b'data: {"jsonrpc":"2.0","id":%d,"method":"ping"}\n\n' % number)
        await sent(writer)


async def large_questions(
    server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter
) -> None:
    """Ask under names of a megabyte, and take no answer."""
    if "method" not in message:
        await asyncio.sleep(3_600)
    writer.write(STREAM)
    number = 0
    while True:
        number += 1
        name = b"%d%b" % (number, b"x" * 1_000_000)
        writer.write(b'data: {"jsonrpc":"2.0","id":"%b","method":"ping"}\n\n' % name)
        await sent(writer)


async def trailers(server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
    """End a response by trailers without end."""
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\n{}\r\n0\r\n"
    )
    number = 0
    while True:
        for _ in range(1_000):
            number += 1
            writer.write(b"a%d: b\r\n" % number)
        await sent(writer)


async def cookies(server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
    """Set cookies without end, one response after the other."""
    lines = b"".join(
        b"Set-Cookie: c%d-%d=%b\r\n" % (server.requests, n, b"x" * 1_000) for n in range(50)
    )
    location = b"Location: /mcp?%d\r\n" % server.requests
    writer.write(b"HTTP/1.1 307 No\r\n%b%bContent-Length: 0\r\n\r\n" % (lines, location))


async def retry(server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
    """End each stream at once, and ask to come back without delay."""
    writer.write(STREAM + b"retry: 0\nid: %d\ndata:\n\n" % server.requests)
    await sent(writer)
    raise EOFError


async def pages(server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
    """Send empty pages without end."""
    writer.write(plain(message["id"], {"tools": [], "nextCursor": f"c{server.requests}"}))


async def schema(server: Server, head: bytes, message: Any, writer: asyncio.StreamWriter) -> None:
    """Give a tool an output schema that takes forever to apply."""
    if message["method"] == "tools/list":
        definitions = {
            f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)
        } | {"a40": {"type": "object"}}
        output = {"type": "object", "$ref": "#/$defs/a0", "$defs": definitions}
        tool = {"name": "x", "inputSchema": {"type": "object"}, "outputSchema": output}
        writer.write(plain(message["id"], {"tools": [tool]}))
    else:
        writer.write(plain(message["id"], {"content": [], "structuredContent": {}}))


# The attack, what the client does, and what is bounded besides its memory.
ATTACKS: Final[dict[str, tuple[Attack, str, str]]] = {
    "event ids of 1 MB": (event_ids, "call", ""),
    "data lines without text": (empty_lines, "call", ""),
    "data lines of two characters": (short_lines, "call", ""),
    "questions, answers held": (questions, "call", "sockets"),
    "questions of 1 MB, answers held": (large_questions, "call", "sockets"),
    "trailers without end": (trailers, "call", ""),
    "cookies without end": (cookies, "calls", ""),
    "retry: 0": (retry, "call", "requests"),
    "empty pages": (pages, "pages", "end"),
    "doubling output schema": (schema, "schema", "end"),
}


async def attack(name: str) -> bool:
    """Run one attack and print its figures; false where one is over its limit."""
    behave, what, bound = ATTACKS[name]
    server = Server(behave)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0, limit=1 << 24)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/mcp"
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, url, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    loop = asyncio.get_running_loop()
    try:
        await loop.run_in_executor(None, process.stdout.readline)
        memory, requests = memory_of(process.pid), server.requests
        began, cpu = time.monotonic(), cpu_of(process.pid)
        process.stdin.write("go\n")
        process.stdin.flush()
        told = loop.run_in_executor(None, process.stdout.readline)
        most = sockets = 0.0
        limit = ENDING_SECONDS if bound == "end" else SECONDS
        while time.monotonic() - began < limit and not told.done():
            await asyncio.sleep(0.05)
            try:
                most = max(most, memory_of(process.pid) - memory)
                sockets = max(sockets, _sockets(process.pid))
            except (RuntimeError, OSError):  # it has ended
                break
        took = time.monotonic() - began
        cpu = cpu_of(process.pid) - cpu if process.poll() is None else 0.0
    finally:
        process.kill()
        process.wait()
        listening.close()
        for task in list(server.tasks):
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
    outcome = (await told).strip() or "still at it"
    figures = {"memory": (most, MEMORY_MB, "MB")}
    if bound == "sockets":
        figures["sockets"] = (sockets, SOCKETS, "")
    elif bound == "requests":
        figures["requests"] = ((server.requests - requests) / took, REQUESTS_PER_SECOND, "/s")
    elif bound == "end":
        figures["end"] = (took, ENDING_SECONDS, "s")
    print(f"{name} ({cpu:.1f} s CPU): {outcome[:120]}")
    for label, (value, allowed, unit) in figures.items():
        state = "ok" if value < allowed else "OVER"
        print(
            f"  {label:9} {value:8.1f} of {allowed} {unit:3} ratio {value / allowed:5.2f}  {state}"
        )
    return all(value < allowed for value, allowed, _ in figures.values())


def _sockets(pid: int) -> int:
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return found


async def main(names: list[str]) -> int:
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of writing to clients that left
    passed = [await attack(name) for name in names or ATTACKS]
    print(f"{sum(passed)} of {len(passed)} within their limits")
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
