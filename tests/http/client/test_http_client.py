"""A client over HTTP against a server whose every byte is known."""

import asyncio
import json
import logging

import aiohttp
import pytest

from accord.client import connect
from accord.errors import ConnectFailed, RequestError, RequestTimeout
from accord.http.client.sender import HttpClientOptions
from accord.protocol.revisions import REVISIONS
from support.raw_http import OlderServer, RawServer
from support.waiting import in_loop, run, until

WITH_HEADER = [row.id for row in REVISIONS.values() if row.handshake and row.version_header]
WITHOUT_HEADER = [row.id for row in REVISIONS.values() if row.handshake and not row.version_header]


def said(result):
    return json.loads(result.content[0].text)


@pytest.fixture(autouse=True)
def nothing_is_left(caplog):
    """No mistake of ours may hide in the log."""
    caplog.set_level(logging.WARNING)
    yield
    ours = [each for each in caplog.get_records("call") if each.name.startswith("accord")]
    assert not [each for each in ours if each.levelno >= logging.ERROR]


def text_event(request, text):
    content = [{"type": "text", "text": json.dumps(text)}]
    return {
        "jsonrpc": "2.0",
        "id": request.message["id"],
        "result": {"content": content, "isError": False},
    }


# -- what is sent


@pytest.mark.requirement(
    "http.client.post-messages",
    "http.client.accept-both",
    "http.client.protocol-version-header",
    "http.post.body-message-or-batch",
    "session.id.client-echo",
    "session.id.header-name",
)
@pytest.mark.parametrize("revision", WITH_HEADER)
@in_loop
async def test_every_request_carries_what_the_protocol_wants(revision):
    async with RawServer() as server:
        async with connect(server.url, revision=revision) as client:
            assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
            await until(lambda: server.seen("GET"))
        first, *others = server.requests
        assert "mcp-session-id" not in first.headers
        assert "mcp-protocol-version" not in first.headers
        for request in others:
            assert request.session == "session-1"
            assert request.headers["mcp-protocol-version"] == revision
        for request in server.requests:
            if request.method == "POST":
                assert request.headers["accept"] == "application/json, text/event-stream"
                assert request.headers["content-type"] == "application/json"
        assert [request.name for request in server.requests][:2] == [
            "initialize",
            "notifications/initialized",
        ]


@pytest.mark.parametrize("revision", WITHOUT_HEADER)
@in_loop
async def test_older_revisions_have_no_version_header(revision):
    async with RawServer() as server:
        async with connect(server.url, revision=revision) as client:
            await client.ping()
        assert all("mcp-protocol-version" not in each.headers for each in server.requests)


@pytest.mark.requirement("session.end.client-delete")
@in_loop
async def test_closing_ends_the_session_by_delete():
    async with RawServer() as server:
        async with connect(server.url) as client:
            await client.ping()
        assert [request.session for request in server.seen("DELETE")] == ["session-1"]
        assert not server.sessions


@in_loop
async def test_a_server_without_sessions_gets_no_session_id_and_no_delete():
    def initialize(request, reply):
        reply.result(request, server.opening(request))

    def ping(request, reply):
        reply.result(request, {})

    def initialized(request, reply):
        reply.empty(202)

    server = RawServer(
        initialize=initialize, ping=ping, **{"notifications/initialized": initialized}
    )
    async with server, connect(server.url) as client:
        await client.ping()
    assert not server.seen("DELETE")
    assert all(request.session is None for request in server.requests)


@in_loop
async def test_nothing_is_said_before_the_server_has_taken_the_end_of_the_opening():
    async def initialized(request, reply):
        await asyncio.sleep(0.1)
        taken.append(len(server.requests))
        reply.empty(202)

    taken = []
    server = RawServer(**{"notifications/initialized": initialized})
    async with server, connect(server.url, revision="2025-11-25") as client:
        await asyncio.gather(client.ping(), client.ping())
        assert taken == [2]


@in_loop
async def test_headers_travel_with_every_request_and_with_one_call():
    async with RawServer() as server:
        async with connect(server.url, headers={"Authorization": "Bearer x"}) as client:
            await client.call_tool("echo", {}, headers={"X-Trace": "7"})
            await client.call_tool("echo", {})
        assert {request.headers["authorization"] for request in server.requests} == {"Bearer x"}
        assert [each.headers.get("x-trace") for each in server.seen("tools/call")] == [
            "7",
            None,
        ]


