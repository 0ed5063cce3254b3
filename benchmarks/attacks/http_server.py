"""Attacks on a server over HTTP: what each costs in memory, and how long others wait meanwhile.

    python benchmarks/attacks/http_server.py                 all of them, some 5 s each
    python benchmarks/attacks/http_server.py trailers flood  those whose names contain a word

A process runs `server.run("http")`. Another pings it all the time on a connection of its own, and
this one attacks. Growth is the largest resident memory above that of the server before the attack;
both figures are shown against what is allowed. Exit codes: 0 all within bounds, 1 something over.
"""

import argparse
import asyncio
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Final

SECONDS: Final = 5.0
GROWTH_MOST: Final = 64.0  # MB
P99_MOST: Final = 100.0  # ms
MEGABYTE: Final = 1 << 20
PATIENCE: Final = 30.0

SERVED: Final = """
import asyncio
from accord import Context, Server

server = Server("attacked")


@server.tool
async def tell(ctx: Context, count: int, size: int) -> str:
    text = "x" * size
    for step in range(count):
        await ctx.progress(step + 1, message=text)
        await asyncio.sleep(0)
    return "done"


server.run("http", port=0)
"""
ACCEPT: Final = "application/json, text/event-stream"
INFO: Final = {"name": "attacker", "version": "1"}
OPENING: Final = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": INFO}


def message(method: str, params: object = None, id: int | None = 1) -> bytes:
    """Encode a request, or a notification where there is no id."""
    found: dict[str, object] = {"jsonrpc": "2.0", "method": method}
    if id is not None:
        found["id"] = id
    if params is not None:
        found["params"] = params
    return json.dumps(found).encode()


INITIALIZE: Final = message("initialize", OPENING)
INITIALIZED: Final = message("notifications/initialized", id=None)


def head(*lines: str, method: str = "POST", kind: str = "application/json") -> bytes:
    """Encode the head of a request to the endpoint."""
    usual = (f"{method} /mcp HTTP/1.1", "Host: localhost", f"Accept: {ACCEPT}")
    return "\r\n".join([*usual, f"Content-Type: {kind}", *lines, "", ""]).encode()


def post(body: bytes, session: str | None = None) -> bytes:
    """Encode a whole POST."""
    named = () if session is None else (f"Mcp-Session-Id: {session}",)
    return head(f"Content-Length: {len(body)}", *named) + body


class Wire:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[bytes, bytes]:
        """Read one response with a length."""
        found = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", found)
        return found, await self.reader.readexactly(int(length[1]) if length else 0)

    async def open(self) -> str:
        """Begin a session; returns its id."""
        await self.send(post(INITIALIZE))
        found, _ = await self.answer()
        named = re.search(rb"mcp-session-id: (\S+)", found)
        if named is None:
            raise ConnectionError("no session")
        session = named[1].decode()
        await self.send(post(INITIALIZED, session))
        await self.answer()
        return session


@contextlib.asynccontextmanager
async def connected(port: int):  # type: ignore[no-untyped-def]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


# -- the attacks: each runs until it is cancelled


async def again_and_again(width: int, port: int, once: Callable[[Wire], Awaitable[None]]) -> None:
    """Do the same on so many connections at once, and again when the server ends one."""

    async def one() -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                async with connected(port) as wire:
                    await once(wire)
            await asyncio.sleep(0.001)

    await asyncio.gather(*(one() for _ in range(width)))


async def upgrade(port: int) -> None:
    """Ask for an upgrade, and send a request as the body."""
    smuggled = head(method="DELETE")

    async def once(wire: Wire) -> None:
        length = f"Content-Length: {len(smuggled)}"
        await wire.send(head("Connection: Upgrade", "Upgrade: anything", length))
        await asyncio.sleep(0.01)
        await wire.send(smuggled)
        await wire.reader.read(100)

    await again_and_again(8, port, once)


async def _trailers(port: int, kind: str) -> None:
    async def once(wire: Wire) -> None:
        await wire.send(head("Transfer-Encoding: chunked", kind=kind) + b"2\r\n{}\r\n0\r\n")
        while True:
            await wire.send(b"a1: b\r\n" * 10_000)

    await again_and_again(4, port, once)


async def trailers(port: int) -> None:
    """Send trailers without end."""
    await _trailers(port, "application/json")


async def trailers_after_refusal(port: int) -> None:
    """Send trailers without end with a request that is refused by its head."""
    await _trailers(port, "text/plain")


async def slowloris_after_refusal(port: int) -> None:
    """Have requests refused before the end of their bodies, and keep the connections."""

    async def once(wire: Wire) -> None:
        await wire.send(head("Content-Length: 1000", kind="text/plain") + b"{")
        await wire.reader.read()
        await asyncio.sleep(SECONDS)

    await again_and_again(400, port, once)


async def half_sent_bodies(port: int) -> None:
    """Send 60 bodies of 16 MB but for their ends."""
    async with connected(port) as wire:
        session = await wire.open()
    named = f"Mcp-Session-Id: {session}"
    chunk = b" " * MEGABYTE

    async def once(wire: Wire) -> None:
        await wire.send(head(f"Content-Length: {16 * MEGABYTE}", named))
        with contextlib.suppress(OSError):
            for _ in range(15):
                await wire.send(chunk)
            await wire.reader.read()
        await asyncio.sleep(SECONDS)

    await again_and_again(60, port, once)


