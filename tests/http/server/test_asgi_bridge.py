"""Any ASGI app on the listener."""

import asyncio
import logging
import time

from accord.http.server.connection import HttpConnection
from accord.http.server.exchange import ResponseCut
from accord.http.server.listener import HttpListener
from accord.http.server.running import serve_asgi
from accord.http.server.sockets import listen
from accord.http.settings import HttpLimits
from support.waiting import run

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def begin(*headers):
    return {"type": "http.response.start", "status": 200, "headers": [*headers]}


def part(body, *, more):
    return {"type": "http.response.body", "body": body, "more_body": more}


def asked(app, talk):
    """Serve an app, and let a function talk to it on one connection."""

    async def main():
        sockets = listen("127.0.0.1", 0)
        port = sockets[0].getsockname()[1]
        async with serve_asgi(app, sockets):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(REQUEST)
            found = await talk(reader)
            writer.close()
        assert sockets[0].fileno() == -1
        return found

    return run(main())


def test_an_empty_part_sends_the_head_before_there_is_a_body():
    go = asyncio.Event()

    async def app(scope, receive, send):
        await send(begin())
        await send(part(b"", more=True))
        await go.wait()
        await send(part(b"late", more=False))

    async def talk(reader):
        head = await reader.readuntil(b"\r\n\r\n")
        go.set()
        return head, await reader.readuntil(b"0\r\n\r\n")

    head, body = asked(app, talk)
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"4\r\nlate\r\n0\r\n\r\n"


def test_the_date_of_a_response_that_is_passed_on_stays_its_only_one():
    async def app(scope, receive, send):
        await send(begin((b"Date", b"Tue, 17 Nov 2026 10:00:00 GMT"), (b"content-length", b"0")))
        await send(part(b"", more=False))

    head = asked(app, lambda reader: reader.readuntil(b"\r\n\r\n"))
    dates = [line for line in head.split(b"\r\n") if line.lower().startswith(b"date:")]
    assert dates == [b"date: Tue, 17 Nov 2026 10:00:00 GMT"]


def test_a_response_that_is_cut_ends_the_connection_after_its_last_bytes(caplog):
    async def app(scope, receive, send):
        await send(begin())
        await send(part(b"x" * 3_000_000, more=True))
        raise ResponseCut

    with caplog.at_level(logging.DEBUG, "accord"):
        found = asked(app, lambda reader: reader.read())
    assert found.count(b"x" * 3_000_000) == 1
    assert not found.endswith(b"0\r\n\r\n")
    assert caplog.records == []


def test_a_loop_that_was_busy_does_not_cost_clients_their_requests():
    async def app(scope, receive, send):
        await send(begin((b"content-length", b"2")))
        await send(part(b"ok", more=False))

    class SlowConnection(HttpConnection):
        def connection_made(self, transport):
            super().connection_made(transport)
            time.sleep(0.6)

    class SlowListener(HttpListener):
        connection_type = SlowConnection

    async def main():
        sockets = listen("127.0.0.1", 0)
        async with serve_asgi(app, sockets, HttpLimits(body_timeout=0.4), SlowListener):
            reader, writer = await asyncio.open_connection(*sockets[0].getsockname())
            writer.write(REQUEST)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()

    run(main())
