"""A client over HTTP goes on: streams that break, sessions that end, servers that come back."""

import asyncio
import json
import logging

import pytest

from accord.client import connect
from accord.errors import ConnectionClosed, RequestError
from accord.http.client.sender import HttpClientOptions
from support.raw_http import OlderServer, RawServer
from support.tables import cases
from support.waiting import in_loop, run, until

QUICK = HttpClientOptions(patience=1.0, listen=False)


@pytest.fixture(autouse=True)
def nothing_is_left(caplog):
    """No mistake of ours may hide in the log."""
    caplog.set_level(logging.WARNING)
    yield
    ours = [each for each in caplog.get_records("call") if each.name.startswith("accord")]
    assert not [each for each in ours if each.levelno >= logging.ERROR]


def said(result):
    return json.loads(result.content[0].text)


def answer(request, text="done"):
    content = [{"type": "text", "text": json.dumps(text)}]
    result = {"content": content, "isError": False}
    return {"jsonrpc": "2.0", "id": request.message["id"], "result": result}


def progress(request, value):
    token = request.message["params"]["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": value}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def log_message(text):
    params = {"level": "info", "data": text}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


# -- streams


class Replaying(RawServer):
    """Streams its answers, cut at given places, and replays what was missed after Last-Event-ID."""

    def __init__(self, **behaviours):
        super().__init__(**behaviours)
        self.limit = None
        self.is_reset = False
        self.repeats = 0
        self.written = self.resumable = 0
        self.events = []
        self.behaviours |= {"tools/call": self.call, "GET": self.resume}

    def call(self, request, reply):
        reply.limit = self.limit
        messages = [progress(request, 1), progress(request, 2), answer(request)]
        self.events = [("", 1), *((json.dumps(each), 1) for each in messages)]
        reply.stream()
        self.replay(reply, 0)
        self.written = reply.written
        if self.is_reset:
            reply.abort()

    def replay(self, reply, start):
        for index, (data, retry) in list(enumerate(self.events))[start:]:
            reply.event(data, id=f"e{index}", retry=retry)
            if index == 0:
                # The event is complete; what may be missing is the end of its chunk.
                self.resumable = reply.written - len(b"\r\n")
        reply.end()

    def resume(self, request, reply):
        last = request.headers.get("last-event-id")
        if last is None:
            return reply.empty(405)
        reply.stream()
        return self.replay(reply, max(int(last[1:]) + 1 - self.repeats, 0))


@pytest.mark.requirement("http.sse.resume-header", "http.sse.resume-by-get-any-origin")
@pytest.mark.parametrize("repeats", [0, 2], ids=["exact", "a server that repeats itself"])
def test_a_stream_cut_at_any_byte_loses_and_doubles_nothing(repeats, monkeypatch):
    # Some 400 streams are taken up again here.
    monkeypatch.setattr("accord.http.client.messages._LEAST_ASKED", 0.001)

    async def main():
        async with Replaying() as server, connect(server.url, http=QUICK) as client:
            server.repeats = repeats
            await client.call_tool("x", on_progress=lambda _: None)
            length, resumable = server.written, server.resumable
            for limit in range(resumable):
                server.limit = limit
                got = []
                # Nothing has come that names a place to go on from.
                with pytest.raises(ConnectionClosed, match="carried it out is unknown"):
                    await client.call_tool("x", on_progress=got.append)
                assert not got
            for limit in range(resumable, length):
                server.limit = limit
                got = []
                result = await client.call_tool("x", on_progress=got.append)
                assert said(result) == "done"
                assert [each.progress for each in got] == [1, 2]

    run(main(), seconds=120)


@cases("limit", [0, 100, 150, 200, 300, 400])
@in_loop
async def test_a_stream_that_is_reset_loses_and_doubles_nothing(limit):
    async with Replaying() as server, connect(server.url, http=QUICK) as client:
        server.limit, server.is_reset = limit, True
        got = []
        try:
            result = await client.call_tool("x", on_progress=got.append)
        except ConnectionClosed:
            assert not got
        else:
            assert said(result) == "done"
            assert [each.progress for each in got] == [1, 2]


