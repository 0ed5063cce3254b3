"""HTTP/1.1 on sockets: every byte that a server may send, and what becomes of connections."""

import asyncio
import gzip
import re
import socket
import ssl
import struct
import zlib
from contextlib import asynccontextmanager

import pytest

from accord import connect
from accord.errors import ConnectFailed
from accord.http.client.aiohttp_sender import AiohttpSender
from accord.http.client.sender import (
    ConnectionCut,
    HttpClientOptions,
    NotSent,
    proxy_for,
    sender_for,
)
from accord.http.client.sockets import SocketSender
from support.certificates import self_signed, serving_with
from support.raw_http import RawServer
from support.waiting import in_loop, until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Answering:
    """A server that answers each request with the next of some bytes; None closes instead."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.heads = []
        self.connections = 0
        self.port = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader, writer):
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                self.heads.append(head)
                for line in head.lower().split("\r\n"):
                    if line.startswith("content-length:"):
                        await reader.readexactly(int(line.split(":")[1]))
                answer = self.answers.pop(0)
                parts = answer if isinstance(answer, list) else [answer]
                for part in parts:
                    if part is None:
                        return
                    writer.write(part)
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def answering(*answers, options=None, tls=None):
    server = Answering(*answers)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls, limit=1 << 20)
    server.port = listening.sockets[0].getsockname()[1]
    sender = SocketSender(options or HttpClientOptions())
    try:
        yield server, sender
    finally:
        await sender.close()
        listening.close()


def reset(writer):
    at_once = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
    writer.transport.abort()


async def whole(response):
    found = b""
    while chunk := await response.chunk():
        found += chunk
    response.close()
    return found


async def ask(sender, url, body=b"{}", **headers):
    return await sender.send("POST", url, headers, body)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
GZIPPED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"ok")
# A block of deflate that yields nothing.
NOTHING = b"\x00\x00\x00\xff\xff"

FRAMED = {
    "by length": [OK],
    "byte by byte": [bytes([each]) for each in OK],
    "in chunks": [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"
    ],
    "to the end of the connection": [b"HTTP/1.1 200 OK\r\n\r\nok", None],
    "after a continue": [b"HTTP/1.1 100 Continue\r\n\r\n", OK],
    "after early hints": [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK],
    "with gzip": [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(gzip.compress(b"ok")), gzip.compress(b"ok"))
    ],
    "with gzip by another name": [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: X-GZip \r\nContent-Length: %d\r\n\r\n%b"
        % (len(gzip.compress(b"ok")), gzip.compress(b"ok"))
    ],
    "with deflate": [
        b"HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%b"
        % (len(zlib.compress(b"ok")), zlib.compress(b"ok"))
    ],
}


@pytest.mark.parametrize("how", FRAMED)
@in_loop
async def test_a_body_comes_whole_however_it_is_framed(how):
    async with answering(FRAMED[how]) as (server, sender):
        response = await ask(sender, server.url)
        assert response.status == 200
        assert await whole(response) == b"ok"


BROKEN = {
    "no HTTP": ([b"SSH-2.0-OpenSSH\r\n\r\n"], "the answer is not HTTP"),
    "a malformed length": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"],
        "the answer is not HTTP",
    ),
    "a head without end": (
        [b"HTTP/1.1 200 OK\r\n", *[b"X: " + b"y" * 4_000 + b"\r\n"] * 20],
        "its head exceeds 65536 bytes",
    ),
    "nothing": ([None], "the server closed the connection"),
    "half a head": ([b"HTTP/1.1 200 O", None], "the server closed the connection"),
    "half a body": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", None],
        "the connection broke in the middle of the answer",
    ),
    "half a chunk": (
        [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", None],
        "the connection broke in the middle of the answer",
    ),
    "what is not compressed": (
        [b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"],
        "compressed in a way that cannot be read",
    ),
    "trailers without end": (
        [CHUNKED + b"2\r\nok\r\n0\r\n", *[b"X: " + b"y" * 4_000 + b"\r\n"] * 40],
        "the framing of its body exceeds 65536 bytes",
    ),
    "a trailer without end": (
        [CHUNKED + b"2\r\nok\r\n0\r\nX: ", *[b"y" * 4_000] * 40],
        "the framing of its body exceeds 65536 bytes",
    ),
    "a chunk extension without end": (
        [CHUNKED + b"2;", *[b"y" * 4_000] * 40],
        "the framing of its body exceeds 65536 bytes",
    ),
    "bytes after the end of what is compressed": (
        [GZIPPED, *[b"%x\r\n%b\r\n" % (len(PACKED), PACKED)] * 2, b"0\r\n\r\n"],
        "the compressed answer goes on after its end",
    ),
    "many bytes after the end of what is compressed": (
        [GZIPPED, b"%x\r\n%b\r\n" % (len(PACKED), PACKED), *[b"1\r\n\0\r\n"] * 3_000],
        "the compressed answer goes on after its end",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
@in_loop
async def test_a_broken_response_is_reported_with_the_reason(what):
    parts, why = BROKEN[what]
    async with answering(parts, OK) as (server, sender):
        with pytest.raises(ConnectionCut, match=why):
            await whole(await ask(sender, server.url))
        assert await whole(await ask(sender, server.url)) == b"ok"


@in_loop
async def test_a_connection_is_used_again_once_its_answer_is_complete():
    async with answering(OK, OK, OK) as (server, sender):
        for _ in range(3):
            assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 1


@pytest.mark.parametrize(
    "first",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        OK + b"HTTP/1.1 200 OK\r\n",
        OK + OK,
        OK + b"\0",
    ],
    ids=["that is closed", "of an older HTTP", "half an answer more", "one more", "garbage after"],
)
@in_loop
async def test_a_connection_is_not_used_again(first):
    async with answering(first, OK) as (server, sender):
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 2


@in_loop
async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch):
    monkeypatch.setattr("accord.http.client.sockets.IDLE", 0.0)
    async with answering(OK, OK) as (server, sender):
        for _ in range(2):
            assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 2
        await until(lambda: len(sender._open) == 1)


@in_loop
async def test_a_connection_that_was_closed_unnoticed_is_not_used_again():
    async with answering([OK, None], OK) as (server, sender):
        await whole(await ask(sender, server.url))
        (connection,) = sender._open
        # The loop is busy elsewhere while the server closes the connection.
        connection.transport.pause_reading()
        await asyncio.sleep(0.05)  # clock: the loop is busy while the server closes
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 2


@in_loop
async def test_a_request_that_met_a_closing_server_counts_as_not_sent():
    unread = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"{}")
        writer.write(OK)
        # As a server does that stops: what it has not read is answered by a reset.
        writer.transport.pause_reading()
        await unread.wait()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    sender = SocketSender(HttpClientOptions())
    await whole(await ask(sender, url))
    asking = asyncio.create_task(ask(sender, url))
    await asyncio.sleep(0.05)  # clock: the request is written, and not read
    unread.set()
    with pytest.raises(NotSent, match="was closing the connection"):
        await asking
    await sender.close()
    listening.close()


@pytest.mark.parametrize(
    "answers",
    [[b""], [OK, b"HTTP/1.1 2"]],
    ids=["of a new connection", "in the middle of an answer"],
)
@in_loop
async def test_a_request_that_was_read_before_a_reset_counts_as_sent(answers):
    is_read, may_reset = asyncio.Event(), asyncio.Event()

    async def serve(reader, writer):
        for each in answers:
            await reader.readuntil(b"{}")
            writer.write(each)
        is_read.set()
        await may_reset.wait()
        reset(writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    sender = SocketSender(HttpClientOptions())
    for _ in answers[1:]:
        await whole(await ask(sender, url))
    asking = asyncio.create_task(ask(sender, url))
    await is_read.wait()
    await until(lambda: any(each._head_size == len(answers[-1]) for each in sender._open))
    may_reset.set()
    with pytest.raises(ConnectionCut, match="the server closed the connection"):
        await asking
    await sender.close()
    listening.close()


@in_loop
async def test_a_request_that_a_used_connection_was_closed_after_counts_as_sent():
    async with answering(OK, None) as (server, sender):
        await whole(await ask(sender, server.url))
        with pytest.raises(ConnectionCut, match="the server closed the connection"):
            await ask(sender, server.url)
        assert len(server.heads) == 2


@in_loop
async def test_an_answer_without_length_that_is_reset_is_not_taken_for_whole():
    may_reset = asyncio.Event()

    async def serve(reader, writer):
        await reader.readuntil(b"{}")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nhal")
        await may_reset.wait()
        reset(writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    sender = SocketSender(HttpClientOptions())
    response = await ask(sender, url)
    assert await response.chunk()
    may_reset.set()
    with pytest.raises(ConnectionCut, match="broke in the middle of the answer"):
        await whole(response)
    await sender.close()
    listening.close()


@in_loop
async def test_a_header_that_comes_twice_is_one_with_both_values():
    twice = b"HTTP/1.1 200 OK\r\nX-Way: a\r\nx-way: b\r\nContent-Length: 2\r\n\r\nok"
    async with answering(twice) as (server, sender):
        response = await ask(sender, server.url)
        assert response.header("X-Way") == "a, b"
        response.close()


@in_loop
async def test_heads_that_never_come_again_are_not_kept():
    async with answering(*[OK] * 70) as (server, sender):
        for number in range(70):
            await whole(await ask(sender, server.url, X_Number=str(number)))
        assert len(sender._heads) <= 64


@in_loop
async def test_an_answer_that_comes_before_the_request_was_read_ends_its_connection():
    heads = []
    is_over = asyncio.Event()

    async def serve(reader, writer):
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(OK)
        await is_over.wait()
        writer.transport.abort()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/"
    sender = SocketSender(HttpClientOptions())
    for body in (b"x" * 24_000_000, b"{}"):
        assert await whole(await ask(sender, url, body)) == b"ok"
    assert len(heads) == 2
    is_over.set()
    await sender.close()
    listening.close()


@in_loop
async def test_an_answer_that_was_too_much_to_read_ahead_does_not_stop_the_next():
    size = 256 * 1024 + 1  # complete at the very moment that it is too much
    large = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size)
    async with answering(large, OK) as (server, sender):
        response = await ask(sender, server.url)
        await until(lambda: response.is_kept)
        response.close()
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 1


@in_loop
async def test_an_answer_that_is_not_read_ends_its_connection():
    async with answering([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"], OK) as (
        server,
        sender,
    ):
        response = await ask(sender, server.url)
        response.close()
        response.close()
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 2


@in_loop
async def test_cancelling_a_request_ends_its_connection():
    async with answering(b"", OK) as (server, sender):
        waiting = asyncio.create_task(ask(sender, server.url))
        await until(lambda: server.heads)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert server.connections == 2


@in_loop
async def test_an_unread_response_is_read_ahead_only_to_a_bound():
    size = 8_000_000
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size
    async with answering([head, b"x" * size]) as (server, sender):
        response = await ask(sender, server.url)
        read = 0
        for _ in range(2):
            await asyncio.sleep(0.05)
            assert response._size < 1_000_000
            read += len(await response.chunk())
        assert read + len(await whole(response)) == size


@in_loop
async def test_a_stream_that_may_be_silent_for_hours_is_probed():
    async with answering(OK) as (server, sender):
        response = await sender.send("GET", server.url, {})
        (connection,) = sender._open
        used = connection.transport.get_extra_info("socket")
        assert used.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        response.close()


@in_loop
async def test_compressed_answers_are_unpacked_piece_by_piece():
    packed = gzip.compress(b"x" * 5_000_000)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
    async with answering(head + packed) as (server, sender):
        response = await ask(sender, server.url)
        first = await response.chunk()
        assert len(first) <= 64 * 1024
        assert len(first + await whole(response)) == 5_000_000


@in_loop
async def test_an_encoding_that_was_not_asked_for_is_named():
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok"
    async with answering(head) as (server, sender):
        with pytest.raises(ConnectionCut, match="encoded as 'br', which was not asked for"):
            await whole(await ask(sender, server.url))


@in_loop
async def test_a_head_is_written_anew_for_another_host():
    async with answering(OK, OK) as (server, sender):
        other = server.url.replace("127.0.0.1", "localhost")
        for url in (server.url, other):
            await whole(await ask(sender, url))
        hosts = [head.split("Host: ")[1].split(":")[0] for head in server.heads]
        assert hosts == ["127.0.0.1", "localhost"]


@in_loop
async def test_cookies_come_back():
    made = b"HTTP/1.1 200 OK\r\nSet-Cookie: at=one; Path=/\r\nContent-Length: 0\r\n\r\n"
    gone = b"HTTP/1.1 200 OK\r\nSet-Cookie: at=; Max-Age=0\r\nContent-Length: 0\r\n\r\n"
    async with answering(made, gone, OK) as (server, sender):
        for _ in range(3):
            await whole(await ask(sender, server.url))
        sent = ["Cookie: at=one\r\n" in head for head in server.heads]
        assert sent == [False, True, False]


@in_loop
async def test_urls_are_sent_as_they_should_be():
    async with answering(OK, OK) as (server, sender):
        place = server.url.removeprefix("http://")
        await whole(await ask(sender, f"http://me:p%40ss@{place}/a b/ü?q=1 2&r=%20"))
        await whole(await ask(sender, server.url, Authorization="mine", host="other"))
        first, second = server.heads
        assert first.startswith("POST /mcp/a%20b/%C3%BC?q=1%202&r=%20 HTTP/1.1\r\n")
        assert "Authorization: Basic bWU6cEBzcw==\r\n" in first
        assert f"Host: {place.split('/')[0]}\r\n" in first
        assert "Authorization: mine\r\n" in second
        assert "host: other\r\n" in second
        assert "Host:" not in second


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\rb"])
@in_loop
async def test_a_header_cannot_smuggle_another(value):
    async with answering(OK) as (server, sender):
        with pytest.raises(NotSent, match="line break") as caught:
            await ask(sender, server.url, Last_Event_ID=value)
        assert caught.value.is_lasting
        assert server.connections == 0


@in_loop
async def test_an_absent_server_is_reported_with_the_reason():
    sender = SocketSender(HttpClientOptions(connect=0.2))
    with pytest.raises(NotSent, match="connection refused"):
        await ask(sender, "http://127.0.0.1:1/")
    with pytest.raises(NotSent) as caught:
        await ask(sender, "http://127.0.0.1:99999/")
    assert caught.value.is_lasting
    await sender.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return self_signed(tmp_path_factory.mktemp("tls"))


@in_loop
async def test_certificates_are_checked_unless_options_say_otherwise(certificate):
    context = serving_with(certificate)
    async with answering(tls=context) as (server, sender):
        with pytest.raises(NotSent, match=r"TLS failed: self.signed.*verify=") as caught:
            await ask(sender, f"https://localhost:{server.port}/mcp")
        assert caught.value.is_lasting
    trusting = ssl.create_default_context(cafile=certificate[0])
    for verify in (False, trusting):
        options = HttpClientOptions(verify=verify)
        async with answering(OK, tls=context, options=options) as (server, sender):
            response = await ask(sender, f"https://localhost:{server.port}/mcp")
            assert await whole(response) == b"ok"


@in_loop
async def test_a_proxy_is_left_to_aiohttp(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    url = "http://example.com/mcp"
    assert isinstance(sender_for(url, HttpClientOptions()), SocketSender)
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    from_environment = sender_for(url, HttpClientOptions())
    assert isinstance(from_environment, AiohttpSender)
    await from_environment.close()
    assert isinstance(sender_for(url, HttpClientOptions(proxy="")), SocketSender)
    async with RawServer() as proxy:
        options = HttpClientOptions(proxy=f"http://127.0.0.1:{proxy.port}", listen=False)
        async with connect(url, http=options) as client:
            await client.call_tool("echo", {})
        assert proxy.requests[0].path == url


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n", "HTTP 407.*a proxy wants authorization"),
        (b"HTTP/1.1 502 No\r\nContent-Length: 0\r\n\r\n", "HTTP 502"),
        (None, "connection refused"),
    ],
    ids=["407", "502", "away"],
)
@in_loop
async def test_a_proxy_that_does_not_let_us_through_is_named(answer, words):
    async def refuse(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    proxy = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    if answer is None:
        proxy.close()
    options = HttpClientOptions(proxy=f"http://me:secret@127.0.0.1:{port}")
    with pytest.raises(ConnectFailed) as caught:
        await connect("https://example.com/mcp", http=options)
    assert re.search(rf"no connection: the proxy 127.0.0.1:{port}: {words}", str(caught.value))
    assert "secret" not in str(caught.value)
    proxy.close()


def test_proxies_of_other_kinds_are_refused(monkeypatch, caplog):
    with pytest.raises(ValueError, match="'socks5', expected http"):
        HttpClientOptions(proxy="socks5://me:secret@127.0.0.1:1")
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
    assert proxy_for("http://example.com/mcp") is None
    assert "socks5, which is not supported" in caplog.text


@in_loop
async def test_a_trailer_never_becomes_a_header():
    trailed = CHUNKED + b"2\r\nok\r\n0\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b\r\n\r\n"
    async with answering(trailed, OK) as (server, sender):
        first = await ask(sender, server.url)
        assert await whole(first) == b"ok"
        assert first.header("content-encoding") is None
        second = await ask(sender, server.url)
        assert second.header("content-encoding") is None
        assert await whole(second) == b"ok"
        assert server.connections == 1
        assert "Cookie" not in server.heads[1]


@in_loop
async def test_a_header_of_an_interim_response_never_becomes_one_of_the_final_response():
    hints = b"HTTP/1.1 103 Early Hints\r\nContent-Encoding: gzip\r\nSet-Cookie: a=b\r\n\r\n"
    async with answering(hints + OK, OK) as (server, sender):
        response = await ask(sender, server.url)
        assert response.header("content-encoding") is None
        assert await whole(response) == b"ok"
        assert await whole(await ask(sender, server.url)) == b"ok"
        assert "Cookie" not in server.heads[1]


@in_loop
async def test_many_compressed_chunks_that_yield_nothing_are_read_to_the_end():
    start = b"\x1f\x8b\x08" + bytes(6) + b"\xff"
    rest = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    end = rest.compress(b"ok") + rest.flush() + struct.pack("<II", zlib.crc32(b"ok"), 2)
    parts = [start, *[NOTHING] * 3_000, end]
    async with answering(None) as (server, sender):
        server.answers[:] = [[GZIPPED]]
        response = await ask(sender, server.url)
        # Each part is received on its own, as from a server that writes slowly.
        reading = asyncio.create_task(whole(response))
        for part in parts:
            response.add(part)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        response.end()
        assert await reading == b"ok"


@pytest.mark.parametrize("kind", [SocketSender, AiohttpSender])
@in_loop
async def test_cookies_are_bounded_in_number_and_bytes(kind):
    def setting(n):
        return b"HTTP/1.1 200 OK\r\nSet-Cookie: c%d=%b\r\nContent-Length: 0\r\n\r\n" % (
            n,
            b"x" * 300,
        )

    async with answering(*[setting(n) for n in range(80)], OK) as (server, sender):
        if kind is AiohttpSender:
            sender = AiohttpSender(HttpClientOptions())
        for _ in range(80):
            await whole(await ask(sender, server.url))
        await whole(await ask(sender, server.url))
        await sender.close()
        (cookies,) = re.findall(r"(?i)\r\ncookie: (.*)\r\n", server.heads[-1])
        assert len(cookies) <= 8 * 1_024
        assert cookies.split("; ")[-1] == f"c79={'x' * 300}"
