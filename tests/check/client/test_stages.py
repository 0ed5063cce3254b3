"""The stages on which a server is played: launched bridges, and HTTP in both forms."""

import asyncio
import contextlib
import json
import signal
import sys

import aiohttp
import pytest

from accord.check.fake_server.http_transport import FakeHttpTransport, RawResponse
from accord.check.fake_server.server import FakeServer
from accord.check.fake_server.stdio_transport import FakeStdioTransport
from accord.testing import run_in_virtual_time

OPENING = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LISTING = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
PATIENCE = 60


async def launched(stage):
    return await asyncio.create_subprocess_exec(
        *stage.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def asked(process, message):
    process.stdin.write(json.dumps(message).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        return json.loads(await process.stdout.readline())


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


def test_a_bridge_joins_the_client_to_the_actor_and_ends_with_its_input():
    async def scene():
        actor = FakeServer("2025-06-18")
        async with FakeStdioTransport(actor) as stage:
            process = await launched(stage)
            opened = await asked(process, OPENING)
            assert opened["result"]["protocolVersion"] == "2025-06-18"
            assert "tools" in (await asked(process, LISTING))["result"]
            process.stdin.close()
            async with asyncio.timeout(PATIENCE):
                assert await process.wait() == 0
            await until(lambda: "gone" in actor.events)
        assert actor.events == ["input ended", "gone"]
        assert [each["method"] for each in actor.lines[0].received] == ["initialize", "tools/list"]

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_stubborn_bridge_tells_of_signals_and_stays():
    async def scene():
        actor = FakeServer()
        actor.relay_commands = ("stubborn",)
        async with FakeStdioTransport(actor) as stage:
            process = await launched(stage)
            await asked(process, OPENING)
            process.stdin.close()
            await until(lambda: actor.has_ended_input)
            process.send_signal(signal.SIGTERM)
            await until(lambda: actor.signals == [signal.SIGTERM])
            assert process.returncode is None
            process.kill()
            await process.wait()
            await until(lambda: "gone" in actor.events)

    asyncio.run(scene())


def test_what_is_no_line_of_json_is_kept_apart():
    async def scene():
        actor = FakeServer()
        async with FakeStdioTransport(actor) as stage:
            process = await launched(stage)
            process.stdin.write(b"Content-Length: 3\n\n")
            await asked(process, OPENING)
            process.stdin.close()
            await process.wait()
        assert actor.odd == [b"Content-Length: 3"]

    asyncio.run(scene())


def test_a_stranger_is_not_let_onto_the_stage():
    async def scene():
        actor = FakeServer()
        async with FakeStdioTransport(actor) as stage:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(stage.command[-2]))
            writer.write(b"not-the-key data 1\n")
            async with asyncio.timeout(PATIENCE):
                assert await reader.read() == b""
            writer.close()
        assert actor.lines == []

    asyncio.run(scene())


class Posting:
    """A plain HTTP client of a stage."""

    def __init__(self, http, url):
        self._http = http
        self._url = url
        self.session = None

    def post(self, message, **more):
        heads = {"Accept": "application/json, text/event-stream", **more}
        if self.session is not None:
            heads["Mcp-Session-Id"] = self.session
        return self._http.post(self._url, json=message, headers=heads)

    async def open(self):
        async with self.post(OPENING) as response:
            self.session = response.headers["Mcp-Session-Id"]
            opened = await response.read()
        async with self.post(READY) as response:
            assert response.status == 202
        return opened

    def get(self, **more):
        heads = {"Accept": "text/event-stream", "Mcp-Session-Id": self.session, **more}
        return self._http.get(self._url, headers=heads)


def staged(actor, scene):
    async def run():
        async with FakeHttpTransport(actor) as stage, aiohttp.ClientSession() as http:
            await scene(stage, Posting(http, stage.url))

    run_in_virtual_time(run())


def test_sessions_begin_end_and_are_forgotten():
    actor = FakeServer()

    async def scene(stage, client):
        await client.open()
        async with client.post(LISTING) as response:
            assert len((await response.json())["result"]["tools"]) == 2
        stage.end_session(actor.lines[0])
        async with client.post(LISTING) as response:
            assert response.status == 404
        assert [each.status for each in stage.requests] == [200, 202, 200, 404]

    staged(actor, scene)


def test_a_stream_that_was_dropped_is_resumed_where_it_ended():
    class Drops(FakeServer):
        streams = True
        retry = 10

        async def before_first_answer(self, line, request):
            log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
            await self.say(line, log, beside=request)
            await asyncio.sleep(0.02)
            line.carrier.drop(request["id"])

    async def scene(stage, client):
        await client.open()
        got = b""
        async with client.post(LISTING) as response:
            with contextlib.suppress(aiohttp.ClientError):
                async for chunk in response.content.iter_any():
                    got += chunk
        assert b"retry: 10" in got
        assert b'"result"' not in got
        last = got.partition(b"id: ")[2].partition(b"\n")[0].decode()
        async with client.get(**{"Last-Event-ID": last}) as response:
            assert b'"id":2' in await response.read()

    staged(Drops(), scene)


def test_a_play_may_answer_out_of_turn():
    class Refuses(FakeServer):
        def http(self, asked):
            return RawResponse(418, {"x-why": "a check"}) if asked.name == "tools/list" else None

    async def scene(stage, client):
        await client.open()
        async with client.post(LISTING) as response:
            assert (response.status, response.headers["x-why"]) == (418, "a check")

    staged(Refuses(), scene)


def test_a_server_of_old_names_its_endpoint_and_refuses_the_newer_form():
    class Old(FakeServer):
        is_older = True
        refusal = 404

    async def scene(stage, client):
        async with client.post(OPENING) as response:
            assert response.status == 404
        client.session = ""
        async with client.get() as response:
            first = await response.content.readuntil(b"\n\n")
            assert first.startswith(b"event: endpoint\ndata: /messages?session_id=")

    staged(Old(), scene)


def test_two_streams_at_once_are_counted():
    class Streams(FakeServer):
        streams = True

    async def scene(stage, client):
        await client.open()
        async with client.get(), client.get():
            assert stage.most_streams == 2

    staged(Streams(), scene)
