"""Requests that are sent without a task: whatever the server answers, they end as all others do."""

import asyncio
import json
import random

import pytest
from httptools import HttpParserError, HttpResponseParser

from accord.client import connect
from accord.errors import (
    ConnectionClosed,
    InternalError,
    RemoteProtocolError,
    RequestError,
    Unauthorized,
)
from accord.http.client.sender import HttpClientOptions
from accord.http.client.sockets import learn_head
from accord.protocol.codec import Limits
from support.raw_http import RawServer
from support.waiting import in_loop, run, until

QUICK = HttpClientOptions(patience=0.3, listen=False)
HEAD = (
    b"HTTP/1.1 200 OK\r\nDate: Tue, 17 Nov 2026 20:40:00 GMT\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\nServer: x\r\n\r\n"
)
REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


def answer_to(request, text):
    result = {"content": [{"type": "text", "text": text}], "resultType": "complete"}
    return json.dumps({"jsonrpc": "2.0", "id": request.message["id"], "result": result}).encode()


def discover(request, reply):
    versions = ["2026-07-28", "2025-11-25"]
    reply.result(
        request,
        {
            "resultType": "complete",
            "supportedVersions": versions,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "raw", "version": "1"},
            "ttlMs": 0,
            "cacheScope": "private",
        },
    )


def serving(**behaviours):
    return RawServer(server__discover=discover, **behaviours)


async def text_of(client, name="x"):
    return (await client.call_tool(name)).content[0].text


# -- without a task


@REVISIONS
def test_a_call_over_a_free_connection_starts_no_task(revision):
    tasks = []

    async def call(request, reply):
        if request.message["params"]["name"] == "y":
            tasks.append(len([each for each in asyncio.all_tasks() if is_of_client(each)]))
        reply.body(200, answer_to(request, "done"))

    def is_of_client(task):
        return "http/client" in task.get_coro().cr_code.co_filename

    async def main():
        async with (
            serving(tools__call=call) as server,
            connect(server.url, revision=revision, http=QUICK) as client,
        ):
            assert await text_of(client) == "done"
            assert await text_of(client, "y") == "done"

    run(main())
    assert tasks == [0]


@REVISIONS
@in_loop
async def test_answers_of_any_length_come_whole_one_after_the_other(revision):
    def call(request, reply):
        reply.body(200, answer_to(request, "x" * int(request.message["params"]["name"])))

    async with (
        serving(tools__call=call) as server,
        connect(server.url, revision=revision, http=QUICK) as client,
    ):
        for size in (0, 1, 9, 10, 5_000, 3, 200_000, 70_000, 2):
            assert len(await text_of(client, str(size))) == size
        together = await asyncio.gather(*(text_of(client, str(size)) for size in range(20)))
        assert [len(each) for each in together] == list(range(20))


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
@REVISIONS
@in_loop
async def test_an_answer_that_comes_in_pieces_is_put_together(framing, revision):
    async def call(request, reply):
        body = answer_to(request, "pieces")
        how = {
            "length": {"Content_Length": str(len(body))},
            "chunked": {"Transfer_Encoding": "chunked"},
            "close": {"Connection": "close"},
        }[framing]
        reply.head(200, Content_Type="application/json", **how)
        reply.is_chunked = framing == "chunked"
        for part in (body[:7], body[7:30], body[30:]):
            await asyncio.sleep(0.005)
            reply.text(part)
        if framing != "length":
            reply.end()

    async with (
        serving(tools__call=call) as server,
        connect(server.url, revision=revision, http=QUICK) as client,
    ):
        for _ in range(3):
            assert await text_of(client) == "pieces"


@REVISIONS
@in_loop
async def test_a_stream_in_answer_is_followed_to_its_end(revision):
    def call(request, reply):
        reply.stream()
        reply.event(json.loads(answer_to(request, "streamed")))
        reply.end()

    async with (
        serving(tools__call=call) as server,
        connect(server.url, revision=revision, http=QUICK) as client,
    ):
        for _ in range(3):
            assert await text_of(client) == "streamed"


@in_loop
async def test_bytes_after_an_answer_end_the_connection_and_are_not_taken_for_the_next():
    def call(request, reply):
        body = answer_to(request, request.message["params"]["name"])
        reply.body(200, body)
        if request.message["params"]["name"] == "surplus":
            reply.body(200, answer_to(request, "stray").replace(b'"id": ', b'"id": 1'))

    async with RawServer(tools__call=call) as server, connect(server.url, http=QUICK) as client:
        for name in ("a", "b", "surplus", "c", "d"):
            assert await text_of(client, name) == name


