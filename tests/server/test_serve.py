"""`await server.serve(...)`: a server as a part of a program that has an event loop already."""

import asyncio
import logging
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import Server, connect
from accord.errors import TransportError
from support.http_server import free_port
from support.waiting import LONG, in_loop, run, until


def desk(name: str = "desk", **settings: Any) -> Server[Any]:
    server = Server(name, **settings)

    @server.tool
    def greet() -> str:
        """Greet."""
        return f"hello from {name}"

    return server


async def listens(port: int) -> None:
    """Wait until a port accepts connections."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


async def greeting(port: int) -> str:
    async with connect(f"http://127.0.0.1:{port}/mcp") as client:
        return await client.call_tool("greet", result_type=str)


@in_loop
async def test_several_servers_share_a_loop_and_each_ends_when_it_is_cancelled() -> None:
    ports = [free_port(), free_port()]
    tasks = [
        asyncio.create_task(desk(name).serve("http", port=port))
        for name, port in zip(("one", "two"), ports, strict=True)
    ]
    for port in ports:
        await listens(port)
    assert await greeting(ports[0]) == "hello from one"
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection("127.0.0.1", ports[0])
    assert await greeting(ports[1]) == "hello from two"
    tasks[1].cancel()
    await asyncio.wait(tasks)


@in_loop
async def test_signals_and_logging_are_as_before() -> None:
    def state() -> tuple[object, ...]:
        logger = logging.getLogger("accord")
        handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
        return handlers, list(logger.handlers), logger.propagate

    before = state()
    port = free_port()
    task = asyncio.create_task(desk().serve("http", port=port))
    await listens(port)
    assert state()[0] == before[0]
    task.cancel()
    await asyncio.wait([task])
    assert state() == before


@in_loop
async def test_a_running_call_gets_the_grace_period_when_the_task_is_cancelled() -> None:
    server = Server("desk")
    begun, go = asyncio.Event(), asyncio.Event()

    @server.tool
    async def slow() -> str:
        """Wait."""
        begun.set()
        await go.wait()
        return "done"

    port = free_port()
    task = asyncio.create_task(server.serve("http", port=port, grace=LONG))
    await listens(port)
    async with connect(f"http://127.0.0.1:{port}/mcp") as client:
        call = asyncio.create_task(client.call_tool("slow", result_type=str))
        await begun.wait()
        task.cancel()
        await until(lambda: task.cancelling())
        go.set()
        assert await call == "done"
        await asyncio.wait([task])


def test_a_lifespan_that_fails_and_a_taken_port_are_raised() -> None:
    @asynccontextmanager
    async def lifespan(server: Server[None]) -> Any:
        raise OSError("no database")
        yield

    async def main() -> None:
        with pytest.raises(OSError, match="no database"):
            await desk(lifespan=lifespan).serve("http", port=free_port())
        port = free_port()
        task = asyncio.create_task(desk().serve("http", port=port))
        await listens(port)
        with pytest.raises(TransportError, match=f"cannot listen on 127.0.0.1:{port}"):
            await desk("other").serve("http", port=port)
        task.cancel()
        await asyncio.wait([task])

    run(main())


def test_a_lifespan_that_never_begins_can_be_cancelled() -> None:
    begun = asyncio.Event()

    @asynccontextmanager
    async def lifespan(server: Server[None]) -> Any:
        begun.set()
        await asyncio.Event().wait()
        yield

    async def main() -> None:
        task = asyncio.create_task(desk(lifespan=lifespan).serve("http", port=0, grace=0))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


@pytest.mark.parametrize(("transport", "path"), [("streamable-http", "/mcp"), ("sse", "/sse")])
@in_loop
async def test_the_names_of_other_libraries_for_http_are_taken(transport: Any, path: str) -> None:
    port = free_port()
    task = asyncio.create_task(desk().serve(transport, port=port))
    await listens(port)
    async with connect(f"http://127.0.0.1:{port}{path}") as client:
        assert await client.call_tool("greet", result_type=str) == "hello from desk"
    task.cancel()
    await asyncio.wait([task])


def test_an_unknown_transport_is_refused_in_a_loop() -> None:
    with pytest.raises(ValueError, match="'pigeon'"):
        run(Server("desk").serve("pigeon"))  # type: ignore[arg-type]


PROGRAM = """
import asyncio, os, sys
from accord import Server

server = Server("desk")

@server.tool
def greet() -> str:
    "Greet."
    print("printed in a tool")
    return "hello"

async def main():
    await server.serve("stdio")
    print("after", os.get_blocking(0), os.get_blocking(1))

asyncio.run(main())
print("the end", sys.stdin.read() == "")
"""

CANCELLED = """
import asyncio, sys
from contextlib import asynccontextmanager
from accord import Server

started = asyncio.Event()

@asynccontextmanager
async def lifespan(server):
    started.set()
    yield

async def main():
    task = asyncio.create_task(Server("desk", lifespan=lifespan).serve("stdio"))
    await started.wait()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    print("cancelled", task.cancelled(), flush=True)
    print("read", input())

asyncio.run(main())
"""


def program(source: str, data: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", source],
        input=data,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_over_stdio_it_returns_when_the_input_ends_and_gives_the_descriptors_back() -> None:
    opening = (
        '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        '"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}\n'
        '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet"}}\n'
    )
    done = program(PROGRAM, opening)
    first, second, *printed = done.stdout.splitlines()
    assert ('"id":0' in first, '"id":1' in second) == (True, True), done.stderr
    assert printed == ["after True True", "the end True"]
    assert (done.returncode, done.stderr) == (0, "printed in a tool\n")


def test_over_stdio_a_cancelled_task_gives_the_descriptors_back() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CANCELLED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "cancelled True\n"
        assert process.communicate("for the program\n", timeout=120) == (
            "read for the program\n",
            None,
        )
