"""The app on the ASGI interface itself, without sockets."""

import asyncio
import json
import math
import time
from contextlib import asynccontextmanager

import pytest

from accord import Context, Principal, Server
from accord.http.server.app import HttpApp
from accord.http.server.exchange import AsgiExchange
from accord.http.settings import read_http_settings
from accord.sharing import MemoryBackend
from support.asgi import Asgi, Exchange
from support.http_offer import offer
from support.http_talk import call, initialize, notification, request, text_of
from support.stored_apps import IS_STORED, in_one_process
from support.waiting import in_loop, run, until

# -- starting and stopping


class Lifespan:
    """The lifespan of an app, driven by the test."""

    def __init__(self, app):
        self.sent = []
        self._incoming = asyncio.Queue()
        self.task = asyncio.create_task(app({"type": "lifespan"}, self._incoming.get, self._send))

    async def _send(self, message):
        self.sent.append(message["type"])

    async def say(self, what):
        self._incoming.put_nowait({"type": f"lifespan.{what}"})
        known = len(self.sent)
        await until(lambda: len(self.sent) > known)
        return self.sent[-1]


def test_lifespan_events_start_and_stop_the_server():
    seen = []

    @asynccontextmanager
    async def lifespan(server):
        seen.append("in")
        yield
        seen.append("out")

    async def scenario():
        life = Lifespan(Server("any", lifespan=lifespan).asgi())
        assert await life.say("startup") == "lifespan.startup.complete"
        assert seen == ["in"]
        assert await life.say("shutdown") == "lifespan.shutdown.complete"
        await life.task
        assert seen == ["in", "out"]

    run(scenario())


def test_a_failing_lifespan_is_reported_to_the_asgi_server(caplog):
    @asynccontextmanager
    async def lifespan(server):
        raise RuntimeError("no database")
        yield

    async def scenario():
        life = Lifespan(Server("any", lifespan=lifespan).asgi())
        assert await life.say("startup") == "lifespan.startup.failed"
        await life.task

    run(scenario())
    assert "no database" in caplog.text


def test_a_lifespan_that_fails_at_its_end_is_logged(caplog):
    @asynccontextmanager
    async def lifespan(server):
        yield
        raise RuntimeError("no farewell")

    async def scenario():
        life = Lifespan(Server("any", lifespan=lifespan).asgi())
        await life.say("startup")
        assert await life.say("shutdown") == "lifespan.shutdown.complete"

    run(scenario())
    assert "no farewell" in caplog.text


@in_loop
async def test_an_app_that_was_never_used_stops_at_once():
    app = offer().asgi()
    await app.finish()
    await app.stop()


@in_one_process
def test_an_app_may_be_used_on_one_loop_after_another():
    app = offer().asgi()

    async def scenario():
        client = Asgi(app)
        await client.open()
        assert text_of((await client.post(call(1, "add", a=1, b=2))).json) == "3"
        return client

    run(scenario())
    stale = run(scenario())

    async def come_back():
        client = Asgi(app)
        client.session = stale.session
        assert (await client.post(request(1, "ping"))).status == 404

    run(come_back())


class Restarted:
    """A server with a lifespan and tasks, as an app that is started again and again."""

    def __init__(self, **options):
        self.lives = []
        self.held = asyncio.Event()
        self.server = Server("any", lifespan=self.lifespan)
        self.app = self.server.asgi(grace=0.1, **options)

        @self.server.tool
        async def life(ctx: Context) -> str:
            """Return the number of the lifespan."""
            return str(ctx.state)

        @self.server.tool(task="optional")
        async def hold(ctx: Context, seconds: float) -> str:
            """Take a while."""
            self.held.set()
            await asyncio.sleep(seconds)
            return str(ctx.state)

    @asynccontextmanager
    async def lifespan(self, server):
        self.lives.append("in")
        yield len(self.lives)
        self.lives.append("out")

    async def client(self):
        client = Asgi(self.app)
        await client.open("2025-11-25")
        return client

    async def begin_task(self, client, seconds):
        asked = call(1, "hold", seconds=seconds)
        asked["params"]["task"] = {"ttl": 600_000}
        return (await client.post(asked)).json["result"]["task"]["taskId"]

    async def status(self, client, task):
        got = (await client.post(request(2, "tasks/get", taskId=task))).json
        return got["result"]["status"]