@in_loop
async def test_of_two_headers_with_one_name_the_more_particular_counts():
    async with RawServer() as server:
        headers = {"x-a": "all", "accept-encoding": "gzip"}
        async with connect(server.url, headers=headers) as client:
            await client.ping(headers={"X-A": "one"})
        (ping,) = server.seen("ping")
        assert ping.headers["x-a"] == "one"
        assert ping.headers["accept-encoding"] == "gzip"
        others = [each for each in server.requests if each is not ping]
        assert {each.headers["x-a"] for each in others} == {"all"}


@pytest.mark.parametrize("is_async", [False, True])
@in_loop
async def test_headers_from_a_function_are_made_for_each_request(is_async):
    made = []

    def fresh():
        made.append(len(made))
        return {"Authorization": f"Bearer {made[-1]}"}

    async def fresh_async():
        return fresh()

    async with RawServer() as server:
        async with connect(server.url, headers=fresh_async if is_async else fresh) as client:
            await client.ping()
        tokens = [request.headers["authorization"] for request in server.requests]
        assert len(set(tokens)) == len(tokens) >= 3


def test_a_function_for_headers_that_fails_fails_the_call_and_nothing_else(caplog):
    def headers():
        if is_broken:
            raise LookupError("no token")
        return {}

    is_broken = False

    async def main():
        nonlocal is_broken
        async with RawServer() as server, connect(server.url, headers=headers) as client:
            is_broken = True
            with pytest.raises(Exception, match="function for headers failed: LookupError"):
                await client.ping()
            is_broken = False
            await client.ping()

    run(main())
    assert "no token" in caplog.text
    caplog.clear()


@pytest.mark.parametrize(
    "headers",
    [{"a b": "x"}, {"X-A": "line\r\nX-B: y"}, {"Mcp-Session-Id": "mine"}, {"Accept": "text/html"}],
)
@in_loop
async def test_headers_that_cannot_be_sent_are_refused_before_anything_is(headers):
    async with RawServer() as server:
        with pytest.raises(ValueError, match="header"):
            await connect(server.url, headers=headers)
        assert not server.requests
        async with connect(server.url) as client:
            with pytest.raises(ValueError, match="header"):
                await client.ping(headers=headers)
        assert not server.seen("ping")


@in_loop
async def test_a_session_of_the_applications_own_is_used_and_left_open():
    async with RawServer() as server, aiohttp.ClientSession(headers={"X-Mine": "1"}) as mine:
        async with connect(server.url, http=HttpClientOptions(session=mine)) as client:
            await client.ping()
        assert {request.headers["x-mine"] for request in server.requests} == {"1"}
        assert not mine.closed


def test_whatever_sends_requests_may_take_the_place_of_the_library():
    class Answer:
        def __init__(self, status, headers, body):
            self.status, self.headers, self.parts = status, headers, [body]

        def header(self, name):
            return self.headers.get(name.lower())

        async def chunk(self):
            return self.parts.pop() if self.parts else b""

        def close(self):
            pass

    class Sender:
        async def send(self, method, url, headers, body=None):
            sent.append((method, url))
            if method != "POST":
                return Answer(405, {}, b"")
            message = json.loads(body)
            if "id" not in message:
                return Answer(202, {}, b"")
            result = opening if message["method"] == "initialize" else {}
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
            kind = {"content-type": "application/json"}
            return Answer(200, kind, json.dumps(answer).encode())

    sent = []
    opening = {
        "protocolVersion": WITH_HEADER[0],
        "capabilities": {},
        "serverInfo": {"name": "none", "version": "0"},
    }

    async def main():
        options = HttpClientOptions(sender=Sender())
        async with connect("https://example.com/mcp", http=options) as client:
            await client.ping()

    run(main())
    assert ("POST", "https://example.com/mcp") in sent


# -- what comes back


@pytest.mark.requirement("http.client.supports-both-forms")
@in_loop
async def test_an_answer_may_be_an_event_stream_with_news_before_it():
    async def call(request, reply):
        token = request.message["params"]["_meta"]["progressToken"]
        reply.stream()
        reply.text(b": keep-alive\n\n")
        reply.event("", id="prime", retry=10)
        reply.event("{}", event="unknown")
        for step in (1, 2):
            params = {"progressToken": token, "progress": step}
            reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        reply.event(text_event(request, "streamed"), event="message")
        reply.end()

    got = []
    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        result = await client.call_tool("x", {}, on_progress=got.append)
        assert said(result) == "streamed"
        assert [each.progress for each in got] == [1, 2]