@cases("limit", range(0, 400, 7))
@in_loop
async def test_a_json_answer_cut_at_any_byte_is_a_clear_error(limit):
    def call(request, reply):
        reply.limit = limit
        reply.result(request, answer(request, "x" * 300)["result"])

    async with RawServer(tools__call=call) as server, connect(server.url, http=QUICK) as client:
        with pytest.raises(ConnectionClosed, match=r"tools/call: .*unknown"):
            await client.call_tool("x")
        await client.ping()


@pytest.mark.requirement("http.sse.client-honours-retry", "http.sse.client-polls-after-close")
@in_loop
async def test_the_server_says_when_to_come_back_for_the_answer():
    def call(request, reply):
        later.append(answer(request))
        reply.stream()
        reply.event("", id="p1", retry=300)
        reply.end()
        times.append(asyncio.get_running_loop().time())

    def resume(request, reply):
        if "last-event-id" not in request.headers:
            return reply.empty(405)
        times.append(asyncio.get_running_loop().time())
        reply.stream()
        reply.event(later[0], id="p2")
        return reply.end()

    later, times = [], []
    async with RawServer(tools__call=call, GET=resume) as server:
        async with connect(server.url) as client:
            assert said(await client.call_tool("x")) == "done"
        resumed = [each for each in server.seen("GET") if "last-event-id" in each.headers]
        assert [each.headers["last-event-id"] for each in resumed] == ["p1"]
        assert resumed[0].session == "session-1"
        assert times[1] - times[0] >= 0.3


@in_loop
async def test_resuming_goes_on_until_the_answer_is_there():
    def call(request, reply):
        later.append(answer(request))
        reply.stream()
        reply.event("", id="p0", retry=5)
        reply.end()

    def resume(request, reply):
        count = len(server.seen("GET"))
        if count == 2:
            return reply.empty(503)
        if count == 3:
            return reply.abort()
        reply.stream()
        if count < 5:
            reply.event("", id=f"p{count}")
        else:
            reply.event(later[0], id="last")
        return reply.end()

    later = []
    server = RawServer(tools__call=call, GET=resume)
    async with server, connect(server.url, http=QUICK) as client:
        assert said(await client.call_tool("x")) == "done"
        assert [each.headers["last-event-id"] for each in server.seen("GET")] == [
            "p0",
            "p1",
            "p1",
            "p1",
            "p4",
        ]


@pytest.mark.parametrize("status", [400, 404, 405])
@in_loop
async def test_a_stream_that_cannot_be_resumed_fails_its_request_alone(status):
    def call(request, reply):
        reply.stream()
        reply.event("", id="p0", retry=1)
        reply.end()

    def resume(request, reply):
        reply.empty(status)

    async with (
        RawServer(tools__call=call, GET=resume) as server,
        connect(server.url, http=QUICK) as client,
    ):
        with pytest.raises(ConnectionClosed, match=f"resuming was answered with HTTP {status}"):
            await client.call_tool("x")
        await client.ping()
        assert server.opened == 1


@in_loop
async def test_a_stream_that_ends_without_the_answer_and_names_no_event_is_a_clear_error():
    def call(request, reply):
        reply.stream()
        reply.event(progress(request, 1))
        reply.end()

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        with pytest.raises(ConnectionClosed, match="ended without the answer, with no event"):
            await client.call_tool("x")


@in_loop
async def test_a_cancelled_call_stops_resuming():
    def call(request, reply):
        reply.stream()
        reply.event("", id="p0", retry=1)
        reply.end()

    def resume(request, reply):
        reply.stream()
        reply.end()

    async with (
        RawServer(tools__call=call, GET=resume) as server,
        connect(server.url, http=QUICK) as client,
    ):
        task = asyncio.create_task(client.call_tool("x"))
        await until(lambda: len(server.seen("GET")) > 1)
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: not client._link.wire._tasks)


