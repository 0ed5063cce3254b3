"""Hostile servers that send a client more than it asked for: what is held stays bounded."""

import asyncio
import json

import pytest

from accord.client import connect
from accord.errors import ConnectionClosed
from accord.http.client.messages import EventReader, PendingAnswers
from accord.http.client.sender import HttpClientOptions
from support.raw_http import OlderServer, RawServer
from support.waiting import in_loop, until

QUIET = HttpClientOptions(patience=0.3, listen=False)


def ping(id):
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


class Chunks:
    """A response whose body is there already."""

    status = 200

    def __init__(self, *chunks):
        self._chunks = list(chunks)

    async def chunk(self):
        return self._chunks.pop(0) if self._chunks else b""


@in_loop
async def test_an_event_id_beyond_the_limit_fails_the_call_with_the_reason():
    def call(request, reply):
        reply.stream()
        reply.event(ping("x"), id="y" * 2_000)
        reply.end()

    async with (
        RawServer(tools__call=call) as server,
        connect(server.url, http=QUIET) as client,
    ):
        with pytest.raises(ConnectionClosed, match="event id exceeds the limit of 1024 bytes"):
            await client.call_tool("x")
        await client.ping()


@in_loop
async def test_remembered_event_ids_are_bounded_in_bytes():
    events = b"".join(b"id: %d%b\ndata: 1\n\n" % (n, b"x" * 1_000) for n in range(2_000))
    reader = EventReader(lambda data: None, lambda line: None, 1_000_000, PendingAnswers())
    await reader.read(Chunks(events))
    assert sum(map(len, reader._seen)) <= 64 * 1_024


@in_loop
async def test_a_thousand_short_event_ids_are_remembered():
    taken = []
    events = b"".join(b"id: stream-1/%d\ndata: 1\n\n" % n for n in range(1_500))
    reader = EventReader(taken.append, lambda line: None, 1_000_000, PendingAnswers())
    await reader.read(Chunks(events))
    reader.begin()
    await reader.read(Chunks(events))
    assert len(taken) == 1_500 + 500


class Withholding(RawServer):
    """Sends pings without end, and takes no answer until a test allows it."""

    def __init__(self, pings, padding=0):
        super().__init__(tools__call=self.flood, response=self.hold)
        self.pings, self.padding = pings, padding
        self.most = self.held = 0
        self.released = asyncio.Event()

    async def flood(self, request, reply):
        reply.stream()
        text = b"".join(
            b"data: %b\n\n" % json.dumps(ping(f"{n}{'x' * self.padding}")).encode()
            for n in range(self.pings)
        )
        reply.text(text)
        result = {"content": [], "isError": False}
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        reply.end()

    async def hold(self, request, reply):
        self.held += 1
        self.most = max(self.most, self.held)
        await self.released.wait()
        self.held -= 1
        reply.empty(202)


@pytest.mark.parametrize(
    ("pings", "padding", "most"), [(2_000, 0, 64), (100, 200_000, 21)], ids=["many", "large"]
)
@in_loop
async def test_answers_to_a_flooding_server_are_bounded_and_reading_goes_on_when_they_are_taken(
    pings, padding, most
):
    async with Withholding(pings, padding) as server, connect(server.url, http=QUIET) as client:
        call = asyncio.create_task(client.call_tool("x"))
        await until(lambda: server.held == most)
        # Another call, which takes its time, is not delayed and brings no more answers about.
        for _ in range(20):
            await client.ping()
        assert server.most == most
        await until(lambda: len(client._link.wire._messages) == most + 1)
        server.released.set()
        await call
        assert server.most <= most + 1
        await until(lambda: len(server.seen("response")) == pings)


@in_loop
async def test_an_answer_to_a_question_of_a_stream_that_broke_is_dropped():
    asked = asyncio.Event()
    go_on = asyncio.Event()

    async def elicit(params):
        asked.set()
        await go_on.wait()
        return {"name": "x"}

    server = OlderServer()
    server.revision = "2025-06-18"
    async with server, connect(server.url, on_elicit=elicit, transport="sse") as client:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "?", "requestedSchema": schema}
        question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params}
        next(iter(server.streams.values())).event(question)
        await asked.wait()
        # Else its session would be unknown, which is another way to lose it.
        await until(lambda: server.seen("notifications/initialized"))
        form = client._link.wire._form
        server.drop()
        await until(lambda: form._broken is form.session)
        go_on.set()
        await client.ping()
        assert not server.seen("response")


@in_loop
async def test_a_server_that_wants_no_delay_is_not_asked_without_pause(monkeypatch):
    slept = []
    pause = asyncio.sleep

    async def sleep(seconds, *more):
        slept.append(seconds)
        await pause(0)

    def stream(request, reply):
        number = len(server.seen("GET"))
        reply.stream()
        reply.event("", id=f"n{number}", retry=0)
        reply.end()

    def call(request, reply):
        if len(server.seen("GET")) >= 20:
            server.usual(request, reply)
        else:
            stream(request, reply)

    server = RawServer(tools__call=call)

    def resume(request, reply):
        if len(server.seen("GET")) < 20:
            return stream(request, reply)
        id = server.seen("tools/call")[0].message["id"]
        reply.stream()
        result = {"content": [], "isError": False}
        reply.event({"jsonrpc": "2.0", "id": id, "result": result}, id="last")
        reply.end()
        return None

    server.behaviours["GET"] = resume
    async with server, connect(server.url, http=QUIET) as client:
        monkeypatch.setattr("accord.http.client.streamable.asyncio.sleep", sleep)
        await client.call_tool("x")
        monkeypatch.undo()
    waits = [each for each in slept if each]
    assert len(waits) >= 20
    assert min(waits) >= 0.2
