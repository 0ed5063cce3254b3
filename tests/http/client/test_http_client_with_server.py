"""A client over HTTP and our own server, over real sockets, in every form."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass

import pytest
import uvicorn
import uvloop

from accord import Context, Server
from accord.client import connect
from accord.http.client.sender import HttpClientOptions
from accord.http.server.app import HttpApp
from accord.http.settings import read_http_settings
from accord.protocol.revisions import REVISIONS
from accord.types import TextContent
from support.waiting import LONG, in_loop, until

HANDSHAKE = [row.id for row in REVISIONS.values() if row.handshake]
ELICITS = "2025-06-18"


@dataclass
class Seat:
    row: int


def make_server(begun, gate):
    server = Server("desk")

    @server.tool
    async def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    async def count(ctx: Context, to: int) -> str:
        """Count."""
        for number in range(to):
            await ctx.progress(number + 1, to)
        return "counted"

    @server.tool
    async def seat(ctx: Context) -> str:
        """Ask."""
        answer = await ctx.elicit("Which row?", Seat)
        return f"row {answer.row}"

    @server.tool
    async def sleep() -> str:
        """Sleep until the gate opens."""
        begun.append(1)
        await gate.wait()
        return "awake"

    @server.resource("note://a")
    async def note() -> str:
        """Note."""
        return "a note"

    return server


class Running:
    """The server on a port that stays the same when it is started again."""

    def __init__(self, *, grace=0.5, **options):
        self.options = read_http_settings({"sse": True, "grace": grace, "retry": 10, **options})
        self.port = 0
        self.begun = []
        self.gate = asyncio.Event()

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def start(self):
        self.app = HttpApp(make_server(self.begun, self.gate)._core, self.options)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", self.port))
        self.port = self.socket.getsockname()[1]
        longest = max(1, int(self.options["grace"]))
        config = uvicorn.Config(self.app, log_level="error", timeout_graceful_shutdown=longest)
        self.uvicorn = uvicorn.Server(config)
        with contextlib.suppress(AttributeError):
            self.uvicorn.capture_signals = contextlib.nullcontext
        self.task = asyncio.create_task(self.uvicorn.serve([self.socket]))
        await until(lambda: self.uvicorn.started)

    async def stop(self):
        self.uvicorn.should_exit = True
        await self.task
        self.socket.close()

    def url(self, path="/mcp"):
        return f"http://127.0.0.1:{self.port}{path}"


FORMS = [("/mcp", "auto"), ("/mcp", "stream"), ("/sse", "auto")]
in_every_form = pytest.mark.parametrize(
    ("path", "answers"), FORMS, ids=["json", "stream", "two endpoints"]
)


@in_every_form
@pytest.mark.parametrize("revision", HANDSHAKE)
@in_loop
async def test_calls_and_progress_work_in_every_form_and_revision(path, answers, revision):
    got = []
    async with (
        Running(answers=answers) as server,
        connect(server.url(path), revision=revision) as client,
    ):
        assert client.revision == revision
        sums = [client.call_tool("add", {"a": n, "b": 1}, result_type=int) for n in range(20)]
        assert await asyncio.gather(*sums) == [n + 1 for n in range(20)]
        result = await client.call_tool("count", {"to": 5}, on_progress=got.append)
        assert result.content == [TextContent("counted")]
        assert [each.progress for each in got] == [1, 2, 3, 4, 5]
        assert (await client.read_resource("note://a")).contents[0].text == "a note"


@in_every_form
@in_loop
async def test_a_server_that_asks_during_a_call_gets_its_answer(path, answers):
    async with (
        Running(answers=answers) as server,
        connect(server.url(path), revision=ELICITS, on_elicit=lambda _: {"row": 7}) as client,
    ):
        results = await asyncio.gather(*(client.call_tool("seat") for _ in range(10)))
        assert all(result.content == [TextContent("row 7")] for result in results)


@in_every_form
def test_it_is_the_same_on_uvloop(path, answers):
    async def main():
        got = []
        async with (
            Running(answers=answers) as server,
            connect(server.url(path), on_elicit=lambda _: {"row": 7}) as client,
        ):
            result = await client.call_tool("count", {"to": 2}, on_progress=got.append)
            assert result.content == [TextContent("counted")]
            assert len(got) == 2
            assert (await client.call_tool("seat")).content == [TextContent("row 7")]
            await server.stop()
            await server.start()
            assert await client.call_tool("add", {"a": 1, "b": 2}, result_type=int) == 3

    async def bounded():
        await asyncio.wait_for(main(), 3 * LONG)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(bounded())


@in_every_form
@in_loop
async def test_a_restart_costs_no_call_that_comes_after_it(path, answers):
    renewed = []
    async with (
        Running(answers=answers) as server,
        connect(
            server.url(path), revision="2025-11-25", on_renewed=lambda: renewed.append(1)
        ) as client,
    ):
        await client.call_tool("add", {"a": 1, "b": 1})
        await server.stop()
        calls = [
            asyncio.create_task(client.call_tool("add", {"a": n, "b": 1}, result_type=int))
            for n in range(50)
        ]
        await asyncio.sleep(0.2)  # clock: the server is away for some attempts
        await server.start()
        assert await asyncio.gather(*calls) == [n + 1 for n in range(50)]
        await until(lambda: renewed)
        assert renewed == [1]
        assert len(server.app.sessions) == 1


@in_loop
async def test_a_restart_in_the_middle_of_calls_costs_none():
    renewed, done = [], []
    async with (
        Running() as server,
        connect(
            server.url(), revision="2025-11-25", on_renewed=lambda: renewed.append(1)
        ) as client,
    ):

        async def call(number):
            for step in range(10):
                arguments = {"a": number, "b": step}
                total = await client.call_tool("add", arguments, result_type=int)
                assert total == number + step
                done.append(total)

        calls = [asyncio.create_task(call(number)) for number in range(50)]
        await until(lambda: len(done) > 100)
        await server.stop()
        await server.start()
        await asyncio.gather(*calls)
        assert renewed == [1]
        assert len(server.app.sessions) == 1


@in_loop
async def test_calls_under_way_when_the_server_stops_are_finished_by_it():
    # The server would wait for a listening stream, too.
    options = HttpClientOptions(listen=False)
    async with (
        Running(grace=LONG) as server,
        connect(server.url(), http=options) as client,
    ):
        calls = [asyncio.create_task(client.call_tool("sleep")) for _ in range(10)]
        await until(lambda: len(server.begun) == 10)
        stopping = asyncio.create_task(server.stop())
        await until(lambda: not server.uvicorn.servers[0].is_serving())
        server.gate.set()
        await stopping
        results = await asyncio.gather(*calls)
        assert all(result.content == [TextContent("awake")] for result in results)
        await server.start()
        await client.ping()


@in_loop
async def test_closing_the_client_ends_its_session_on_the_server():
    async with Running() as server:
        async with connect(server.url(), revision="2025-11-25") as client:
            await client.ping()
            assert len(server.app.sessions) == 1
        await until(lambda: not server.app.sessions)


@in_loop
async def test_the_path_with_a_slash_leads_to_the_same_place():
    options = HttpClientOptions(listen=False)
    async with Running() as server, connect(server.url("/mcp/"), http=options) as client:
        await client.ping()
