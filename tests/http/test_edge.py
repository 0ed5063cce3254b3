"""Bytes of hostile or careless clients: upgrades, trailers, endless bodies."""

import asyncio
import json

import pytest

from accord import Server
from accord.auth import Protected, StaticTokens
from accord.http.settings import HttpLimits
from accord.protocol.codec import Limits
from support.http_offer import offer
from support.http_server import bounded, giving, on_listener
from support.http_talk import BOTH, Response, call, initialize, request, text_of
from support.tables import cases
from support.waiting import LONG, run, until

pytestmark = on_listener

OPENING = json.dumps(initialize()).encode()


def head(*lines, method="POST", path="/mcp"):
    """The head of a request that is served."""
    usual = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Accept: {BOTH}"]
    kind = ["Content-Type: application/json"] if method == "POST" else []
    return "\r\n".join([*usual, *kind, *lines, "", ""]).encode()


class Wire:
    """A connection on which the test chooses every byte."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port):
        wire = cls(*await asyncio.open_connection("127.0.0.1", port))
        wire.port = port
        return wire

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def response(self):
        """The next response with its body."""
        response = await Response(self.reader, self.writer).head()
        await response.body()
        return response

    async def rest(self):
        """Everything until the server ends the connection."""
        async with asyncio.timeout(LONG):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def until_cut(self, data, *, most=64_000_000):
        """Send the same bytes until the server reads no more; return how many."""
        sent = 0
        async with asyncio.timeout(LONG):
            try:
                while sent < most:
                    await self.send(data)
                    sent += len(data)
            except ConnectionError:
                pass
        return sent


@pytest.fixture(scope="module")
def port():
    """A server that waits for as long as a busy machine may take."""
    with bounded(offer().asgi(limits=HttpLimits(body_timeout=LONG))) as port:
        yield port


@pytest.fixture(scope="module")
def hasty():
    """A server with short timeouts."""
    with bounded(offer().asgi(limits=HttpLimits(body_timeout=0.5))) as port:
        yield port


def paired(scenario, port):
    async def connected():
        wire = await Wire.to(port)
        try:
            await scenario(wire)
        finally:
            wire.writer.transport.abort()

    run(connected())


on_wire = giving("wire", paired, of="port")


# -- Upgrade


@pytest.mark.parametrize("protocol", ["h2c", "websocket", "anything"])
@on_wire
async def test_the_body_of_an_upgrade_request_is_never_read_as_the_next_request(wire, protocol):
    smuggled = head(method="GET", path="/healthz")
    await wire.send(
        head("Connection: Upgrade", f"Upgrade: {protocol}", f"Content-Length: {len(smuggled)}")
    )
    await asyncio.sleep(0.05)  # clock: so that the body arrives in another read
    await wire.send(smuggled)
    found = await wire.rest()
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.startswith(b"HTTP/1.1 400 ")  # the body is not a message
    assert b"connection: close" in found


@pytest.mark.parametrize("form", ["length", "chunked", "length, later", "chunked, later"])
@on_wire
async def test_a_client_that_offers_h2c_is_served_over_http_1(wire, form):
    framing = f"Content-Length: {len(OPENING)}"
    body = OPENING
    if form.startswith("chunked"):
        framing = "Transfer-Encoding: chunked"
        body = b"%x\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(OPENING), OPENING)
    offered = (
        "Connection: Upgrade, HTTP2-Settings",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABk",
    )
    data = head(*offered, framing)
    if form.endswith("later"):
        await wire.send(data)
        await wire.send(body[:20])
        data = body[20:]
        await asyncio.sleep(0.02)  # clock: so that the body arrives in another read
    else:
        data += body
    await wire.send(data + head(method="GET", path="/healthz"))
    response = await wire.response()
    assert response.status == 200
    assert response.headers["connection"] == "close"
    assert json.loads(response.raw)["result"]["serverInfo"]["name"] == "offer"
    assert await wire.rest() == b""


@on_wire
async def test_an_upgrade_without_a_body_is_answered_and_the_connection_closed(wire):
    asked = head("Connection: Upgrade", "Upgrade: websocket", method="GET", path="/healthz")
    await wire.send(asked + b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + asked)
    found = await wire.rest()
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.startswith(b"HTTP/1.1 200 ")


@on_wire
async def test_a_tunnel_is_refused(wire):
    await wire.send(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await wire.send(head(method="GET", path="/healthz"))
    found = await wire.rest()
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.startswith(b"HTTP/1.1 400 ")


# -- trailers and framing


CHUNKED = "Transfer-Encoding: chunked"


def test_a_trailer_never_becomes_a_header(port):
    seen = []

    def who(scope):
        seen.append({name for name, _ in scope["headers"]})
        return "ada"

    async def scenario(wire):
        await wire.send(head(CHUNKED) + b"%x\r\n%b\r\n0\r\n" % (len(OPENING), OPENING))
        await wire.send(b"X-Forwarded-User: root\r\nMcp-Session-Id: x\r\n\r\n")
        assert (await wire.response()).status == 200
        # The connection goes on.
        await wire.send(head(method="GET", path="/healthz"))
        assert (await wire.response()).status == 200

    with bounded(offer().asgi(principal=who)) as port:
        paired(scenario, port)
    assert seen
    assert not any(b"x-forwarded-user" in each or b"mcp-session-id" in each for each in seen)


@pytest.mark.parametrize("kind", ["application/json", "text/plain"], ids=["served", "refused"])
@pytest.mark.parametrize("line", [b"a: b\r\n" * 1_000, b"a" * 6_000], ids=["many", "long"])
@on_wire
async def test_trailers_without_end_are_cut_off(wire, kind, line):
    chunked = head(CHUNKED).replace(b"application/json", kind.encode())
    await wire.send(chunked + b"2\r\n{}\r\n0\r\n" + b"a: ")
    assert await wire.until_cut(line) < 30_000_000


@on_wire
async def test_a_line_between_two_chunks_is_limited(wire):
    await wire.send(head(CHUNKED) + b"2;")
    assert await wire.until_cut(b"a" * 6_000) < 30_000_000


@on_wire
async def test_many_small_chunks_are_served(wire):
    parts = [OPENING[at : at + 1] for at in range(len(OPENING))]
    await wire.send(head(CHUNKED))
    for part in parts:
        await wire.send(b"1;%b\r\n%b\r\n" % (b"x" * 200, part))
    await wire.send(b"0\r\n\r\n")
    assert (await wire.response()).status == 200


@on_wire
async def test_too_many_headers_are_refused_at_once(wire):
    lines = b"".join(b"a%d:\r\n" % number for number in range(6_000))
    await wire.send(head()[:-2] + lines + b"\r\n")
    assert (await wire.response()).status == 431


# -- refusals before the end of the body


REFUSED = {
    "kind": head("Content-Length: 1000").replace(b"application/json", b"text/plain"),
    "place": head("Content-Length: 1000", path="/nowhere"),
    "origin": head("Content-Length: 1000", "Origin: https://evil.example"),
    "length": head("Content-Length: 99999999"),
    "chunked": head(CHUNKED).replace(b"application/json", b"text/plain"),
}


@pytest.mark.parametrize("how", REFUSED)
@on_wire
async def test_a_refusal_before_the_end_of_a_body_ends_the_connection(wire, how):
    await wire.send(REFUSED[how] + b"1")
    found = await wire.rest()
    assert found.startswith(b"HTTP/1.1 4")
    assert b"connection: close" in found


@on_wire
async def test_a_refusal_after_the_end_of_a_body_does_not_end_the_connection(wire):
    refused = REFUSED["kind"].replace(b"1000", b"2")
    for _ in range(3):
        await wire.send(refused + b"{}")
        assert (await wire.response()).status == 415


def protected():
    auth = Protected(StaticTokens({"good": "read"}), issuer="https://issuer.example")
    return Server("closed", auth=auth).asgi()


def test_without_a_token_a_request_is_refused_before_its_body():
    async def scenario(wire):
        named = head(CHUNKED).replace(b"localhost", b"localhost:%d" % wire.port)
        await wire.send(named + b"2\r\n{}\r\n0\r\n")
        response = await wire.response()
        assert response.status == 401
        assert response.headers["connection"] == "close"
        assert await wire.until_cut(b"a: b\r\n" * 1_000) < 30_000_000

    with bounded(protected()) as port:
        paired(scenario, port)


def test_a_refused_client_that_goes_on_sending_can_read_the_refusal(port):
    async def scenario(wire):
        wire.writer.write(REFUSED["length"] + b" " * 1_000_000)
        response = await wire.response()
        assert response.status == 413
        assert "message_bytes" in response.raw.decode() or "opening_bytes" in response.raw.decode()

    for _ in range(5):
        paired(scenario, port)


@giving("wire", paired, of="hasty")
async def test_empty_lines_do_not_keep_a_connection_open(wire):
    await wire.send(head(method="GET", path="/healthz"))
    assert (await wire.response()).status == 200
    await wire.send(b"\r\n")
    assert b" 408 " in await wire.rest()


# -- slow bodies


async def dribble(wire, data, size, pause):
    """Send a body bit by bit, as long as the server reads."""
    try:
        for at in range(0, len(data), size):
            await wire.send(data[at : at + size])
            await asyncio.sleep(pause)
    except ConnectionError:
        pass


def test_a_slow_steady_body_is_served_however_long_it_takes():
    async def scenario(wire):
        # Twice the longest silence.
        body = OPENING + b" " * (4_000 - len(OPENING))
        await wire.send(head(f"Content-Length: {len(body)}"))
        sending = asyncio.create_task(dribble(wire, body, 50, 0.1))
        assert (await wire.response()).status == 200
        await sending

    with bounded(offer().asgi(limits=HttpLimits(body_timeout=4.0, body_rate=10))) as port:
        paired(scenario, port)


@giving("wire", paired, of="hasty")
async def test_a_body_that_is_stuck_is_refused(wire):
    await wire.send(head(f"Content-Length: {len(OPENING)}") + OPENING[:-1])
    response = await wire.response()
    assert response.status == 408
    assert "(body_timeout)" in response.raw.decode()
    assert response.headers["connection"] == "close"


@giving("wire", paired, of="hasty")
async def test_a_body_of_single_bytes_is_refused_in_the_end(wire):
    await wire.send(head("Content-Length: 5000"))
    sending = asyncio.create_task(dribble(wire, b" " * 5_000, 1, 0.05))
    response = await wire.response()
    assert response.status == 408
    assert "(body_rate)" in response.raw.decode() or "(body_timeout)" in response.raw.decode()
    sending.cancel()


# -- many bodies


def test_bodies_that_are_being_read_share_a_budget(talk):
    app = offer(limits=Limits(message_bytes=2_000_000)).asgi(
        limits=HttpLimits(bodies_bytes=3_000_000, body_timeout=LONG)
    )

    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            named = f"Mcp-Session-Id: {client.session}"
            wires = [await Wire.to(port) for _ in range(12)]
            for wire in wires:
                await wire.send(head("Content-Length: 2000000", named))
            most = 0
            for wire in wires:
                await wire.until_cut(b" " * 100_000, most=1_900_000)
                most = max(most, app.bodies.size)
            assert most < 3_500_000
            answers = [asyncio.create_task(wire.response()) for wire in wires]
            await until(lambda: sum(each.done() for each in answers) >= 10)
            for answer, wire in zip(answers, wires, strict=True):
                if answer.done():
                    assert answer.result().status == 503
                    assert "(bodies_bytes)" in answer.result().raw.decode()
                    assert answer.result().headers["retry-after"] == "1"
                answer.cancel()
                wire.writer.close()
            await until(lambda: not len(app.bodies))
            assert app.bodies.size == 0
            # Small bodies are served meanwhile, large ones afterwards.
            large = json.dumps(request(1, "ping")).encode() + b" " * 1_900_000
            assert (await client.post(large)).status == 200

    with bounded(app) as port:
        run(scenario(port))


def test_bodies_that_are_stuck_make_room_for_others(talk):
    app = offer(limits=Limits(message_bytes=2_000_000)).asgi(
        limits=HttpLimits(bodies_bytes=2_500_000, body_timeout=LONG)
    )

    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            wire = await Wire.to(port)
            named = f"Mcp-Session-Id: {client.session}"
            await wire.send(head("Content-Length: 2000000", named) + b" " * 1_900_000)
            await until(lambda: app.bodies.size == 1_900_000)
            large = json.dumps(call(1, "add", a=1, b=2)).encode() + b" " * 1_500_000
            async with asyncio.timeout(LONG):
                while (response := await client.post(large)).status == 503:
                    await asyncio.sleep(0.1)
            assert text_of(await response.json()) == "3"
            assert (await wire.response()).status == 503
            wire.writer.close()

    with bounded(app) as port:
        run(scenario(port))


@cases("named", [(), ("Mcp-Session-Id: made-up",)], ids=["none", "made up"])
@cases("framing", ["Content-Length: 300000", CHUNKED], ids=["length", "chunked"])
def test_a_large_message_without_a_session_is_refused(framing, named):
    async def scenario(wire):
        await wire.send(head(framing, *named))
        chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
        await wire.until_cut(chunk, most=600_000 if framing == CHUNKED else 1)
        response = await wire.response()
        assert response.status == 413
        assert "(opening_bytes, before there is a session)" in response.raw.decode()

    with bounded(offer().asgi(limits=HttpLimits(opening_bytes=200_000))) as port:
        paired(scenario, port)


# -- pipelining


@on_wire
async def test_pipelined_requests_are_answered_in_turn(wire):
    ping = json.dumps(request(1, "ping")).encode()
    good, bad = head(method="GET", path="/healthz"), head(method="GET", path="/nowhere")
    posted = head(f"Content-Length: {len(ping)}") + ping
    await wire.send(good + bad + posted + good)
    assert [(await wire.response()).status for _ in range(4)] == [200, 404, 400, 200]


@on_wire
async def test_thousands_of_pipelined_requests_are_not_kept(wire):
    await wire.send(head(method="GET", path="/healthz") * 2_000)
    found = await wire.rest()
    assert 1 <= found.count(b"HTTP/1.1 200 ") <= 100


@on_wire
async def test_a_broken_request_does_not_harm_the_answer_before_it(wire):
    await wire.send(head(method="GET", path="/healthz") + b"nonsense\r\n\r\n")
    assert (await wire.response()).status == 200


def test_a_client_that_leaves_with_a_pipelined_request_is_noticed(talk):
    app = offer().asgi()

    async def scenario(port):
        async with talk(port) as client:
            await client.open()
            wire = await Wire.to(port)
            named = f"Mcp-Session-Id: {client.session}"
            await wire.send(head(named, method="GET") + head(method="GET", path="/healthz"))
            await until(lambda: app.state.readers)
            wire.writer.transport.abort()
            await until(lambda: not app.state.readers)
            await until(lambda: not app.under_way)

    with bounded(app) as port:
        run(scenario(port))