@in_loop
async def test_the_listening_stream_comes_back_where_it_was():
    def listen(request, reply):
        count = len(server.seen("GET"))
        reply.stream()
        for each in range(count, count + 2):
            # The first of them is a repetition, except the first time.
            reply.event(log_message(each), id=f"n{each}", retry=1)
        if count == 3:
            return asyncio.sleep(60)
        return reply.end()

    server = RawServer(GET=listen)
    heard = []
    async with server, connect(server.url, on_log=lambda each: heard.append(each.data)):
        await until(lambda: len(heard) >= 4)
        assert [each.headers.get("last-event-id") for each in server.seen("GET")] == [
            None,
            "n2",
            "n3",
        ]
        assert heard == [1, 2, 3, 4]


@in_loop
async def test_a_listening_stream_that_often_ends_is_followed_all_the_same():
    def listen(request, reply):
        count = len(server.seen("GET"))
        reply.stream()
        reply.event(log_message(count), id=f"n{count}", retry=1)
        return reply.end()

    server = RawServer(GET=listen)
    heard = []
    async with server, connect(server.url, on_log=lambda each: heard.append(each.data)):
        await until(lambda: len(heard) > 12)


@in_loop
async def test_a_listening_that_was_given_up_begins_again_with_the_next_call(monkeypatch):
    monkeypatch.setattr("accord.http.client.streamable._LISTENING_FAILURES", 1)

    def listen(request, reply):
        if len(server.seen("GET")) == 1:
            return reply.empty(503)
        reply.stream()
        reply.event({"jsonrpc": "2.0", "id": "s1", "method": "ping"})
        return asyncio.sleep(60)

    server = RawServer(GET=listen)
    async with server, connect(server.url) as client:
        wire = client._link.wire
        await until(lambda: wire._form._has_given_up)
        await client.call_tool("echo", headers={"X-Of-Call": "1"})
        (answered,) = await until(lambda: server.seen("response"))
        assert "x-of-call" in server.seen("tools/call")[0].headers
        assert "x-of-call" not in answered.headers


@in_loop
async def test_the_listening_of_a_session_that_is_gone_does_not_go_on():
    is_renewed = asyncio.Event()

    async def listen(request, reply):
        reply.stream()
        if request.session == "session-1":
            reply.event(log_message("first"), id="n", retry=1)
            await is_renewed.wait()
            reply.end()
        else:
            reply.event(log_message("second"))
            is_renewed.set()
            await asyncio.sleep(60)

    server = RawServer(GET=listen)
    heard = []
    async with (
        server,
        connect(server.url, on_log=lambda each: heard.append(each.data)) as client,
    ):
        await until(lambda: heard)
        server.sessions.clear()
        await client.ping()
        await until(lambda: len(heard) == 2)
        for _ in range(5):
            await client.ping()
        listening = [each.session for each in server.seen("GET")]
        assert listening == ["session-1", "session-2"]


@in_loop
async def test_a_server_that_forgot_the_event_is_listened_to_from_now_on():
    def listen(request, reply):
        if "last-event-id" in request.headers:
            return reply.empty(404)
        reply.stream()
        reply.event(log_message(len(server.seen("GET"))), id="n", retry=1)
        return reply.end() if len(server.seen("GET")) == 1 else asyncio.sleep(60)

    server = RawServer(GET=listen)
    heard = []
    async with server, connect(server.url, on_log=lambda each: heard.append(each.data)):
        await until(lambda: len(heard) == 2)
        assert server.opened == 1


@cases("status", [400, 401, 404, 405, 501])
@in_loop
async def test_a_server_that_offers_no_listening_is_not_asked_again(status):
    def listen(request, reply):
        reply.empty(status)

    async with RawServer(GET=listen) as server, connect(server.url) as client:
        await until(lambda: server.seen("GET"))
        for _ in range(5):
            await client.ping()
        assert len(server.seen("GET")) == 1
        assert server.opened == 1


# -- sessions