@pytest.mark.parametrize("options", [{}, {"store": "memory"}], ids=["alone", "store"])
@in_loop
async def test_an_app_may_be_started_and_stopped_again_on_one_loop(options):
    store = {"store": MemoryBackend(), "store_keys": "none"} if options else {}
    served = Restarted(**store)
    stale = None
    for number in range(1, 4):
        life = Lifespan(served.app)
        assert await life.say("startup") == "lifespan.startup.complete"
        client = await served.client()
        got = await client.post(call(1, "life"))
        assert text_of(got.json) == str(2 * number - 1)
        if stale is not None:
            client.session = stale
            kept = 200 if store or IS_STORED else 404
            assert (await client.post(request(1, "ping"))).status == kept
        stale = client.session
        assert await life.say("shutdown") == "lifespan.shutdown.complete"
        await life.task
        assert (await client.post(call(1, "life"))).status == 503
    assert served.lives == ["in", "out"] * 3


@in_one_process
@in_loop
async def test_tasks_are_known_after_a_restart_and_those_of_the_old_lifespan_have_ended():
    served = Restarted()
    async with served.app.lifespan():
        client = await served.client()
        quick, slow = await served.begin_task(client, 0), await served.begin_task(client, 3600)
        while await served.status(client, quick) != "completed":
            await asyncio.sleep(0.01)
        assert await served.status(client, slow) == "working"
    async with served.app.lifespan():
        client = await served.client()
        assert await served.status(client, quick) == "completed"
        assert await served.status(client, slow) in ("failed", "cancelled")
        again = await served.begin_task(client, 0)
        while await served.status(client, again) != "completed":
            await asyncio.sleep(0.01)
    assert served.lives == ["in", "out"] * 2


@in_loop
async def test_an_app_that_is_started_while_it_stops_begins_anew_after_that():
    served = Restarted()
    await served.app.start()
    await asyncio.gather(served.app.stop(), served.app.start(), served.app.start())
    assert served.lives == ["in", "out", "in"]
    client = await served.client()
    assert text_of((await client.post(call(1, "life"))).json) == "3"
    await served.app.stop()
    await served.app.stop()
    assert served.lives == ["in", "out"] * 2


@in_loop
async def test_apps_use_the_lifespan_that_the_program_runs():
    served = Restarted()
    async with served.server.run_lifespan() as state:
        other = served.server.asgi(sessions=False)
        async with served.app.lifespan(), other.lifespan():
            for client in (await served.client(), Asgi(other)):
                assert text_of((await client.post(call(1, "life"))).json) == str(state)
        assert served.lives == ["in"]
    assert served.lives == ["in", "out"]


def test_mangum_starts_and_stops_the_app_for_each_request():
    from mangum import Mangum

    served = Restarted(sessions=False, allowed_hosts=["api.example"])
    event = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": "/mcp",
        "rawQueryString": "",
        "headers": {
            "host": "api.example",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
        },
        "requestContext": {"http": {"method": "POST", "path": "/mcp", "sourceIp": "192.0.2.1"}},
        "body": json.dumps(call(1, "life")),
        "isBase64Encoded": False,
    }
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        handler = Mangum(served.app)
        found = [handler(event, None) for _ in range(6)]
    finally:
        asyncio.set_event_loop(None)
        loop.close()
    assert [each["statusCode"] for each in found] == [200] * 6
    answers = [text_of(json.loads(each["body"])) for each in found]
    assert answers == ["1", "3", "5", "7", "9", "11"]
    assert served.lives == ["in", "out"] * 6


