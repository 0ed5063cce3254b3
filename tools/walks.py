"""Follow eight requests through the code and count what they pass: calls, functions, files, layers.

    .venv/bin/python tools/walks.py            a table
    .venv/bin/python tools/walks.py --paths    the functions in order, too

A crossing is a call from one layer into another. docs/design.md describes five of the walks.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import accord
from accord import Context, Server, connect
from accord.http.server.running import serve_asgi
from accord.http.server.sockets import listen_on

SOURCES = Path(accord.__file__).parents[1]
PACKAGES = tuple(str(SOURCES / name) + os.sep for name in ("accord", "accord_tools"))
TRACE = Path(__file__).parents[1] / "examples" / "traces" / "2025-06-18-clean.jsonl"
STDIO_SERVER = """
import asyncio, json, sys
sys.path.insert(0, {tools!r})
from walks import Profile
from accord import Server

server, profile = Server("desk"), Profile()

@server.tool
async def add(a: int, b: int) -> int:
    return a + b

@server.tool(inline=True)
def begin() -> None:
    profile.begin()

@server.tool(inline=True)
def end() -> str:
    profile.end()
    return json.dumps(profile.calls)

server.run()
"""
Call = tuple[str, str]  # file within the package, function


class Profile:
    """Notes every call of a function of accord."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def begin(self) -> None:
        sys.setprofile(self._note)

    def end(self) -> None:
        sys.setprofile(None)

    def _note(self, frame: Any, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGES):
            if code.co_name.startswith("<"):
                return
            path = Path(code.co_filename).relative_to(SOURCES).as_posix()
            self.calls.append((path.removeprefix("accord/"), code.co_qualname))


class Walk(NamedTuple):
    """One request, as the calls that it made."""

    name: str
    calls: list[Call]

    def row(self) -> str:
        files = [path for path, _ in self.calls]
        layers = [_layer(path) for path in files]
        crossings = sum(one != other for one, other in itertools.pairwise(layers))
        counts = (len(self.calls), len(set(self.calls)), len(set(files)), len(set(layers)))
        return f"| {self.name} | {' | '.join(map(str, counts))} | {crossings} |"


def _layer(path: str) -> str:
    return path.removeprefix("accord_tools/").partition("/")[0].removesuffix(".py")


async def _over_stdio() -> list[Call]:
    """Follow a tools/call of an async tool through a server on stdio, from bytes to bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "desk.py"
        path.write_text(STDIO_SERVER.format(tools=str(Path(__file__).parent)))
        async with connect([sys.executable, str(path)]) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            await client.call_tool("begin")
            await client.call_tool("add", {"a": 1, "b": 2})
            result = await client.call_tool("end")
    calls = [tuple(each) for each in json.loads(result.content[0].text)]
    starts = [at for at, (_, name) in enumerate(calls) if name.endswith("data_received")]
    return calls[starts[0] : starts[1]]


async def _over_http() -> list[Call]:
    """Follow a POST that is answered by a stream: progress, a log message, the result."""
    server = Server("desk")

    @server.tool
    async def count(ctx: Context[Any]) -> int:
        """Count to two."""
        await ctx.progress(1, 2)
        await ctx.log("info", "half way")
        return 2

    app = server.asgi()
    profile = Profile()
    session = ""

    async def post(message: dict[str, Any]) -> None:
        nonlocal session
        headers = {
            "host": "127.0.0.1:8000",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": "2025-06-18",
            **({"mcp-session-id": session} if session else {}),
        }
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            return await asyncio.Future()

        async def send(message: dict[str, Any]) -> None:
            nonlocal session
            for name, value in message.get("headers", ()):
                if name.lower() == b"mcp-session-id":
                    session = value.decode()

        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "scheme": "http",
            "http_version": "1.1",
            "server": ("127.0.0.1", 8000),
            "client": ("127.0.0.1", 50000),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        await app(scope, receive, send)

    opening = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "walk", "version": "1"},
    }
    call = {"name": "count", "arguments": {}, "_meta": {"progressToken": 1}}
    async with _lifespan(app):
        await post({"id": 0, "method": "initialize", "params": opening})
        await post({"method": "notifications/initialized"})
        await post({"id": 1, "method": "tools/call", "params": call})
        profile.begin()
        await post({"id": 2, "method": "tools/call", "params": call})
        profile.end()
    return profile.calls


async def _on_listener(revision: str, **options: Any) -> list[Call]:
    """Follow a tools/call of an async tool on the listener, from bytes to bytes."""
    server = Server("desk")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    app = server.asgi(**options)
    profile = Profile()
    sockets = listen_on(("127.0.0.1:0",))
    address = sockets[0].getsockname()
    async with serve_asgi(app, sockets, app.options):
        reader, writer = await asyncio.open_connection(*address)
        session = ""

        async def post(message: dict[str, Any]) -> None:
            nonlocal session
            body = json.dumps({"jsonrpc": "2.0", **message}).encode()
            writer.write(_head(message, revision, address[1], session, len(body)) + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            for line in answer.decode().splitlines():
                name, _, value = line.partition(": ")
                if name == "content-length":
                    await reader.readexactly(int(value))
                elif name == "mcp-session-id":
                    session = value

        call: dict[str, Any] = {"name": "add", "arguments": {"a": 1, "b": 2}}
        if revision == "2026-07-28":
            call["_meta"] = {
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientInfo": {"name": "walk", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
        else:
            opening = {**_OPENING, "protocolVersion": revision}
            await post({"id": 0, "method": "initialize", "params": opening})
            await post({"method": "notifications/initialized"})
        for number in range(1, 4):  # a head that repeats is recognised
            await post({"id": number, "method": "tools/call", "params": call})
        profile.begin()
        await post({"id": 4, "method": "tools/call", "params": call})
        profile.end()
        writer.close()
        await app.finish()
    await app.stop()
    names = [name for _, name in profile.calls]
    return profile.calls[names.index("HttpConnection.data_received") :]


_OPENING = {"capabilities": {}, "clientInfo": {"name": "walk", "version": "1"}}


def _head(message: dict[str, Any], revision: str, port: int, session: str, length: int) -> bytes:
    """Return the head of a POST."""
    lines = [
        "POST /mcp HTTP/1.1",
        f"host: 127.0.0.1:{port}",
        "accept: application/json, text/event-stream",
        "content-type: application/json",
        f"mcp-protocol-version: {revision}",
        f"content-length: {length}",
    ]
    if session:
        lines.append(f"mcp-session-id: {session}")
    if revision == "2026-07-28":
        lines += [f"mcp-method: {message['method']}", f"mcp-name: {message['params']['name']}"]
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


async def _of_session() -> list[Call]:
    return await _on_listener("2025-11-25")


async def _stateless() -> list[Call]:
    return await _on_listener("2026-07-28")


async def _with_store() -> list[Call]:
    """Follow a request of a session that is kept in a store, and cached in this process."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/desk.db"
        return await _on_listener("2025-11-25", store=store, store_keys="none")