async def empty_arrays(port: int) -> None:
    """Send 16 MB of empty arrays."""
    async with connected(port) as wire:
        session = await wire.open()
    body = b"[" + b"[]," * ((16 * MEGABYTE - 16) // 3) + b"[]]"

    async def once(wire: Wire) -> None:
        await wire.send(post(body, session))
        await wire.reader.read()

    await again_and_again(2, port, once)


async def session_flood(port: int) -> None:
    """Open sessions, use each once, and leave them."""

    async def once(wire: Wire) -> None:
        while True:
            await wire.open()

    await again_and_again(4, port, once)


async def _call(wire: Wire) -> None:
    session = await wire.open()
    arguments = {"count": 800, "size": 10_000}
    params = {"name": "tell", "arguments": arguments, "_meta": {"progressToken": 1}}
    await wire.send(post(message("tools/call", params), session))


async def left_streams(port: int) -> None:
    """Have each call send 8 MB, and leave after the first event."""

    async def once(wire: Wire) -> None:
        await _call(wire)
        await wire.reader.readuntil(b"data:")

    await again_and_again(50, port, once)


async def unread_streams(port: int) -> None:
    """Have each call send 8 MB, and read nothing."""

    async def once(wire: Wire) -> None:
        await _call(wire)
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(2 * SECONDS)

    await again_and_again(50, port, once)


async def nothing(port: int) -> None:
    """Show what the figures are without an attack."""
    await asyncio.sleep(2 * SECONDS)


ATTACKS: Final = (
    nothing,
    upgrade,
    trailers,
    trailers_after_refusal,
    slowloris_after_refusal,
    half_sent_bodies,
    empty_arrays,
    session_flood,
    left_streams,
    unread_streams,
)


# -- measuring


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return int(found[1]) / 1024


class Peak:
    """Watches the memory of a process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._before = self._most = memory_of(pid)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._is_over.wait(0.02):
            self._most = max(self._most, memory_of(self._pid))

    def growth(self) -> float:
        self._is_over.set()
        self._thread.join()
        return self._most - self._before


@contextlib.contextmanager
def serving() -> Iterator[tuple[int, int]]:
    """Run the server as a process; yields its port and its process id."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "served.py"
        script.write_text(SERVED)
        with open(Path(folder) / "log", "wb") as log:
            process = subprocess.Popen([sys.executable, str(script)], stderr=log)
        try:
            end = time.monotonic() + PATIENCE
            while True:
                said = (Path(folder) / "log").read_text()
                found = re.search(r"http://\S+?:(\d+)/mcp", said)
                if found is not None:
                    break
                if process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server did not start: {said}")
                time.sleep(0.02)
            yield int(found[1]), process.pid
        finally:
            process.kill()
            process.wait()


async def ping(port: int, seconds: float) -> list[float]:
    """Ping the server for some time; returns how long each took, in ms, answered or not."""
    took: list[float] = []
    end = time.monotonic() + seconds
    session: str | None = None
    while time.monotonic() < end:
        start = time.perf_counter()
        try:
            async with asyncio.timeout(seconds), connected(port) as wire:
                session = session or await wire.open()
                asking = post(message("ping"), session)
                while time.monotonic() < end:
                    start = time.perf_counter()
                    await wire.send(asking)
                    _, body = await wire.answer()
                    took.append((time.perf_counter() - start) * 1000)
                    if b"result" not in body:
                        raise RuntimeError(f"a ping was answered by {body[:200]!r}")
                    await asyncio.sleep(0.005)
        except (OSError, asyncio.IncompleteReadError):
            took.append((time.perf_counter() - start) * 1000)
    return took


def p99(took: list[float]) -> float:
    return sorted(took)[min(int(len(took) * 0.99), len(took) - 1)]


def measure(attack: Callable[[int], Awaitable[None]]) -> tuple[float, float]:
    """Run one attack; returns the growth in MB and the p99 of another caller's pings in ms."""
    with serving() as (port, pid):
        # Memory that is allocated once is not growth.
        asyncio.run(ping(port, 0.5))
        peak = Peak(pid)
        with subprocess.Popen(
            [sys.executable, __file__, "--ping", str(port)], stdout=subprocess.PIPE
        ) as pinging:

            async def attacking() -> None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS):
                        await attack(port)

            asyncio.run(attacking())
            said, _ = pinging.communicate(timeout=2 * PATIENCE)
        return peak.growth(), p99(json.loads(said))


def main() -> int:
    parser = argparse.ArgumentParser(description="attack a server over HTTP")
    parser.add_argument("words", nargs="*", help="only attacks whose names contain one of these")
    parser.add_argument("--ping", type=int, metavar="PORT", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ping is not None:
        print(json.dumps(asyncio.run(ping(given.ping, SECONDS))))
        return 0
    print(f"{'attack':<26}{'growth MB':>10}{f'of {GROWTH_MOST:g}':>8}", end="")
    print(f"{'p99 ms':>10}{f'of {P99_MOST:g}':>8}")
    is_over = False
    for attack in ATTACKS:
        name = attack.__name__.replace("_", " ")
        if given.words and not any(word in name for word in given.words):
            continue
        growth, slow = measure(attack)
        over = growth > GROWTH_MOST or slow > P99_MOST
        is_over = is_over or over
        print(f"{name:<26}{growth:>10.1f}{growth / GROWTH_MOST:>8.2f}", end="")
        print(f"{slow:>10.1f}{slow / P99_MOST:>8.2f}{'  over' if over else ''}", flush=True)
    return int(is_over)


if __name__ == "__main__":
    sys.exit(main())