@in_loop
async def test_the_opening_may_be_answered_by_an_event_stream():
    def initialize(request, reply):
        server.sessions.add("s")
        reply.stream(Mcp_Session_Id="s")
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": server.opening(request)}
        reply.event(answer)
        reply.end()

    server = RawServer(initialize=initialize)
    async with server, connect(server.url) as client:
        await client.ping()
    assert {request.session for request in server.requests} == {None, "s"}


@in_loop
async def test_connections_are_used_again_after_streams():
    def call(request, reply):
        reply.stream()
        reply.event(text_event(request, "x"))
        reply.end()

    options = HttpClientOptions(listen=False)
    async with (
        RawServer(tools__call=call) as server,
        connect(server.url, http=options) as client,
    ):
        for _ in range(20):
            await client.call_tool("x")
        assert len(server._connections) <= 2


@in_loop
async def test_a_server_that_does_not_end_its_stream_costs_no_time():
    async def call(request, reply):
        reply.stream()
        reply.event(text_event(request, "x"))
        await asyncio.sleep(60)

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        async with asyncio.timeout(30):
            await client.call_tool("x")


@pytest.mark.requirement("http.get.client-may-listen", "http.get.accept-event-stream")
@in_loop
async def test_requests_of_the_server_outside_calls_arrive_on_the_listening_stream():
    async def listen(request, reply):
        reply.stream()
        note = {"level": "info", "data": "hello"}
        reply.event({"jsonrpc": "2.0", "method": "notifications/message", "params": note})
        reply.event({"jsonrpc": "2.0", "id": "q", "method": "ping"})
        await asyncio.sleep(60)

    heard = []
    async with RawServer(GET=listen) as server:
        async with connect(server.url, on_log=heard.append):
            await until(lambda: heard and server.seen("response"))
        assert heard[0].data == "hello"
        assert server.seen("GET")[0].headers["accept"] == "text/event-stream"
        (answer,) = server.seen("response")
        assert answer.message == {"jsonrpc": "2.0", "id": "q", "result": {}}


@in_loop
async def test_questions_in_a_batch_are_answered_in_one():
    async def listen(request, reply):
        reply.stream()
        reply.event([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("a", "b")])
        await asyncio.sleep(60)

    server = RawServer(GET=listen)
    batching = next(row.id for row in REVISIONS.values() if row.batching)
    async with server, connect(server.url, revision=batching):
        await until(lambda: [each for each in server.requests if isinstance(each.message, list)])
    (answers,) = [each for each in server.requests if isinstance(each.message, list)]
    assert [each["id"] for each in answers.message] == ["a", "b"]


@in_loop
async def test_listening_can_be_switched_off():
    async with RawServer() as server:
        async with connect(server.url, http=HttpClientOptions(listen=False)) as client:
            await client.ping()
        assert not server.seen("GET")


@pytest.mark.parametrize("is_stream", [False, True])
@in_loop
async def test_answers_of_many_megabytes_come_whole(is_stream):
    text = "x" * 8_000_000

    def call(request, reply):
        if not is_stream:
            return reply.result(request, text_event(request, text)["result"])
        reply.stream()
        whole = json.dumps(text_event(request, text)).encode()
        reply.text(b"data: ")
        for start in range(0, len(whole), 100_000):
            reply.text(whole[start : start + 100_000])
        reply.text(b"\n\n")
        return reply.end()

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        assert said(await client.call_tool("x")) == text


@in_loop
async def test_requests_of_megabytes_leave_whole():
    async with RawServer() as server, connect(server.url) as client:
        text = "y" * 3_000_000
        assert said(await client.call_tool("echo", {"text": text})) == {"text": text}


@in_loop
async def test_an_answer_that_arrives_byte_by_byte_is_the_same():
    async def call(request, reply):
        body = json.dumps(text_event(request, "slow")).encode()
        reply.head(
            200, Content_Type="application/json; charset=utf-8", Content_Length=str(len(body))
        )
        for index in range(len(body)):
            reply.raw(body[index : index + 1])
            await asyncio.sleep(0)

    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        assert said(await client.call_tool("x")) == "slow"


@in_loop
async def test_many_calls_at_once_get_each_its_own_answer():
    async with RawServer() as server, connect(server.url) as client:
        calls = [client.call_tool("echo", {"n": n}) for n in range(200)]
        results = await asyncio.gather(*calls)
        assert [said(result)["n"] for result in results] == list(range(200))


# -- cancelling and ending