def test_concurrent_first_requests_start_the_server_once():
    started = []

    @asynccontextmanager
    async def lifespan(server):
        started.append(server)
        await asyncio.sleep(0.01)
        yield "state"

    server = Server("any", lifespan=lifespan)

    @server.tool
    async def state(ctx: Context) -> str:
        """Return the state."""
        return str(ctx.state)

    async def scenario():
        client = Asgi(server.asgi(sessions=False))
        found = await asyncio.gather(*(client.post(call(1, "state")) for _ in range(5)))
        assert [text_of(each.json) for each in found] == ["state"] * 5
        assert len(started) == 1

    run(scenario())


@in_loop
async def test_websockets_are_refused():
    sent = []

    async def receive():
        return {"type": "websocket.connect"}

    async def send(message):
        sent.append(message["type"])

    await offer().asgi()({"type": "websocket"}, receive, send)
    assert sent == ["websocket.close"]


# -- requests


@in_loop
async def test_a_body_may_come_in_parts():
    client = Asgi(offer().asgi())
    body = json.dumps(initialize()).encode()
    exchange = await client.start("POST", *(body[at : at + 1] for at in range(len(body)))).done()
    assert exchange.status == 200


@pytest.mark.parametrize("parts", [(), (b"{",)])
@in_loop
async def test_a_client_that_leaves_during_its_body_is_not_answered(parts):
    client = Asgi(offer().asgi())
    exchange = client.start("POST")
    for part in parts:
        exchange.feed(part, more=True)
    exchange.disconnect()
    assert (await exchange.done()).sent == []


@pytest.mark.parametrize("port", [4711, "4711"], ids=["number", "text"])
@in_loop
async def test_the_port_of_the_peer_is_a_number(port):
    server = Server("any")

    @server.tool(inline=True)
    def peer(ctx: Context) -> str:
        return repr(ctx.request.peer)

    client = Asgi(server.asgi(sessions=False))
    scope = {**client.scope("POST"), "client": ("127.0.0.1", port)}
    body = json.dumps(call(1, "peer")).encode()
    exchange = await Exchange(client.app, scope, body).done()
    assert text_of(exchange.json) == "('127.0.0.1', 4711)"


@in_loop
async def test_http_2_has_no_connection_header():
    client = Asgi(offer().asgi())
    headers = {f"x_{number}": "x" for number in range(300)}
    for version, has_one in (("1.1", True), ("2", False)):
        scope = {**client.scope("POST", **headers), "http_version": version}
        exchange = await Exchange(client.app, scope, b"{}").done()
        assert exchange.status == 431
        assert ("connection" in exchange.headers) is has_one


@pytest.mark.parametrize(
    ("root", "path"),
    [
        ("", "/mcp"),
        ("", "/mcp/"),
        ("/x", "/x/mcp"),
        ("/x/", "/x/mcp"),
        ("/x", "/mcp"),
        ("/out/x", "/x/mcp"),
        ("/out/a/b", "/a/b/mcp"),
        ("/mcp", "/mcp"),
        ("/mcp", "/mcp/mcp"),
        ("/mc", "/mcp"),
        ("", "mcp/"),
    ],
)
def test_the_endpoint_is_found_for_each_form_of_mount(root, path):
    app = offer().asgi()
    assert app._resolve({"path": path, "root_path": root}) == "/mcp"


@pytest.mark.parametrize(
    ("root", "path"), [("/x", "/x"), ("/x", "/y/mcp"), ("", "/mcp/x"), ("", "")]
)
def test_other_paths_are_not_the_endpoint(root, path):
    app = offer().asgi()
    assert app._resolve({"path": path, "root_path": root}) == path


def test_an_internal_error_is_answered_without_details(caplog):
    async def scenario():
        app = offer().asgi(principal=lambda scope: scope["nobody"])
        client = Asgi(app)
        exchange = await client.post(initialize())
        assert exchange.status == 500
        assert exchange.json["error"] == {"code": -32603, "message": "internal error"}
        assert app.under_way == 0

    run(scenario())
    assert "POST /mcp failed" in caplog.text


class BrokenStore:
    """Keeps one event, then raises."""

    def append(self, session, stream, number, event):
        if number == 1:
            raise OSError("the disk is full")

    def after(self, session, stream, number):
        raise OSError("the disk is full")

    def forget(self, session, stream=None):
        raise OSError("the disk is full")