@pytest.mark.requirement("http.session.client-restarts-on-404")
@in_loop
async def test_fifty_calls_after_a_restart_get_fifty_answers_in_one_new_session():
    renewed = []
    async with RawServer() as server:
        async with connect(server.url, on_renewed=lambda: renewed.append(1), http=QUICK) as client:
            await client.ping()
            await server.stop()
            await server.start()
            calls = [client.call_tool("echo", {"n": n}) for n in range(50)]
            results = await asyncio.gather(*calls)
            assert [said(result)["n"] for result in results] == list(range(50))
            await until(lambda: renewed)
        assert renewed == [1]
        first, second = server.seen("initialize")
        assert second.session is None
        assert second.message["params"] == first.message["params"]
        assert second.message["id"] != first.message["id"]
        told = server.seen("notifications/initialized")
        assert [each.session for each in told] == ["session-1", "session-2"]
        versions = {each.headers.get("mcp-protocol-version") for each in told}
        assert versions == {first.message["params"]["protocolVersion"]}


@in_loop
async def test_nothing_is_sent_in_a_new_session_before_its_opening_is_over():
    async def call(request, reply):
        if request.session == "session-1":
            if request.message["params"]["name"] == "late":
                await until(lambda: len(server.seen("notifications/initialized")) == 2)
                refused.append(1)
            reply.empty(404)
        else:
            server.usual(request, reply)

    async def initialized(request, reply):
        if request.session == "session-2":
            await until(lambda: refused)
            await asyncio.sleep(0.1)
            early.extend(each for each in server.seen("tools/call") if each.session == "session-2")
        server.usual(request, reply)

    refused, early = [], []
    server = RawServer(tools__call=call, notifications__initialized=initialized)
    async with server, connect(server.url, http=QUICK) as client:
        await asyncio.gather(client.call_tool("late"), client.call_tool("soon"))
    assert (refused, early) == ([1], [])


@pytest.mark.parametrize("is_away", [False, True], ids=["renewing", "away"])
@in_loop
async def test_a_call_that_is_cancelled_while_it_waits_is_not_sent_again(is_away):
    gate = asyncio.Event()

    async def initialize(request, reply):
        if server.opened:
            await gate.wait()
        server.initialize(request, reply)

    server = RawServer(initialize=initialize)
    async with server, connect(server.url) as client:
        await client.ping()
        server.sessions.clear()
        if is_away:
            await server.stop()
        given_up = asyncio.ensure_future(client.call_tool("given_up"))
        wanted = asyncio.ensure_future(client.call_tool("wanted"))
        if is_away:
            await asyncio.sleep(0.05)  # clock: the server is away for some attempts
        else:
            await until(lambda: len(server.seen("initialize")) == 2)
        given_up.cancel()
        await asyncio.wait([given_up])
        if is_away:
            await server.start()
        gate.set()
        await wanted
        await client.ping()
    new = [each for each in server.requests if each.session == "session-2"]
    assert [each.message["params"]["name"] for each in new if each.name == "tools/call"] == [
        "wanted"
    ]
    assert "notifications/cancelled" not in {each.name for each in server.requests}


@in_loop
async def test_calls_made_while_the_server_is_away_wait_for_it():
    async with RawServer() as server, connect(server.url) as client:
        await server.stop()
        calls = [asyncio.create_task(client.call_tool("echo", {"n": n})) for n in range(50)]
        await asyncio.sleep(0.3)  # clock: the server is away for some attempts
        await server.start()
        results = await asyncio.gather(*calls)
        assert [said(result)["n"] for result in results] == list(range(50))
        assert len(server.seen("initialize")) == 2