@in_loop
async def test_a_call_that_is_cancelled_before_it_could_leave_is_never_sent():
    gate = asyncio.Event()

    async def slow(request, reply):
        await gate.wait()
        server.usual(request, reply)

    server = RawServer(notifications__initialized=slow)
    async with server, connect(server.url) as client:
        call = asyncio.ensure_future(client.call_tool("echo"))
        await until(lambda: server.seen("notifications/initialized"))
        call.cancel()
        await asyncio.wait([call])
        gate.set()
        await client.ping()
    names = {each.name for each in server.requests}
    assert names.isdisjoint({"tools/call", "notifications/cancelled"})


@pytest.mark.requirement("http.cancel.explicit")
@in_loop
async def test_a_call_that_takes_too_long_is_cancelled_and_its_connection_closed():
    async def call(request, reply):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    ended = []
    async with RawServer(tools__call=call) as server, connect(server.url) as client:
        with pytest.raises(RequestTimeout):
            await client.call_tool("x", timeout=0.1)
        (notice,) = await until(lambda: server.seen("notifications/cancelled"))
        (request,) = server.seen("tools/call")
        assert notice.message["params"]["requestId"] == request.message["id"]
        await until(lambda: not client._link.wire._requests)
        await client.ping()


@in_loop
async def test_closing_leaves_nothing_running_whatever_is_under_way():
    async def call(request, reply):
        reply.stream()
        await asyncio.sleep(60)

    async with RawServer(tools__call=call, GET=call) as server:
        client = await connect(server.url)
        calls = [asyncio.create_task(client.call_tool("x")) for _ in range(5)]
        await until(lambda: len(server.seen("tools/call")) == 5)
        await client.close()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each).__name__ for each in outcomes} == {"ConnectionClosed"}
        ours = {task for task in asyncio.all_tasks() if "accord" in repr(task.get_coro())}
        assert not ours


@in_loop
async def test_notifications_written_just_before_closing_are_sent():
    async with RawServer() as server:
        async with connect(server.url, roots=["/tmp"]) as client:
            await client.roots_changed()
        assert server.seen("notifications/roots/list_changed")


@in_loop
async def test_a_server_that_hangs_does_not_hold_up_closing():
    async def hang(request, reply):
        await asyncio.sleep(60)

    async with RawServer(DELETE=hang) as server:
        client = await connect(server.url)
        async with asyncio.timeout(30):
            await client.close()


@in_loop
async def test_connecting_to_a_server_that_never_answers_ends_in_time():
    async def hang(request, reply):
        await asyncio.sleep(60)

    async with RawServer(initialize=hang) as server:
        with pytest.raises(ConnectFailed, match=r"within 0\.2 s"):
            await connect(server.url, connect_timeout=0.2)


# -- redirects


def moved(status, to):
    def redirect(request, reply):
        if request.path == "/mcp":
            return reply.empty(status, Location=to)
        return server.initialize(request, reply)

    server = RawServer(initialize=redirect)
    return server


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@in_loop
async def test_a_redirect_on_the_same_host_is_followed_and_remembered(status):
    server = moved(status, "/mcp/")
    async with server:
        async with connect(server.url, revision="2025-11-25") as client:
            await client.ping()
        assert [request.path for request in server.requests][:1] == ["/mcp"]
        assert {request.path for request in server.requests[1:]} == {"/mcp/"}


@in_loop
async def test_a_redirect_to_another_host_is_refused():
    server = moved(307, "http://other.example/mcp")
    async with server:
        with pytest.raises(ConnectFailed, match=r"HTTP 307.*redirects elsewhere") as caught:
            await connect(server.url, headers={"Authorization": "secret"})
        assert "(which redirects to http://other.example/mcp):" in str(caught.value)


@in_loop
async def test_the_target_of_a_redirect_is_named_without_its_query():
    def page(request, reply):
        if request.path == "/mcp":
            reply.empty(302, Location="/login?ticket=secret")
        else:
            reply.body(200, b"<title>Sign in</title>", "text/html")

    async with RawServer(initialize=page) as server:
        with pytest.raises(ConnectFailed, match=r"/login\): HTTP 200: Sign in") as caught:
            await connect(server.url)
        assert "secret" not in str(caught.value)


@in_loop
async def test_a_redirect_in_a_circle_ends():
    def circle(request, reply):
        reply.empty(307, Location="/mcp")

    async with RawServer(initialize=circle) as server:
        with pytest.raises(ConnectFailed, match="HTTP 307"):
            await connect(server.url)
        assert len(server.requests) < 10


# -- the older form