def test_a_store_that_fails_costs_no_message(caplog):
    async def scenario():
        client = Asgi(offer().asgi(events=BrokenStore()))
        await client.open()
        for id in range(2):
            exchange = await client.post(call(id, "count", token="t", to=3))
            assert len(exchange.events) == 4
        again = await client.start("GET", b"", last_event_id=exchange.ids[0]).done()
        assert again.status == 400
        single = await client.post(call(3, "count", token="t", to=0))
        assert text_of(single.json) == "0"
        assert (await client.start("DELETE").done()).status == 204

    run(scenario())
    assert "the disk is full" in caplog.text


def test_an_error_after_the_answer_has_begun_sends_nothing_more(caplog):
    async def scenario():
        client = Asgi(offer().asgi())
        await client.open()
        sent = []

        async def send(message):
            sent.append(message)
            raise RuntimeError("the server is broken")

        async def receive():
            return {"type": "http.request", "body": b"{", "more_body": False}

        await client.app(client.scope("POST"), receive, send)
        assert len(sent) == 1

    run(scenario())
    assert "the server is broken" in caplog.text


# -- answers


@in_one_process
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
@in_loop
async def test_a_stream_that_ends_before_it_is_sent_is_sent_at_once(revision):
    client = Asgi(offer().asgi(answers="stream"))
    await client.open(revision)
    exchange = await client.post(call(1, "add", a=1, b=2))
    assert len(exchange.sent) == 2
    assert int(exchange.headers["content-length"]) == len(exchange.body)
    assert [text_of(each) for each in exchange.events] == ["3"]
    # Events are stored only if the client can resume.
    assert (client.app.state.events.size > 0) is (revision == "2025-11-25")


@in_loop
async def test_a_large_stream_is_complete_too():
    client = Asgi(offer().asgi())
    await client.open()
    exchange = await client.post(call(1, "count", token="t", to=500, size=1_000))
    assert len(exchange.events) == 501


@in_loop
async def test_middleware_may_log_before_the_session_is_opened():
    async def greet(ctx, proceed):
        await asyncio.sleep(0)
        return await proceed()

    client = Asgi(offer(middleware=[greet]).asgi())
    await client.open()
    assert client.session
    assert text_of((await client.post(call(1, "add", a=1, b=2))).json) == "3"


@in_loop
async def test_a_call_whose_session_ends_is_answered_with_404():
    client = Asgi(offer().asgi())
    await client.open()
    waiting = client.start("POST", json.dumps(call(1, "wait", name="x")).encode())
    await until(lambda: client.app.endpoint.waiting)
    streaming = client.start("POST", json.dumps(call(2, "hold", token=1, name="x")).encode())
    await until(lambda: streaming.sent)
    assert (await client.start("DELETE").done()).status == 204
    assert (await waiting.done()).status == 404
    assert len((await streaming.done()).events) == 1


@in_loop
async def test_a_stopping_server_refuses_calls_in_the_second_half_of_its_grace():
    client = Asgi(offer().asgi(grace=1, sse=True))
    older = client.start("GET", b"", path="/sse")
    await until(lambda: older.sent[1:])
    place = older.body.decode().split("?session_id=")[1].split()[0]
    await client.open()
    streaming = client.start("POST", json.dumps(call(1, "hold", token=1, name="x")).encode())
    await until(lambda: streaming.sent[1:])
    stopping = asyncio.create_task(client.app.stop())
    assert text_of((await client.post(call(2, "add", a=1, b=2))).json) == "3"
    await until(lambda: client.app.state.is_draining)
    refused = await client.post(call(3, "add", a=1, b=2))
    assert (refused.status, refused.headers.get("retry-after")) == (503, "1"), refused.body
    scope = client.scope("POST", "/messages") | {"query_string": f"session_id={place}".encode()}
    elsewhere = await Exchange(client.app, scope, json.dumps(call(3, "add")).encode()).done()
    assert elsewhere.status in (404, 503)
    # Messages for a call under way are still accepted.
    told = await client.post(notification("notifications/cancelled", requestId=1))
    assert told.status == 202
    await stopping
    await streaming.done()
    await older.done()