@in_loop
async def test_a_new_session_gets_the_log_level_and_the_subscriptions():
    renewed = []
    async with RawServer() as server:
        async with connect(server.url, on_renewed=lambda: renewed.append(1)) as client:
            await client.set_log_level("debug")
            await client.subscribe("file:///a")
            await client.subscribe("file:///b")
            await client.unsubscribe("file:///a")
            server.sessions.clear()
            await client.ping(headers={"X-Call": "mine"})
            await until(lambda: renewed)
        again = [each for each in server.requests if each.session == "session-2"]
        # The headers of one call go with that call alone.
        assert [each.name for each in again if "x-call" in each.headers] == ["ping"]
        levels = [each.message["params"] for each in again if each.name == "logging/setLevel"]
        uris = [each.message["params"] for each in again if each.name == "resources/subscribe"]
        assert [level["level"] for level in levels] == ["debug"]
        assert [params["uri"] for params in uris] == ["file:///b"]


@in_loop
async def test_a_session_that_ends_under_a_listening_client_is_renewed_at_once():
    def listen(request, reply):
        if request.session not in server.sessions:
            return reply.empty(404)
        reply.stream()
        reply.event(log_message(request.session), retry=1)
        if server.opened == 1:
            server.sessions.clear()
            return reply.end()
        return asyncio.sleep(60)

    server = RawServer(GET=listen)
    heard, renewed = [], []
    async with (
        server,
        connect(
            server.url,
            on_log=lambda each: heard.append(each.data),
            on_renewed=lambda: renewed.append(1),
        ),
    ):
        await until(lambda: len(heard) == 2)
        assert heard == ["session-1", "session-2"]
        assert renewed == [1]


@in_loop
async def test_a_session_can_end_again_and_again():
    async with RawServer() as server, connect(server.url, http=QUICK) as client:
        for round in range(1, 6):
            server.sessions.clear()
            assert said(await client.call_tool("echo", {"n": round})) == {"n": round}
            assert server.opened == round + 1


@in_loop
async def test_a_notification_that_the_old_session_did_not_take_reaches_the_new_one():
    async with (
        RawServer() as server,
        connect(server.url, roots=["/tmp"], http=QUICK) as client,
    ):
        server.sessions.clear()
        await client.roots_changed()
        told = await until(lambda: server.seen("notifications/roots/list_changed")[1:])
        assert [each.session for each in told] == ["session-2"]


@in_loop
async def test_a_server_that_restarts_twice_costs_no_call():
    async def call(request, reply):
        if request.session == "session-1" and request.message["params"]["name"] == "first":
            reply.empty(404)
        else:
            server.usual(request, reply)

    async def initialized(request, reply):
        if request.session == "session-2":
            # Gone again before anything could be sent in the new session.
            server._server.close()
            others = server._connections - {asyncio.current_task()}
            for each in others:
                each.cancel()
            await asyncio.gather(*others, return_exceptions=True)
            await asyncio.sleep(0.05)
            restart.set()
        reply.empty(202, Connection="close")

    restart = asyncio.Event()
    server = RawServer(tools__call=call, notifications__initialized=initialized)
    async with server, connect(server.url) as client:
        calling = asyncio.ensure_future(client.call_tool("first", {"n": 1}))
        await restart.wait()
        await server.stop()
        await asyncio.sleep(0.1)  # clock: the server is away for some attempts
        await server.start()
        assert said(await calling) == {"n": 1}
    assert len(server.seen("initialize")) == 3


@in_loop
async def test_a_server_that_knows_no_session_gives_one_clear_error():
    def refuse(request, reply):
        reply.body(404, b"session not found", "text/plain")

    async with (
        RawServer(ping=refuse) as server,
        connect(server.url, http=QUICK) as client,
    ):
        with pytest.raises(
            ConnectionClosed, match=r"ping: .*HTTP 404 also for .*several processes"
        ):
            await client.ping()
        assert len(server.seen("initialize")) == 2
        assert len(server.seen("ping")) == 2


@in_loop
async def test_a_server_that_refuses_the_opening_of_its_new_session_gives_one_clear_error():
    def refuse(request, reply):
        reply.body(404, b"session not found", "text/plain")

    async with RawServer() as server, connect(server.url, http=QUICK) as client:
        server.sessions.clear()
        server.behaviours["notifications/initialized"] = refuse
        calls = [client.call_tool("echo", {}) for _ in range(10)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in outcomes} == {ConnectionClosed}
        assert "session not found" in str(outcomes[0])
        assert len(server.seen("initialize")) == 2
        assert not client.is_closed