@in_loop
async def test_a_cookie_that_comes_later_is_sent_back():
    def call(request, reply):
        sets = request.message["params"]["name"] == "set"
        more = {"Set_Cookie": "where=here"} if sets else {}
        reply.body(200, answer_to(request, request.headers.get("cookie", "")), **more)

    async with RawServer(tools__call=call) as server, connect(server.url, http=QUICK) as client:
        said = [await text_of(client, name) for name in ("a", "b", "set", "c", "d")]
    assert said == ["", "", "", "where=here", "where=here"]


@in_loop
async def test_an_answer_beyond_a_small_limit_is_refused_and_the_connection_goes_on():
    def call(request, reply):
        reply.body(200, answer_to(request, "x" * int(request.message["params"]["name"])))

    limits = Limits(message_bytes=2_000)
    async with (
        RawServer(tools__call=call) as server,
        connect(server.url, http=QUICK, limits=limits) as client,
    ):
        assert len(await text_of(client, "5")) == 5
        with pytest.raises(RemoteProtocolError, match="2000 bytes"):
            await client.call_tool("3000")
        assert len(await text_of(client, "6")) == 6


@in_loop
async def test_an_answer_to_another_request_behind_a_known_head_is_a_clear_error():
    def call(request, reply):
        body = answer_to(request, "right")
        if request.message["params"]["name"] == "wrong":
            body = json.dumps({"jsonrpc": "2.0", "id": 4711, "result": {}}).encode()
        reply.body(200, body)

    async with RawServer(tools__call=call) as server, connect(server.url, http=QUICK) as client:
        assert await text_of(client) == "right"
        assert await text_of(client) == "right"
        with pytest.raises(RequestError, match=r"HTTP 200.*4711.*no answer") as caught:
            await client.call_tool("wrong")
        assert isinstance(caught.value, InternalError)
        assert await text_of(client) == "right"


# -- ends


@REVISIONS
@pytest.mark.parametrize("is_begun", [False, True])
@in_loop
async def test_a_cancelled_call_ends_its_connection_alone(is_begun, revision):
    ended = []

    async def call(request, reply):
        if request.message["params"]["name"] == "slow":
            if is_begun:
                reply.head(200, Content_Type="application/json", Content_Length="90")
                reply.raw(b"{")
            await reply.hung_up()
            ended.append(1)
        else:
            reply.body(200, answer_to(request, "done"))

    async with (
        serving(tools__call=call) as server,
        connect(server.url, revision=revision, http=QUICK) as client,
    ):
        await text_of(client)
        slow = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: len(server.seen("tools/call")) == 2)
        if is_begun:
            await asyncio.sleep(0.02)  # clock: the head of the answer arrives
        assert await text_of(client) == "done"
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        await until(lambda: ended)
        assert await text_of(client) == "done"


@in_loop
async def test_a_stream_that_begins_while_its_call_is_cancelled_is_not_followed():
    steps = []

    async def call(request, reply):
        if request.message["params"]["name"] == "slow":
            await until(lambda: steps == ["cancelled"])
            reply.stream()
            steps.append("begun")
            await reply.hung_up()
            steps.append("ended")
        else:
            reply.body(200, answer_to(request, "done"))

    async def cancelled(request, reply):
        steps.append("cancelled")
        await until(lambda: steps[-1] == "begun")
        await asyncio.sleep(0.02)
        reply.empty(202)

    async with (
        RawServer(tools__call=call, notifications__cancelled=cancelled) as server,
        connect(server.url, http=QUICK) as client,
    ):
        await text_of(client)
        slow = asyncio.ensure_future(client.call_tool("slow"))
        await until(lambda: len(server.seen("tools/call")) == 2)
        slow.cancel()
        await until(lambda: steps == ["cancelled", "begun", "ended"])


@REVISIONS
@in_loop
async def test_closing_ends_the_calls_under_way(revision):
    ended = []

    async def call(request, reply):
        if request.message["params"]["name"] == "slow":
            await reply.hung_up()
            ended.append(1)
        else:
            reply.body(200, answer_to(request, "done"))

    async with serving(tools__call=call) as server:
        async with connect(server.url, revision=revision, http=QUICK) as client:
            await asyncio.gather(*(text_of(client) for _ in range(3)))
            slow = [asyncio.ensure_future(client.call_tool("slow")) for _ in range(3)]
            await until(lambda: len(server.seen("tools/call")) == 6)
        for each in slow:
            with pytest.raises(ConnectionClosed):
                await each
        await until(lambda: len(ended) == 3)