@pytest.mark.requirement("sse.client.posts-to-endpoint", "http.compat.sse-fallback-any-4xx")
@pytest.mark.parametrize("transport", [None, "sse"])
@in_loop
async def test_a_server_of_the_older_form_is_spoken_to_in_that_form(transport):
    async with OlderServer() as server:
        async with connect(server.url, revision="2025-11-25", transport=transport) as client:
            assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
        posts = [each.path for each in server.requests if each.method == "POST"]
        assert set(posts[1 if transport is None else 0 :]) == {"/messages?id=1"}


@pytest.mark.requirement("http.compat.sse-fallback-statuses")
@pytest.mark.parametrize(
    ("status", "falls_back"), [(400, True), (404, True), (405, True), (500, False), (503, False)]
)
@in_loop
async def test_the_status_of_the_first_post_decides_whether_the_older_form_is_tried(
    status, falls_back
):
    class Refusing(OlderServer):
        def _behaviour(self, request):
            if request.method == "POST" and request.path == "/sse":
                return lambda request, reply: reply.body(status, b"what?", "text/plain")
            return super()._behaviour(request)

    async with Refusing() as server:
        if falls_back:
            async with connect(server.url, revision="2025-11-25") as client:
                assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
        else:
            with pytest.raises(ConnectFailed, match=f"HTTP {status}"):
                await connect(server.url, revision="2025-11-25")
        assert bool(server.seen("GET")) is falls_back


@pytest.mark.parametrize(
    "endpoint",
    ["http://other.example/messages", "https://127.0.0.1/messages", "//other.example/x"],
)
@in_loop
async def test_an_endpoint_of_another_origin_is_refused(endpoint):
    async with OlderServer(endpoint=endpoint) as server:
        with pytest.raises(ConnectFailed, match="endpoint elsewhere"):
            await connect(server.url, transport="sse", headers={"Authorization": "secret"})


@in_loop
async def test_a_stream_without_an_endpoint_is_refused():
    def listen(request, reply):
        reply.stream(chunked=False)
        reply.event("{}")
        reply.end()

    async with OlderServer(GET=listen) as server:
        with pytest.raises(ConnectFailed, match="does not name an endpoint"):
            await connect(server.url, transport="sse")


@in_loop
async def test_forcing_the_newer_form_does_not_fall_back():
    async with OlderServer() as server:
        with pytest.raises(ConnectFailed, match="HTTP 405"):
            await connect(server.url, transport="http")
        assert not server.seen("GET")


@in_loop
async def test_a_server_of_neither_form_is_reported_by_its_answer_to_initialize():
    def refuse(request, reply):
        reply.body(400, b"what is this?", "text/plain")

    async with RawServer(initialize=refuse) as server:
        with pytest.raises(ConnectFailed, match=r"HTTP 400: what is this\?"):
            await connect(server.url)
        assert server.seen("GET")


@pytest.mark.requirement("http.compat.sse-fallback-checks-body")
@in_loop
async def test_a_refusal_in_the_words_of_the_protocol_is_an_answer_and_no_reason_to_fall_back():
    def refuse(request, reply):
        error = {"code": -32602, "message": "no", "data": {"supported": ["1999-01-01"]}}
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "error": error}
        reply.json(answer, status=400)

    async with RawServer(initialize=refuse) as server:
        with pytest.raises(ConnectFailed, match="1999-01-01"):
            await connect(server.url)
        assert not server.seen("GET")


@in_loop
async def test_an_error_of_the_protocol_with_an_error_status_is_that_error():
    def refuse(request, reply):
        error = {"code": -32602, "message": "bad arguments"}
        reply.json({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, status=400)

    async with RawServer(tools__call=refuse) as server, connect(server.url) as client:
        with pytest.raises(RequestError, match="bad arguments") as caught:
            await client.call_tool("x")
        assert caught.value.code == -32602


@pytest.mark.parametrize("url", ["http://", "https:///path", "http://[::1/x"])
@in_loop
async def test_a_malformed_server_url_is_refused(url):
    with pytest.raises(ValueError):
        await connect(url)


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("localhost:8000/mcp", "is it http://localhost:8000/mcp?"),
        ("example.com:80", "is it http://example.com:80?"),
        ("ws://localhost/mcp", "URLs begin with http:// or https://"),
        ("python server", 'a command is a list, such as ["python", "server.py"]'),
    ],
)
@in_loop
async def test_an_invalid_target_is_refused_with_a_suggestion(target, hint):
    with pytest.raises(ConnectFailed) as caught:
        await connect(target)
    assert str(caught.value).endswith(hint)


@in_loop
async def test_the_scheme_of_a_url_may_be_written_in_any_case():
    async with (
        RawServer() as server,
        connect(server.url.replace("http", "HTTP", 1)) as client,
    ):
        await client.ping()
