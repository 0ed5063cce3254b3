"""What a client over HTTP makes of servers that answer nonsense: one clear error, never a loop."""

import asyncio
import gc
import json
import logging
import os
import threading

import pytest

from accord.client import blocking, connect
from accord.errors import (
    ConnectFailed,
    ConnectionClosed,
    InternalError,
    RemoteProtocolError,
    RequestError,
)
from accord.http.client.sender import HttpClientOptions, sender_for
from accord.protocol.codec import Limits
from support.raw_http import RawServer
from support.waiting import in_loop, run, until, until_sync

QUICK = HttpClientOptions(patience=0.3, listen=False)
PAGE = (
    b"<!doctype html><html><head><title>Bad\n gateway</title><style>p {}</style></head>"
    b"<body><h1>Sorry</h1></body></html>"
)


@pytest.fixture(autouse=True)
def nothing_is_left(caplog):
    """No mistake of ours may hide in the log."""
    caplog.set_level(logging.WARNING)
    yield
    ours = [each for each in caplog.get_records("call") if each.name.startswith("accord")]
    assert not [each for each in ours if each.levelno >= logging.ERROR]


def page(status):
    return lambda request, reply: reply.body(status, PAGE, "text/html")


def plain(status, text=b"no"):
    return lambda request, reply: reply.body(status, text, "text/plain")


def raw(data):
    def answer(request, reply):
        reply.raw(data)
        reply.close()

    return answer


def stray(request, reply):
    reply.json({"jsonrpc": "2.0", "id": 4711, "result": {}})


def stray_stream(request, reply):
    reply.stream()
    reply.event({"jsonrpc": "2.0", "id": 4711, "result": {}})
    reply.event("this is not JSON")
    reply.end()


def abort(request, reply):
    reply.abort()


NONSENSE = {
    "500 with a page": (page(500), r"HTTP 500: Bad gateway"),
    "502 with a page": (page(502), r"HTTP 502.*a proxy got no answer"),
    "503": (plain(503), r"HTTP 503: no .*overloaded"),
    "403": (plain(403, b"host 'x' is not allowed"), r"HTTP 403: host 'x' is not allowed"),
    "413": (plain(413), r"HTTP 413.*too large"),
    "418": (plain(418), r"HTTP 418: no"),
    "a page with 200": (page(200), r"HTTP 200: Bad gateway .*text/html, expected JSON"),
    "no content": (lambda request, reply: reply.empty(204), r"HTTP 204.*no answer"),
    "accepted": (lambda request, reply: reply.empty(202), r"HTTP 202.*no answer"),
    "nothing": (lambda request, reply: reply.empty(200), r"HTTP 200.*no answer"),
    "broken JSON": (
        lambda request, reply: reply.body(200, b'{"jsonrpc": "2.0", "id": '),
        r"HTTP 200: {\"jsonrpc\".*no answer|not JSON|malformed",
    ),
    "not JSON": (lambda request, reply: reply.body(200, b"hello"), r"HTTP 200: hello.*no answer"),
    "another's answer": (stray, r"HTTP 200.*4711.*no answer"),
    "a stream of nonsense": (stray_stream, r"ended without the answer"),
    "garbage": (raw(b"\x00\x01 garbage \xff\r\n\r\n"), r"the answer is not HTTP"),
    "another protocol": (raw(b"SSH-2.0-OpenSSH_9.6\r\n"), r"the answer is not HTTP"),
    "silence": (raw(b""), r"closed the connection"),
    "half a head": (raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), r"closed the connection"),
    "a reset": (abort, r"closed the connection|reset"),
}
CASES = pytest.mark.parametrize(("behave", "words"), list(NONSENSE.values()), ids=list(NONSENSE))


