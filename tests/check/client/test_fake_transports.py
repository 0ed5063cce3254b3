"""The transports of fake servers: launched relays, Streamable HTTP, and HTTP with SSE."""

import asyncio
import contextlib
import json
import signal
import sys

import aiohttp
import pytest

from accord.testing import run_in_virtual_time
from accord_tools.check.fake_server.server import FakeServer
from accord_tools.check.fake_server.transports import (
    CannedResponse,
    FakeHttpTransport,
    FakeStdioTransport,
)
from support.running import on_a_loop

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


async def launched(transport):
    return await asyncio.create_subprocess_exec(
        *transport.command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )


async def asked(process, message):
    process.stdin.write(json.dumps(message).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        return json.loads(await process.stdout.readline())


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@on_a_loop
async def test_a_relay_connects_the_client_and_ends_with_its_input():
    server = FakeServer("2025-06-18")
    async with FakeStdioTransport(server) as transport:
        process = await launched(transport)
        opened = await asked(process, OPENING)
        assert opened["result"]["protocolVersion"] == "2025-06-18"
        assert "tools" in (await asked(process, LISTING))["result"]
        process.stdin.close()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
        await until(lambda: "gone" in server.events)
    assert server.events == ["input ended", "gone"]
    assert [each["method"] for each in server.lines[0].received] == ["initialize", "tools/list"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
@on_a_loop
async def test_a_stubborn_relay_reports_signals_and_stays():
    server = FakeServer()
    server.relay_commands = ("stubborn",)
    async with FakeStdioTransport(server) as transport:
        process = await launched(transport)
        await asked(process, OPENING)
        process.stdin.close()
        await until(lambda: "input ended" in server.events)
        process.send_signal(signal.SIGTERM)
        await until(lambda: server.signals == [signal.SIGTERM])
        assert process.returncode is None
        process.kill()
        await process.wait()
        await until(lambda: "gone" in server.events)


@on_a_loop
async def test_lines_that_are_not_json_are_recorded_separately():
    server = FakeServer()
    async with FakeStdioTransport(server) as transport:
        process = await launched(transport)
        process.stdin.write(b"Content-Length: 3\n\n")
        await asked(process, OPENING)
        process.stdin.close()
        await process.wait()
    assert server.odd == [b"Content-Length: 3"]


@on_a_loop
async def test_a_connection_without_the_key_is_closed():
    server = FakeServer()
    async with FakeStdioTransport(server) as transport:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(transport.command[-2]))
        writer.write(b"not-the-key data 1\n")
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()
    assert server.lines == []


class Posting:
    """A plain HTTP client."""

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


def run_http(server, scenario):
    async def run():
        async with FakeHttpTransport(server) as transport, aiohttp.ClientSession() as http:
            await scenario(transport, Posting(http, transport.url))

    run_in_virtual_time(run())


def test_sessions_begin_end_and_are_forgotten():
    server = FakeServer()

    async def scenario(transport, client):
        await client.open()
        async with client.post(LISTING) as response:
            assert len((await response.json())["result"]["tools"]) == 2
        transport.end_session(server.lines[0])
        async with client.post(LISTING) as response:
            assert response.status == 404
        assert [each.status for each in transport.requests] == [200, 202, 200, 404]

    run_http(server, scenario)


def test_a_stream_that_was_dropped_is_resumed_where_it_ended():
    class Drops(FakeServer):
        streams = True
        retry = 10

        async def before_first_answer(self, line, request):
            log = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
            await self.send(line, log, beside=request)
            await asyncio.sleep(0.02)
            line.carrier.drop(request["id"])

    async def scenario(transport, client):
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

    run_http(Drops(), scenario)


@pytest.mark.requirement("cancellation.request-id.previously-issued")
def test_a_cancellation_that_overtakes_its_request_is_not_held_against_the_client():
    server = FakeServer()

    async def scenario(transport, client):
        await client.open()
        cancel = {"method": "notifications/cancelled", "params": {"requestId": LISTING["id"]}}
        early = asyncio.create_task(post_and_read(client, {"jsonrpc": "2.0", **cancel}))
        await asyncio.sleep(0.1)
        await post_and_read(client, LISTING)
        await early
        methods = [each["method"] for each in server.lines[0].received]
        assert methods[-2:] == ["tools/list", "notifications/cancelled"]

    async def post_and_read(client, message):
        async with client.post(message) as response:
            return await response.read()

    run_http(server, scenario)


def test_a_scenario_may_return_a_raw_response():
    class Refuses(FakeServer):
        def http(self, asked):
            return CannedResponse(418, {"x-why": "a check"}) if asked.name == "tools/list" else None

    async def scenario(transport, client):
        await client.open()
        async with client.post(LISTING) as response:
            assert (response.status, response.headers["x-why"]) == (418, "a check")

    run_http(Refuses(), scenario)


def test_a_server_with_only_sse_names_its_endpoint_and_refuses_streamable_http():
    class Old(FakeServer):
        is_older = True
        refusal = 404

    async def scenario(transport, client):
        async with client.post(OPENING) as response:
            assert response.status == 404
        client.session = ""
        async with client.get() as response:
            first = await response.content.readuntil(b"\n\n")
            assert first.startswith(b"event: endpoint\ndata: /messages?session_id=")

    run_http(Old(), scenario)


def test_two_streams_at_once_are_counted():
    class Streams(FakeServer):
        streams = True

    async def scenario(transport, client):
        await client.open()
        async with client.get(), client.get():
            assert transport.most_streams == 2

    run_http(Streams(), scenario)


# -- requests that stand on their own

P = "io.modelcontextprotocol/"
STAMP = {f"{P}protocolVersion": "2026-07-28", f"{P}clientCapabilities": {}}


def alone(method, params=None, meta=STAMP, id=1):
    given = {**(params or {}), "_meta": meta}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": given}


def posted(*messages, revision="2026-07-28", is_dual=False):
    """Post messages to a fake server, and return the statuses and the JSON bodies."""

    async def scenario():
        server = FakeServer(revision)
        server.is_dual = is_dual
        found = []
        async with FakeHttpTransport(server) as transport, aiohttp.ClientSession() as http:
            for message in messages:
                async with http.post(transport.url, json=message) as response:
                    found.append((response.status, await response.json()))
        return found

    return run_in_virtual_time(scenario())


def test_a_request_on_its_own_is_answered_with_a_stamped_result():
    ((status, found),) = posted(alone("server/discover"))
    assert status == 200
    assert found["result"]["supportedVersions"] == ["2026-07-28"]
    assert found["result"]["resultType"] == "complete"
    assert (found["result"]["ttlMs"], found["result"]["cacheScope"]) == (0, "private")
    assert f"{P}serverInfo" in found["result"]["_meta"]


@pytest.mark.parametrize(
    ("message", "status", "code"),
    [
        (alone("ping"), 404, -32601),
        (alone("tools/list", meta={}), 400, -32602),
        (alone("tools/list", meta={**STAMP, f"{P}protocolVersion": "2099-01-01"}), 400, -32022),
        (OPENING, 400, -32022),
    ],
)
def test_refusals_of_a_revision_without_a_handshake_have_their_status(message, status, code):
    ((found, body),) = posted(message)
    assert (found, body["error"]["code"]) == (status, code)


def test_a_server_of_both_eras_answers_either_opening():
    discovered, opened = posted(alone("server/discover"), OPENING, revision=None, is_dual=True)
    assert discovered[1]["result"]["supportedVersions"][:2] == ["2026-07-28", "2025-11-25"]
    assert opened[1]["result"]["protocolVersion"] == "2025-06-18"


def test_a_client_that_listens_gets_an_acknowledgement_and_tagged_notifications():
    async def scenario():
        server = FakeServer("2026-07-28")
        wanted = {"notifications": {"toolsListChanged": True, "other": True}}
        async with FakeHttpTransport(server) as transport, aiohttp.ClientSession() as http:
            listening = alone("subscriptions/listen", wanted, id="L")
            async with http.post(transport.url, json=listening) as response:
                first = await response.content.readline()
                await server.notify(
                    server.lines[0], server.listening[0], "notifications/tools/list_changed"
                )
                await response.content.readline()
                second = await response.content.readline()
        return [json.loads(each.removeprefix(b"data: ")) for each in (first, second)]

    acknowledged, changed = run_in_virtual_time(scenario())
    assert acknowledged["params"]["notifications"] == {"toolsListChanged": True}
    assert changed["params"]["_meta"] == {f"{P}subscriptionId": "L"}


def test_pages_that_are_fetched_from_a_launched_server_are_noted():
    async def scenario():
        server = FakeServer()
        async with FakeStdioTransport(server) as transport:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(transport.command[-2]))
            writer.write(b"GET /schema.json HTTP/1.1\r\n\r\n")
            async with asyncio.timeout(PATIENCE):
                await reader.read()
            writer.close()
            await writer.wait_closed()
        return server.visited

    assert asyncio.run(scenario()) == ["/schema.json"]