@cases("status", [400, 401, 403, 404])
@in_loop
async def test_a_server_that_refuses_every_new_session_gives_one_clear_error(status):
    def refuse(request, reply):
        reply.body(status, b"go away", "text/plain")

    async with RawServer() as server, connect(server.url, http=QUICK) as client:
        server.sessions.clear()
        server.behaviours["initialize"] = refuse
        calls = [client.call_tool("echo", {}) for _ in range(10)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in outcomes} == {ConnectionClosed}
        assert f"HTTP {status}: go away" in str(outcomes[0])
        assert len(server.seen("initialize")) == 2
        del server.behaviours["initialize"]
        await client.call_tool("echo", {})


@in_loop
async def test_a_server_that_fails_for_a_moment_while_a_session_is_renewed_is_tried_again():
    def fail(request, reply):
        if len(server.seen("initialize")) < 4:
            return reply.empty(503)
        return server.initialize(request, reply)

    server = RawServer()
    async with server, connect(server.url) as client:
        server.sessions.clear()
        server.behaviours["initialize"] = fail
        assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
        assert len(server.seen("initialize")) == 4


@in_loop
async def test_a_server_that_comes_back_with_another_revision_ends_the_connection():
    async with RawServer() as server:
        client = await connect(server.url, revision="2025-06-18", http=QUICK)
        server.sessions.clear()
        server.revision = "2025-03-26"
        with pytest.raises(ConnectionClosed, match="2025-03-26"):
            await client.ping()
        await until(lambda: client.is_closed)
        await client.close()


@in_loop
async def test_a_call_that_was_under_way_when_the_session_ended_is_not_repeated():
    async def call(request, reply):
        ran.append(1)
        reply.abort()

    ran = []
    async with (
        RawServer(tools__call=call) as server,
        connect(server.url, http=QUICK) as client,
    ):
        with pytest.raises(ConnectionClosed, match="whether the server carried it out"):
            await client.call_tool("x")
        assert ran == [1]


@in_loop
async def test_an_answer_to_a_question_is_sent_again_where_the_connection_broke():
    async def listen(request, reply):
        reply.stream()
        reply.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await asyncio.sleep(60)

    def cut(request, reply):
        if len(server.seen("response")) < 3:
            return reply.abort()
        return reply.empty(202)

    server = RawServer(GET=listen, response=cut)
    async with server, connect(server.url):
        await until(lambda: len(server.seen("response")) == 3)


# -- postponed


@in_loop
async def test_a_server_that_asks_to_come_later_is_obeyed():
    def busy(request, reply):
        if len(server.seen("ping")) == 1:
            return reply.empty(429, Retry_After="0")
        return server.usual(request, reply)

    server = RawServer(ping=busy)
    async with server, connect(server.url) as client:
        await client.ping()
        assert len(server.seen("ping")) == 2


@in_loop
async def test_a_server_that_asks_to_come_much_later_is_not_waited_for():
    def busy(request, reply):
        reply.empty(503, Retry_After="3600")

    async with RawServer(ping=busy) as server, connect(server.url, http=QUICK) as client:
        with pytest.raises(RequestError, match="HTTP 503"):
            await client.ping(timeout=60)
        assert len(server.seen("ping")) == 1


@in_loop
async def test_a_call_that_is_cancelled_before_it_may_come_again_is_not_heard_of_any_more():
    def busy(request, reply):
        reply.empty(503, Retry_After="30")

    patient = HttpClientOptions(patience=60, listen=False)
    async with (
        RawServer(tools__call=busy) as server,
        connect(server.url, http=patient) as client,
    ):
        given_up = asyncio.ensure_future(client.call_tool("given_up"))
        await until(lambda: server.seen("tools/call"))
        messages = client._link.wire._messages.values()
        (call,) = [each for each in messages if each.name == "tools/call"]
        await until(lambda: not call.is_sent)
        given_up.cancel()
        await asyncio.wait([given_up])
        await client.ping()
        assert not server.seen("notifications/cancelled")
        assert len(server.seen("tools/call")) == 1