@CASES
@in_loop
async def test_nonsense_in_answer_to_a_call_is_one_clear_error(behave, words):
    async with (
        RawServer(tools__call=behave) as server,
        connect(server.url, http=QUICK) as client,
    ):
        with pytest.raises((RequestError, ConnectionClosed), match=words) as caught:
            await client.call_tool("x")
        assert len(str(caught.value)) <= 320
        assert len(server.seen("tools/call")) == 1
        await client.ping()


@CASES
@in_loop
async def test_nonsense_in_answer_to_the_opening_is_one_clear_error(behave, words):
    async with RawServer(initialize=behave) as server:
        with pytest.raises(ConnectFailed, match=words) as caught:
            await connect(server.url, revision="2025-11-25", http=QUICK)
        assert len(str(caught.value)) <= 320
        assert len(server.seen("initialize")) == 1
        assert len(server.requests) <= 2


@in_loop
async def test_an_error_tells_status_and_body_to_programs_too():
    async with RawServer(ping=plain(503, b"later")) as server, connect(server.url) as client:
        with pytest.raises(RequestError) as caught:
            await client.ping()
        assert caught.value.data == {"status": 503, "body": "later"}


@in_loop
async def test_secrets_in_a_url_stay_out_of_errors():
    async with RawServer(initialize=page(500)) as server:
        secret = server.url.replace("http://", "http://me:hidden@") + "?token=hidden"
        with pytest.raises(ConnectFailed) as caught:
            await connect(secret)
        assert "hidden" not in str(caught.value)
        assert f"127.0.0.1:{server.port}/mcp" in str(caught.value)


class Mistaken:
    """Sends requests, but fails at calls in a way that it should not."""

    def __init__(self, sender):
        self.sender = sender

    async def send(self, method, url, headers, body=None):
        if body is not None and b"tools/call" in body:
            raise ZeroDivisionError
        return await self.sender.send(method, url, headers, body)


def test_a_mistake_of_the_sender_fails_its_call_alone(caplog):
    async def main():
        async with RawServer() as server:
            sender = sender_for(server.url, HttpClientOptions())
            options = HttpClientOptions(sender=Mistaken(sender))
            async with connect(server.url, http=options) as client:
                with pytest.raises(InternalError, match="internal error of the client"):
                    await client.call_tool("x")
                await client.ping()
            await sender.close()

    run(main())
    assert "a task of the connection failed" in caplog.text
    caplog.clear()


@in_loop
async def test_no_connection_says_so():
    async with RawServer() as server:
        url = server.url
    with pytest.raises(ConnectFailed, match="no connection: connection refused") as caught:
        await connect(url)
    assert caught.value.phase == "starting"
    with pytest.raises(ConnectFailed, match="no connection"):
        await connect(url, transport="sse")