@in_one_process
@in_loop
async def test_a_client_of_the_older_form_that_reads_nothing_loses_its_session():
    app = offer().asgi(sse=True)
    client = Asgi(app)
    stream = client.start("GET", b"", path="/sse")
    stuck = asyncio.Event()
    await until(lambda: b"endpoint" in stream.body)

    async def stall(message):
        await stuck.wait()

    (session,) = app.sessions
    session.only_stream.reader._exchange.send = stall
    for _ in range(70):
        session.write(b'"' + b"x" * 1_000_000 + b'"', None)
        await asyncio.sleep(0)
    assert len(app.sessions) == 0
    stuck.set()
    await until(stream.task.done)


# -- how long sessions and streams are kept


@pytest.fixture
def brief(monkeypatch):
    """Streams are kept for no time at all."""
    monkeypatch.setattr("accord.http.server.stream._RETIRED_FOR", -1.0)


@in_one_process
@in_loop
async def test_streams_that_no_client_resumes_are_forgotten(brief):
    client = Asgi(offer().asgi())
    await client.open()
    exchange = await client.post(call(1, "count", token="t", to=2))
    app = client.app
    (session,) = app.sessions
    assert app.state.events.size > 0
    assert session.find_stream(1) is not None
    app.state.retired.sweep(app.state.now())
    assert (app.state.events.size, session.streams) == (0, None)
    again = await client.start("GET", b"", last_event_id=exchange.ids[0]).done()
    assert again.status == 400


@in_one_process
@in_loop
async def test_a_session_never_used_after_initialize_ends_soon(monkeypatch):
    monkeypatch.setattr("accord.http.server.sessions._UNOPENED_MOST", 0.0)
    client = Asgi(offer().asgi(sessions=3))
    await client.post(initialize())
    await client.open()
    app = client.app
    assert len(app.sessions) == 2
    await asyncio.sleep(0.01)  # clock: a session gets older
    app.sessions.sweep(app.state.now())
    assert [each.id for each in app.sessions] == [client.session]
    # An ended session makes room only once.
    monkeypatch.undo()
    assert (await Asgi(app).post(initialize())).status == 200
    await Asgi(app).open()
    assert (await Asgi(app).post(initialize())).status == 200
    assert len(app.sessions) == 3
    assert client.session in [each.id for each in app.sessions]


@in_loop
async def test_a_session_that_was_just_opened_does_not_end():
    app = offer().asgi()
    await Asgi(app).post(initialize())
    app.sessions.sweep(app.state.now() + 1)
    assert len(app.sessions) == 1


@in_one_process
@in_loop
async def test_each_use_extends_a_session():
    app = offer().asgi(session_idle=100.0)
    client = Asgi(app)
    await client.open()
    began = app.state.now()
    app.state.now = lambda: began + 90
    assert (await client.post(request(1, "ping"))).status == 200
    app.sessions.sweep(began + 180)
    assert (await client.post(request(2, "ping"))).status == 200
    app.sessions.sweep(began + 191)
    assert (await client.post(request(3, "ping"))).status == 404


def test_streams_of_a_request_last_until_its_token_expires():
    def seconds(expires_at):
        ann = Principal("ann", expires_at=expires_at)
        scope = {"method": "GET", "headers": [], "accord.principal": ann}
        return AsgiExchange(read_http_settings({}), scope, None, None).expiry(1000.0) - 1000.0

    assert seconds(None) == math.inf
    assert 100 < seconds(time.time() + 600) <= 600
    # Verifiers allow for clocks that differ.
    assert 0 < seconds(time.time() - 5) <= 60


@in_loop
async def test_an_expired_token_does_not_end_a_session_with_a_call_under_way():
    client = Asgi(offer().asgi())
    await client.open()
    (session,) = client.app.sessions
    session.ends_at = now = client.app.state.now()
    waiting = client.start("POST", json.dumps(call(1, "wait", name="x")).encode())
    await until(lambda: session.session.dispatcher.running)
    assert not session.is_due(now)
    await client.post(call(2, "free", name="x"))
    await waiting.done()
    assert session.is_due(now)
    assert not client.app.endpoint.waiting