def test_a_fixed_token_goes_with_every_call_and_its_refusal_is_reported():
    tokens = []

    def call(request, reply):
        tokens.append(request.headers.get("authorization"))
        if request.message["params"]["name"] == "refused":
            reply.empty(401, WWW_Authenticate='Bearer error="invalid_token"')
        else:
            reply.body(200, answer_to(request, "done"))

    async def main():
        async with (
            RawServer(tools__call=call) as server,
            connect(server.url, http=QUICK, auth="secret-1") as client,
        ):
            assert await text_of(client) == "done"
            with pytest.raises(Unauthorized):
                await client.call_tool("refused")
            assert await text_of(client) == "done"

    run(main())
    assert set(tokens) == {"Bearer secret-1"}


# -- heads that are known


class Read:
    """A response as the parser reads it."""

    def __init__(self, data):
        self.headers = {}
        self.body = b""
        self.ends = 0
        self.is_kept = False
        self._parser = HttpResponseParser(self)
        self._parser.feed_data(data)
        self.status = self._parser.get_status_code()

    def on_header(self, name, value):
        known = self.headers.get(name.lower())
        self.headers[name.lower()] = value if known is None else known + b", " + value

    def on_body(self, data):
        self.body += data

    def on_message_complete(self):
        self.ends += 1
        self.is_kept = self._parser.should_keep_alive()


def learned(head=HEAD, body=b"{}"):
    return learn_head(head + body, Read(head + body).headers, body)


@pytest.mark.parametrize(
    "head",
    [
        HEAD.replace(b"Server: x", b"Set-Cookie: a=b"),
        HEAD.replace(b"Server: x", b"Content-Encoding: identity"),
        HEAD.replace(b"Content-Length: 2", b"Content-Length:  2"),
        b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD,
    ],
)
def test_a_head_that_means_more_is_not_learned(head):
    assert learned(head) is None


def test_a_chunked_answer_is_not_learned():
    head = HEAD.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")
    data = head + b"2\r\n{}\r\n0\r\n\r\n"
    assert learn_head(data, Read(data).headers, b"{}") is None


@pytest.mark.parametrize(
    "data",
    [
        HEAD,
        HEAD + b"{",
        HEAD + b"{} ",
        HEAD + b"{}" + HEAD + b"{}",
        HEAD.replace(b": 2", b": ") + b"{}",
        HEAD.replace(b": 2", b": +2") + b"{}",
        HEAD.replace(b": 2", b": 2 ") + b"{}",
        HEAD.replace(b": 2", b": 0000000000002") + b"{}",
        HEAD.replace(b": 2\r\n", b": 2\r\nContent-Length: 2\r\n") + b"{}",
        HEAD.replace(b"Server: x", b"Server: y") + b"{}",
        HEAD.replace(b"200 OK", b"404 OK") + b"{}",
    ],
)
def test_anything_but_a_whole_answer_with_the_known_head_is_left_to_the_parser(data):
    known = learned()
    assert known is not None
    assert known.find(HEAD + b"[]") == (b"2", b"[]")
    assert known.find(data) is None


def test_an_answer_with_a_known_head_is_read_as_the_parser_reads_it():
    known, chance, taken = learned(), random.Random(19), 0
    assert known is not None
    signs = b"0123456789 \r\n\t:;xX{}\x00\xff"
    for _ in range(3_000):
        size = chance.choice((0, 1, 2, 2, 9, 10, 200))
        data = bytearray(HEAD.replace(b": 2\r", b": %d\r" % size) + b"x" * size)
        for _ in range(chance.choice((0, 0, 1, 2))):
            at = chance.randrange(len(data))
            data[at : at + chance.randrange(3)] = bytes(
                chance.choices(signs, k=chance.randrange(3))
            )
        found = known.find(bytes(data))
        if found is None:
            continue
        body = found[1]
        taken += 1
        try:
            read = Read(bytes(data))
        except HttpParserError as error:
            raise AssertionError(bytes(data)) from error
        assert (read.status, read.body, read.ends, read.is_kept) == (200, body, 1, True)
        expected = {**known.meaning, b"content-length": read.headers[b"content-length"]}
        assert read.headers == expected
    assert taken > 500