@in_loop
async def test_a_server_that_is_gone_does_not_hold_up_closing():
    async with RawServer() as server, connect(server.url) as client:
        await client.ping()
        await server.stop()


@in_loop
async def test_a_server_that_always_asks_to_come_later_is_not_asked_for_ever():
    def busy(request, reply):
        reply.empty(429, Retry_After="0")

    async with RawServer(ping=busy) as server, connect(server.url) as client:
        with pytest.raises(RequestError, match="HTTP 429"):
            await client.ping()
        assert len(server.seen("ping")) == 4


# -- the older form


@in_loop
async def test_a_stream_of_the_older_form_that_breaks_is_followed_by_a_new_session():
    def never(request, reply):
        reply.empty(202)

    renewed = []
    async with (
        OlderServer(tools__call=never) as server,
        connect(server.url, on_renewed=lambda: renewed.append(1)) as client,
    ):
        lost = asyncio.create_task(client.call_tool("x"))
        await until(lambda: "tools/call" in client._link.wire._form._taken.values())
        server.drop()
        with pytest.raises(ConnectionClosed, match=r"tools/call: .*carried it out is unknown"):
            await lost
        await client.ping()
        await until(lambda: renewed)
        assert server.opened == 2
        assert server.seen("ping")[-1].path == "/messages?id=2"


@in_loop
async def test_fifty_calls_after_a_restart_get_fifty_answers_in_the_older_form_too():
    async with OlderServer() as server, connect(server.url) as client:
        await client.ping()
        await server.stop()
        await asyncio.sleep(0.05)  # clock: the client notices the end of its stream
        calls = [asyncio.create_task(client.call_tool("echo", {"n": n})) for n in range(50)]
        await asyncio.sleep(0.1)  # clock: the server is away for some attempts
        await server.start()
        results = await asyncio.gather(*calls)
        assert [said(result)["n"] for result in results] == list(range(50))
        # One to the stream, which does not take it, and one to each endpoint.
        assert len(server.seen("initialize")) == 3


FIRST = "/messages?id=1"


@pytest.mark.parametrize("is_renewed", [False, True], ids=["before the new session", "after it"])
@in_loop
async def test_a_call_that_was_taken_when_its_stream_had_broken_is_a_clear_error(is_renewed):
    may_answer, may_listen = asyncio.Event(), asyncio.Event()

    async def take(request, reply):
        await may_answer.wait()
        reply.empty(202)

    async def listen(request, reply):
        if server.opened:
            await may_listen.wait()
        await server.listen(request, reply)

    server = OlderServer(tools__call=take, GET=listen)
    async with server, connect(server.url) as client:
        calling = asyncio.ensure_future(client.call_tool("x", timeout=60))
        await until(lambda: server.seen("tools/call"))
        server.drop()
        await until(lambda: len(server.seen("GET")) == 2)
        if is_renewed:
            may_listen.set()
            await until(lambda: len(server.seen("notifications/initialized")) == 2)
        may_answer.set()
        with pytest.raises(ConnectionClosed, match="the stream ended before the answer"):
            await calling
        may_listen.set()
        await client.ping()


@in_loop
async def test_a_call_that_was_not_taken_when_its_stream_had_broken_is_sent_again():
    may_answer = asyncio.Event()

    async def take(request, reply):
        if request.path == FIRST:
            await may_answer.wait()
            reply.empty(404)
        else:
            server.take(request, reply)

    server = OlderServer(tools__call=take)
    async with server, connect(server.url) as client:
        calling = asyncio.ensure_future(client.call_tool("echo", {"n": 1}))
        await until(lambda: server.seen("tools/call"))
        server.drop()
        await until(lambda: len(server.seen("notifications/initialized")) == 2)
        may_answer.set()
        assert said(await calling) == {"n": 1}


