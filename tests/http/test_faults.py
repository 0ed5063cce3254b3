"""Slow, large, broken or many clients: others are not affected, refusals are clear."""

import asyncio
import gc
import json
import string
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from accord import Context
from accord.http.settings import HttpLimits
from accord.protocol.codec import Limits
from support.http_offer import offer
from support.http_server import bounded, on_listener, served
from support.http_talk import Connection, call, initialize, request, text_of
from support.waiting import LONG, in_loop, run, until

LIMIT = 100_000


@pytest.fixture(scope="module")
def small():
    """A server with a small message limit and short timeouts."""
    app = offer(limits=Limits(message_bytes=LIMIT)).asgi(
        limits=HttpLimits(body_timeout=0.4), sse=True
    )
    with bounded(app) as port:
        yield port


async def is_fine(client):
    """Assert that another client is served."""
    assert text_of(await client.answer(call("fine", "add", a=1, b=2))) == "3"


# -- too large


@in_loop
async def test_a_body_announced_too_large_is_refused_before_it_arrives(small, talk):
    async with talk(small) as client:
        await client.open()
        for length in (LIMIT + 1, 10**30):
            response = await client.send("POST", b"", Content_Length=str(length))
            assert response.status in (400, 413)
            if response.status == 413:
                assert f"exceeds {LIMIT} bytes (message_bytes)" in await response.error()
        await is_fine(client)


@in_loop
async def test_a_body_that_grows_too_large_is_refused(small, talk):
    async with talk(small) as client:
        await client.open()
        head = client._head(
            "POST",
            "/mcp",
            {"Transfer_Encoding": "chunked", "Content_Type": "application/json"},
        )
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        response = await client.raw(head + chunk * 8)
        assert response.status == 413
        await is_fine(client)


@in_loop
async def test_a_body_of_exactly_the_limit_is_served(small, talk):
    async with talk(small) as client:
        await client.open()
        body = json.dumps(request(1, "ping")).encode()
        padded = body + b" " * (LIMIT - len(body))
        assert (await client.post(padded)).status == 200
        assert (await client.post(padded + b" ")).status == 413


@pytest.mark.parametrize(
    "extra",
    [
        {"X_Filler": "x" * 70_000},
        {f"X_Filler_{number}": "x" for number in range(300)},
        {"Mcp_Session_Id": "x" * 70_000},
        {"Accept": "x" * 70_000},
        {"Cookie": "x" * 70_000},
    ],
    ids=["long", "many", "session", "accept", "cookie"],
)
@in_loop
async def test_a_head_that_is_too_large_is_refused(small, talk, extra):
    async with talk(small) as client:
        await client.open()
        response = await client.post(request(1, "ping"), **extra)
        assert response.status == 431
        assert "headers" in await response.error()
        await is_fine(client)


@on_listener
@in_loop
async def test_a_head_without_end_is_cut_off(small, talk):
    async with talk(small) as client:
        await client.open()
        _, writer = await asyncio.open_connection("127.0.0.1", small)
        writer.write(b"POST /mcp HTTP/1.1\r\n")
        line = b"X-Filler: " + b"x" * 1_000 + b"\r\n"
        sent = 0
        try:
            while sent < 10_000_000:
                writer.write(line * 16)
                await writer.drain()
                sent += 16_000
                await asyncio.sleep(0)
        except OSError:
            pass
        writer.close()
        assert sent < 10_000_000
        await is_fine(client)


# -- too slow


@in_loop
async def test_a_body_that_does_not_arrive_is_refused(small, talk):
    async with talk(small) as client:
        await client.open()
        head = client._head(
            "POST", "/mcp", {"Content_Length": "50", "Content_Type": "application/json"}
        )
        silent = asyncio.create_task(client.raw(head + b"{"))
        reader, writer = await asyncio.open_connection("127.0.0.1", small)
        writer.write(head)
        # Read from the start: a byte after the end is answered by a reset.
        answer = asyncio.create_task(reader.readline())
        for _ in range(40):  # single bytes do not extend the time
            if answer.done():
                break
            writer.write(b" ")
            await asyncio.sleep(0.03)
        assert b" 408 " in await answer
        writer.close()
        response = await silent
        assert response.status == 408
        assert "(body_timeout)" in await response.error()
        await is_fine(client)


@on_listener
@in_loop
async def test_a_head_that_does_not_arrive_is_refused(small, talk):
    async with talk(small) as client:
        await client.open()
        streams = [await asyncio.open_connection("127.0.0.1", small) for _ in range(30)]
        for number, (_, writer) in enumerate(streams):
            writer.write((b"", b"POST /mcp HT", b"POST /mcp HTTP/1.1\r\nHost: loc")[number % 3])
        await is_fine(client)
        for reader, writer in streams:
            async with asyncio.timeout(30):
                assert b" 408 " in await reader.readline()
            writer.close()