@pytest.mark.parametrize("sessions", [False, True], ids=["without session", "of one who left"])
@in_loop
async def test_stopping_waits_for_calls(sessions, monkeypatch):
    monkeypatch.setattr("accord.http.server.app._LAST_RESPONSES", 0.0)
    server = Server("slow")
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []

    @server.tool
    async def slow() -> str:
        began.set()
        await may_end.wait()
        ended.append(True)
        return "done"

    app = server.asgi(sessions=sessions, grace=60)
    client = Asgi(app)
    if sessions:
        await client.open()
    calling = client.start("POST", json.dumps(call(1, "slow", token="t")).encode())
    await began.wait()
    if sessions:
        next(iter(app.endpoint.waiting)).open_stream()
        await until(lambda: calling.sent)
        calling.disconnect()
        await calling.done()
    stopping = asyncio.create_task(app.stop())
    await until(lambda: app.state.is_stopping)
    await asyncio.sleep(0.05)  # clock: time in which a wrong stop would be over
    may_end.set()
    await stopping
    assert ended == [True]


@in_loop
async def test_a_client_that_accepts_only_json_never_gets_a_stream():
    client = Asgi(offer().asgi(keep_alive=0.02))
    await client.open()
    body = json.dumps(call(1, "wait", name="x")).encode()
    plain = client.start("POST", body, accept="application/json")
    streamed = client.start("POST", body.replace(b'"id": 1', b'"id": 2'))
    await until(lambda: streamed.sent)
    await client.post(call(3, "free", name="x"))
    await asyncio.gather(plain.done(), streamed.done())
    kinds = [each.headers["content-type"] for each in (plain, streamed)]
    assert kinds == ["application/json", "text/event-stream"]


def test_a_verifier_that_raises_ends_no_stream(caplog):
    async def fails():
        raise RuntimeError("out of order")

    async def is_revoked():
        return False

    async def scenario():
        client = Asgi(offer().asgi())
        await client.open()
        listening = []
        for admitted in (fails, is_revoked, fails):
            scope = {**client.scope("GET"), "accord.admitted": admitted}
            listening.append(Exchange(client.app, scope, b""))
            await until(lambda: listening[-1].sent)
        await client.app._recheck()
        await listening[1].done()
        assert [each.task.done() for each in listening] == [False, True, False]
        await client.start("DELETE").done()
        await asyncio.gather(*(each.done() for each in listening))

    run(scenario())
    assert "out of order" in caplog.text


@in_loop
async def test_an_ended_session_leaves_nothing_behind():
    client = Asgi(offer().asgi())
    await client.open()
    await client.post(call(1, "count", token="t", to=2))
    listening = await client.get()
    await client.start("DELETE").done()
    await listening.done()
    app = client.app
    assert (len(app.sessions), app.state.events.size, app.state.readers, app.under_way) == (
        0,
        0,
        set(),
        0,
    )
    assert len(app.server.sessions) == 0


def test_options_have_defaults():
    app = HttpApp(offer()._core)
    assert app.options["path"] == "/mcp"


@in_loop
async def test_without_a_session_messages_after_the_answer_are_dropped():
    client = Asgi(offer().asgi(sessions=False))
    assert text_of((await client.post(call(1, "note_later", name="x"))).json) == "soon"
    await client.post(call(1, "free", name="x"))
    await asyncio.sleep(0)
    assert client.app.state.events.size == 0


@in_loop
async def test_messages_of_a_cancelled_call_are_dropped():
    server = offer()
    contexts = []

    @server.tool
    async def stubborn(ctx: Context) -> str:
        """Log after the cancellation."""
        contexts.append(ctx)
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            ctx.info("still here")
            raise
        return "never"

    client = Asgi(server.asgi())
    await client.open()
    exchange = client.start("POST", json.dumps(call(1, "stubborn")).encode())
    await until(lambda: contexts)
    await client.post(notification("notifications/cancelled", requestId=1))
    assert ((await exchange.done()).status, exchange.events) == (200, [])