@in_loop
async def test_nothing_is_sent_where_no_stream_brings_the_answer():
    def take(request, reply):
        return reply.empty(202) if request.path == FIRST else server.take(request, reply)

    server = OlderServer(tools__call=take)
    async with server, connect(server.url) as client:
        await client.ping()
        server.drop()
        # At once, before anything else can happen.
        while client._link.wire._form._broken is None:
            await asyncio.sleep(0)
        assert said(await client.call_tool("echo", {"n": 1}, timeout=60)) == {"n": 1}
        assert [each.path for each in server.seen("tools/call")] == ["/messages?id=2"]


@in_loop
async def test_a_call_that_was_taken_fails_when_its_session_was_replaced_meanwhile():
    def take(request, reply):
        return server.take(request, reply) if request.path != FIRST else reply.empty(202)

    server = OlderServer(tools__call=take)
    async with server, connect(server.url) as client:
        lost = asyncio.create_task(client.call_tool("x", timeout=60))
        await until(lambda: "tools/call" in client._link.wire._form._taken.values())
        server.streams.clear()
        await client.ping()
        with pytest.raises(ConnectionClosed, match="tools/call: the session was renewed"):
            await lost
        assert server.opened == 2


@in_loop
async def test_requests_of_the_older_form_that_were_answered_are_forgotten():
    async with OlderServer() as server, connect(server.url) as client:
        for _ in range(200):
            await client.ping()
        assert len(client._link.wire._form._taken) <= 64


@in_loop
async def test_a_stream_of_the_older_form_that_is_refused_for_a_moment_is_asked_for_again():
    def listen(request, reply):
        return server.listen(request, reply) if len(server.seen("GET")) != 2 else reply.empty(502)

    server = OlderServer(GET=listen)
    async with server, connect(server.url) as client:
        server.drop()
        await until(lambda: len(server.seen("notifications/initialized")) == 2)
        await client.ping()


@in_loop
async def test_streams_of_the_older_form_may_break_as_often_as_they_like_if_they_last(monkeypatch):
    monkeypatch.setattr("accord.http.client.two_endpoints._BRIEF", -1.0)
    async with OlderServer() as server, connect(server.url) as client:
        told = "notifications/initialized"
        for times in range(2, 9):
            server.drop()
            await until(lambda times=times: len(server.seen(told)) == times)
        await client.ping()


@in_loop
async def test_a_server_of_the_older_form_that_does_not_come_back_ends_the_connection():
    server = OlderServer()
    await server.start()
    client = await connect(server.url, http=QUICK)
    await server.stop()
    await until(lambda: client.is_closed)
    with pytest.raises(ConnectionClosed, match="could not be renewed"):
        await client.ping()
    await client.close()


@in_loop
async def test_streams_of_the_older_form_that_end_at_once_are_not_opened_for_ever():
    async with OlderServer() as server:
        client = await connect(server.url, http=QUICK)
        while not client.is_closed:
            server.drop()
            await asyncio.sleep(0.01)
        assert server.opened <= 8
        await client.close()


@in_loop
async def test_a_session_of_the_older_form_that_is_unknown_is_begun_anew():
    async with OlderServer() as server, connect(server.url, http=QUICK) as client:
        server.streams.clear()
        assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
        assert server.opened == 2


@pytest.mark.parametrize("status", [400, 500])
@in_loop
async def test_a_call_that_the_older_form_refuses_is_a_clear_error(status):
    def refuse(request, reply):
        reply.body(status, b"not like this", "text/plain")

    async with OlderServer(ping=refuse) as server, connect(server.url) as client:
        with pytest.raises(RequestError, match=f"HTTP {status}: not like this"):
            await client.ping()
        await client.call_tool("echo", {})


@in_loop
async def test_a_call_that_the_older_form_cuts_off_is_a_clear_error():
    def cut(request, reply):
        reply.abort()

    async with OlderServer(ping=cut) as server, connect(server.url) as client:
        with pytest.raises(ConnectionClosed, match="closed the connection"):
            await client.ping()
        await client.call_tool("echo", {})