@in_loop
async def test_a_server_without_tls_and_an_absent_one_give_different_errors():
    async def speak_plainly(reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(speak_plainly, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(ConnectFailed, match=r"TLS failed: .*is it http://\?"):
            await connect(f"https://127.0.0.1:{port}/mcp")


@in_loop
async def test_a_server_that_stays_away_fails_calls_when_patience_ends():
    server = RawServer()
    await server.start()
    client = await connect(server.url, http=QUICK)
    await server.stop()
    with pytest.raises(ConnectionClosed, match="not sent, no connection"):
        await client.ping()
    await server.start()
    await client.ping()
    await client.close()
    await server.stop()


@pytest.mark.parametrize("is_stream", [False, True])
@in_loop
async def test_an_answer_beyond_the_limit_is_refused_and_the_connection_goes_on(is_stream):
    def call(request, reply):
        text = json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": "x" * 50_000})
        if is_stream:
            reply.stream()
            reply.event(text)
            reply.end()
        else:
            reply.body(200, text.encode())

    limits = Limits(message_bytes=20_000)
    async with (
        RawServer(tools__call=call) as server,
        connect(server.url, limits=limits, http=QUICK) as client,
    ):
        with pytest.raises(RemoteProtocolError) as caught:
            await client.call_tool("x")
        assert str(caught.value) == (
            "tools/call: the answer exceeds the limit of 20000 bytes (message_bytes); "
            "connect(..., limits=Limits(message_bytes=...)) raises it"
        )
        await client.ping()


@in_loop
async def test_an_endless_error_page_is_not_read_to_its_end():
    async def call(request, reply):
        reply.head(500, Content_Type="text/html", Transfer_Encoding="chunked")
        reply.is_chunked = True
        for _ in range(10_000):
            reply.text(b"<p>and on</p>" * 100)
            await asyncio.sleep(0)

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        with pytest.raises(RequestError, match="HTTP 500: and on"):
            await client.call_tool("x")


@in_loop
async def test_a_flood_of_events_without_end_does_not_delay_other_calls():
    async def call(request, reply):
        reply.stream()
        note = {"level": "info", "data": "x" * 100}
        message = {"jsonrpc": "2.0", "method": "notifications/message", "params": note}
        while True:
            for _ in range(50):
                reply.event(message)
            await reply._writer.drain()

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        flooded = asyncio.create_task(client.call_tool("x"))
        await until(lambda: server.seen("tools/call"))
        async with asyncio.timeout(30):
            for _ in range(10):
                await client.ping()
        flooded.cancel()
        await asyncio.wait([flooded])


@in_loop
async def test_a_slow_handler_does_not_stop_the_reading():
    async def listen(request, reply):
        reply.stream()
        for number in range(50):
            note = {"level": "info", "data": number}
            reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": note})
        reply.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await asyncio.sleep(60)

    async def slow(message):
        await asyncio.sleep(60)

    async with RawServer(GET=listen) as server, connect(server.url, on_log=slow) as client:
        await until(lambda: server.seen("response"))
        await client.ping()


@in_loop
async def test_a_session_id_that_cannot_be_a_header_is_refused():
    def initialize(request, reply):
        reply.result(request, {}, **{"Mcp-Session-Id": "a b"})

    async with RawServer(initialize=initialize) as server:
        with pytest.raises(ConnectFailed, match="session id"):
            await connect(server.url)


# -- ending


@in_loop
async def test_nothing_is_left_open_after_many_connections():
    async with RawServer() as server:
        async with connect(server.url) as client:
            await client.ping()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            async with connect(server.url) as client:
                await client.ping()
        await until(lambda: len(os.listdir("/proc/self/fd")) <= before + 2)


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_forgotten_client_closes_its_connections():
    async def main():
        async with RawServer() as server:
            client = await connect(server.url)
            await client.ping()
            del client
            gc.collect()
            await until(lambda: server.seen("DELETE"))

    run(main())
    gc.collect()


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_loop_that_ends_before_the_client_leaves_no_warning():
    clients = []
    servers = []

    async def main():
        server = RawServer()
        servers.append(server)
        await server.start()
        clients.append(await connect(server.url, http=QUICK))
        await clients[0].ping()
        await server.stop()

    run(main())
    clients[0]._link.wire.abort()
    clients.clear()
    gc.collect()


def test_the_blocking_client_speaks_http_from_any_thread():
    ready, done = threading.Event(), threading.Event()
    servers = []

    async def serve():
        async with RawServer() as server:
            servers.append(server)
            ready.set()
            await until(done.is_set, seconds=60)

    thread = threading.Thread(target=run, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    with blocking.connect(servers[0].url) as client:
        result = client.call_tool("echo", {"a": 1}, headers={"X-A": "b"})
        assert json.loads(result.content[0].text) == {"a": 1}
    until_sync(lambda: servers[0].seen("DELETE"))
    done.set()
    thread.join(60)


@in_loop
async def test_too_many_calls_at_once_wait_their_turn(monkeypatch):
    monkeypatch.setattr("accord.http.client.wire._UNDER_WAY", 5)
    async with RawServer() as server, connect(server.url, http=QUICK) as client:
        await client.ping()
        results = await asyncio.gather(*(client.call_tool("e", {"n": n}) for n in range(100)))
        assert len(results) == 100