def test_a_client_that_does_not_read_is_disconnected(talk):
    async def scenario(port):
        async with talk(port) as client, talk(port) as other:
            await client.open()
            await other.open()
            deaf = await client.post(call(1, "count_and_note", token="t", to=4_000, size=4_000))
            before = asyncio.get_running_loop().time()
            # The work waits while the client is connected, then it goes on.
            while "4000" not in text_of(await other.answer(call(1, "counted"))):
                await asyncio.sleep(0.05)
                assert asyncio.get_running_loop().time() - before < LONG
            deaf.abort()

    server = offer()
    done: list[str] = []

    @server.tool
    async def counted() -> str:
        """Return the clients that have finished."""
        return ",".join(done)

    entry = server.tool_entries.get("count")
    assert entry is not None
    counting = entry.function

    @server.tool
    async def count_and_note(ctx: Context, to: int, size: int) -> int:
        """Count, and note the end."""
        result = await counting(ctx, to=to, size=size)
        done.append(str(result))
        return result

    with bounded(server.asgi(limits=HttpLimits(write_timeout=0.5))) as port:
        run(scenario(port))


# -- malformed


NAMES = [
    "Host",
    "Origin",
    "Accept",
    "Content_Type",
    "Content_Length",
    "Mcp_Session_Id",
    "MCP_Protocol_Version",
    "Last_Event_ID",
    "Access_Control_Request_Headers",
    "Expect",
    "Transfer_Encoding",
    "Connection",
]
VALUES = some.text(
    alphabet=some.sampled_from(string.printable.replace("\r", "").replace("\n", "") + "éÿ\x80"),
    max_size=40,
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=some.sampled_from(NAMES), value=VALUES, method=some.sampled_from(["POST", "GET"]))
@in_loop
async def test_no_header_breaks_anything(small, talk, name, value, method):
    async with talk(small) as client:
        body = json.dumps(initialize()).encode() if method == "POST" else None
        try:
            response = await client.send(method, body, **{name: value})
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # something that is not HTTP is not answered
        assert response.status < 500 or response.status == 501  # an unknown Transfer-Encoding


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=some.binary(max_size=60) | some.text(alphabet='{}[]",:0 idmethod', max_size=60))
@in_loop
async def test_no_body_breaks_anything(small, talk, body):
    async with talk(small) as client:
        raw = body.encode() if isinstance(body, str) else body
        response = await client.send("POST", raw)
        assert response.status in (200, 400)


# -- many


def test_a_flood_of_requests_does_not_affect_other_clients(talk):
    async def scenario(port):
        async with talk(port) as client, talk(port) as other:
            await client.open()
            await other.open()
            flood = [
                asyncio.create_task(client.post(call(id, "wait", name="flood"))) for id in range(60)
            ]
            while text_of(await other.answer(call(1, "history"))).count("flood begins") < 20:
                await asyncio.sleep(0.01)
            await is_fine(other)
            # Refused requests are answered at once; later ones might be served.
            await until(lambda: sum(each.done() for each in flood) >= 40)
            await other.answer(call(2, "free", name="flood"))
            answers = [await (await each).json() for each in flood]
            refused = [each["error"]["message"] for each in answers if "error" in each]
            assert len(refused) == 40
            assert all("(in_flight)" in each for each in refused)

    with bounded(offer(in_flight=20).asgi()) as port:
        run(scenario(port))


@on_listener
@served(limits=HttpLimits(connections=10))
async def test_the_number_of_connections_is_limited(port, talk):
    async with talk(port) as client:
        await client.open()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(12)]
        refused = await client.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert refused.status == 503
        assert "(connections)" in await refused.error()
        for _, writer in idle:
            writer.close()
        while (await client.post(request(1, "ping"))).status == 503:
            await asyncio.sleep(0.01)
        await is_fine(client)


def test_many_sessions_and_streams_cost_little_and_leave_nothing(talk):
    app = offer().asgi()

    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            opener = await Connection.to(port)
            sessions = [await opener.open() for _ in range(2_000)]
            gc.collect()
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            more = [await opener.open() for _ in range(200)]
            gc.collect()
            each = (tracemalloc.get_traced_memory()[0] - before) / 200
            tracemalloc.stop()
            assert each < 4_096
            streams = [await Connection.to(port) for _ in range(500)]
            for stream, session in zip(streams, sessions, strict=False):
                await stream.listen(session)
            await is_fine(client)
            assert len(app.sessions) == 2_201
            assert len(app.state.readers) == 500
            for stream in streams:
                stream.close()
            for session in [*sessions, *more]:
                await opener.delete(session)
            while app.state.readers:
                await asyncio.sleep(0.01)
            assert len(app.sessions) == 1
            assert app.under_way <= 1
            await is_fine(client)
            opener.close()

    with bounded(app) as port:
        run(scenario(port), seconds=200)


def test_messages_for_a_client_that_does_not_listen_are_dropped(talk):
    app = offer().asgi()

    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            uri = "note://" + "x" * 5_000
            await client.answer(request(1, "resources/subscribe", uri=uri))
            for id in range(2, 800):
                await client.answer(call(id, "touch", uri=uri))
            (session,) = app.sessions
            assert sum(each.unread for each in session._standing) < 1_100_000
            assert app.state.events.size < 5_000_000

    with bounded(app) as port:
        run(scenario(port), seconds=200)