@contextlib.asynccontextmanager
async def _lifespan(app: Any) -> Any:
    received: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    started = asyncio.Event()

    async def send(message: dict[str, str]) -> None:
        if message["type"] == "lifespan.startup.complete":
            started.set()

    task = asyncio.create_task(app({"type": "lifespan"}, received.get, send))
    await received.put({"type": "lifespan.startup"})
    await started.wait()
    yield
    await received.put({"type": "lifespan.shutdown"})
    await task


async def _oauth() -> list[Call]:
    """Follow the client from a refusal with 401 to the first answer."""
    from accord.testing import unattended

    profile = Profile()
    with _protected_server() as url:
        profile.begin()
        async with connect(url, auth=unattended()) as client:
            profile.end()
            await client.ping()
    names = [at for at, (_, name) in enumerate(profile.calls) if name.endswith(".challenged")]
    # What the handshake does afterwards is not part of the walk.
    return [each for each in profile.calls[names[0] :] if _layer(each[0]) in ("auth", "http")]


@contextlib.contextmanager
def _protected_server() -> Iterator[str]:
    code = (
        "from accord import Server\n"
        "from accord.auth import AuthorizationServer\n"
        "auth = AuthorizationServer(auto_approve='ada')\n"
        "Server('notes', auth=auth).run('http', port=0)\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=folder, stderr=subprocess.PIPE, text=True
        )
        try:
            for line in process.stderr:
                if "http://" in line:
                    yield "http://" + line.partition("http://")[2].split()[0].rstrip(";,")
                    break
        finally:
            process.terminate()
            process.wait(30)
            process.stderr.close()


async def _trace() -> list[Call]:
    """Follow one record of a recording through a monitor."""
    from accord.protocol.monitor import Monitor
    from accord.trace import read

    monitor, profile = Monitor(), Profile()
    with TRACE.open("rb") as file:
        records = list(read(file))
    for record in records:
        if b'"tools/call"' in bytes(record.message or b"") and monitor.revision:
            profile.begin()
            monitor.observe(record)
            profile.end()
            break
        monitor.observe(record)
    return profile.calls


async def _check() -> list[Call]:
    """Follow a check of one requirement of a server in this process's checker."""
    from accord.cli.main import main

    profile = Profile()
    server = Path(__file__).parents[1] / "examples" / "ten_lines.py"
    words = ["check", "server", str(server), "--revision", "2025-06-18", "--only", "ping"]

    def run() -> None:
        profile.begin()
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            main([*words, "--quiet"])
        profile.end()

    await asyncio.to_thread(run)
    return [each for each in profile.calls if _layer(each[0]) == "check"]


WALKS: dict[str, Callable[[], Awaitable[list[Call]]]] = {
    "tools/call over stdio, async tool": _over_stdio,
    "tools/call on the listener, 2025-11-25": _of_session,
    "tools/call on the listener, stateless (2026-07-28)": _stateless,
    "tools/call on the listener, 2025-11-25 with a SQLite store": _with_store,
    "POST answered by a stream (progress, log, result)": _over_http,
    "OAuth, 401 to the first answer (client: auth and http)": _oauth,
    "one record of `check trace`": _trace,
    "`check server --only ping`, within the checker": _check,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", action="store_true", help="print every call in order")
    options = parser.parse_args()
    print("| walk | calls | functions | files | layers | crossings |\n|---|---|---|---|---|---|")
    for name, follow in WALKS.items():
        walk = Walk(name, asyncio.run(follow()))
        print(walk.row(), flush=True)
        if options.paths:
            for path, function in walk.calls:
                print(f"    {path} {function}")


if __name__ == "__main__":
    main()
