"""Requests that stand on their own beside sessions, on the ASGI interface itself."""

import asyncio
import json
import time
from itertools import count
from typing import Annotated

import pytest

from accord import Context, Header, Principal, Server
from accord.auth import Protected
from accord.http.settings import HttpLimits
from accord.testing import run_in_virtual_time
from support.http_offer import offer
from support.http_server import bounded, giving
from support.http_talk import call as session_call
from support.http_talk import notification, text_of
from support.modern import PREFIX, REVISION, meta
from support.stateless import Modern, call, headers_of, modern
from support.tables import cases
from support.waiting import in_loop, run, until

OLDER = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
UNKNOWN = "2099-01-01"


def serve(scenario, app=None):
    """Run a scenario with a client of an app; the app stops at the end."""

    async def whole():
        served = app or offer().asgi()
        try:
            await scenario(Modern(served))
        finally:
            await served.stop()

    run_in_virtual_time(whole())


def for_client(make=lambda: offer().asgi()):
    """Run an async test with a client of an app that is made for it, in virtual time."""
    return giving("client", lambda test: serve(test, make()))


def error_of(response):
    return response.status, response.json["id"], response.json["error"]["code"]


# -- which requests are served


@pytest.mark.requirement(
    "http.endpoint.single-post",
    "http.legacy-traffic.session-header-ignored",
    "http.legacy-traffic.last-event-id-ignored",
    "versioning.dual-era.meta-selects-modern",
)
@pytest.mark.parametrize("settings", [{}, {"sessions": False}, {"answers": "json"}])
def test_a_request_needs_no_session(settings):
    async def scenario(client):
        for more in ({}, {"mcp_session_id": "unknown"}, {"last_event_id": "1-1"}):
            response = await client.ask(call("add", a=1, b=2), **more)
            assert (response.status, response.headers["content-type"]) == (200, "application/json")
            assert response.json["id"] == 1
            assert response.json["result"]["resultType"] == "complete"
            assert response.json["result"]["structuredContent"] == {"result": 3}
            assert "mcp-session-id" not in response.headers
        assert len(client.app.sessions) == 0

    serve(scenario, offer().asgi(**settings))


@pytest.mark.requirement("versioning.dual-era.meta-selects-modern")
def test_requests_and_sessions_share_nothing():
    server = offer()

    @server.tool
    async def who(ctx: Context) -> str:
        return f"{ctx.revision} {ctx.client_info.name if ctx.client_info else None}"

    async def scenario(client):
        await client.open("2025-11-25")
        session = client.session
        inside = await client.post(session_call(1, "who"), mcp_protocol_version="2025-11-25")
        assert text_of(inside.json) == "2025-11-25 raw"
        # The header of the session does not lead the request there.
        assert await client.call("who") == f"{REVISION} raw"
        bare = {f"{PREFIX}protocolVersion": REVISION, f"{PREFIX}clientCapabilities": {}}
        response = await client.ask(modern("tools/call", name="who", _meta=bare))
        assert text_of(response.json) == f"{REVISION} None"
        assert response.json["result"]["_meta"][f"{PREFIX}serverInfo"]["name"] == "offer"
        client.session = session
        again = await client.post(session_call(2, "who"), mcp_protocol_version="2025-11-25")
        assert text_of(again.json) == "2025-11-25 raw"

    serve(scenario, server.asgi())


def test_values_kept_in_a_session_are_seen_by_no_other_request():
    server = Server("any")

    @server.tool
    async def keep(ctx: Context, value: str) -> str:
        found = getattr(ctx.session._core, "kept", "nothing")
        ctx.session._core.kept = value
        return found

    @server.tool
    async def register(ctx: Context) -> str:
        server.add_tool(lambda: "x", name="other", description="x", inline=True)
        return "registered"

    async def scenario(client):
        for _ in range(3):
            assert await client.call("keep", value="mine") == "nothing"
        assert await client.call("register") == "registered"
        assert await client.call("other") == "x"

    serve(scenario, server.asgi())


def test_late_messages_of_a_handler_reach_no_other_request():
    server = Server("any")
    kept = []

    @server.tool
    async def leave(ctx: Context) -> str:
        kept.append(ctx)
        return "left"

    @server.tool
    async def remind(ctx: Context) -> str:
        await asyncio.sleep(1)
        for old in kept:
            old.warning("late")
            old.progress(1)
        await asyncio.sleep(1)
        return "done"

    async def scenario(client):
        loud = {**meta(logLevel="debug"), "progressToken": 7}
        await client.ask(modern("tools/call", 5, name="leave", _meta=loud))
        response = await client.ask(modern("tools/call", 5, name="remind", _meta=loud))
        assert text_of(response.json) == "done"

    serve(scenario, server.asgi())


@for_client()
async def test_a_session_serves_no_request_that_names_its_own_revision(client):
    await client.open("2025-11-25")
    # The escape keeps the name of the member from being found without reading the body.
    body = json.dumps(call("add", a=1, b=2)).replace("protocolVersion", "protocol\\u0056ersion")
    response = await client.post(body.encode(), mcp_protocol_version="2025-11-25")
    assert "resultType" not in response.json["result"]


@for_client()
async def test_a_text_in_an_argument_makes_no_request_modern(client):
    await client.open("2025-11-25")
    told = session_call(1, "note", text=f"{PREFIX}protocolVersion")
    response = await client.post(told, mcp_protocol_version="2025-11-25")
    assert response.events[-1]["result"]["content"][0]["text"] == "noted"


@pytest.mark.requirement("jsonrpc.request.id-unique")
@for_client()
async def test_one_id_may_be_in_use_twice_at_once(client):
    first = client.begin(call("wait", 1, name="first"))
    second = client.begin(call("wait", 1, name="second"))
    await until(lambda: len(client.app.endpoint.stateless.open) == 2)
    for name, waiting in (("second", second), ("first", first)):
        await client.call("free", name=name)
        response = await waiting.done()
        assert response.json["id"] == 1
        assert text_of(response.json) == name


@pytest.mark.requirement("http.legacy-traffic.get-delete-405")
@for_client(lambda: offer(revisions=[REVISION]).asgi())
async def test_a_server_without_sessions_takes_post_alone(client):
    assert await client.call("add", a=1, b=2) == "3"
    for method in ("GET", "DELETE"):
        refused = await client.start(method, b"", mcp_session_id="x").done()
        assert (refused.status, refused.headers["allow"]) == (405, "POST, OPTIONS")


@pytest.mark.requirement("versioning.modern-only.initialize-names-versions")
@for_client(lambda: offer(revisions=[REVISION]).asgi())
async def test_a_server_without_sessions_names_its_revisions_to_those_who_open_one(client):
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": opening}
    response = await client.post(message)
    assert error_of(response) == (400, 7, -32022)
    assert response.json["error"]["data"] == {
        "supported": [REVISION],
        "requested": "2025-11-25",
    }
    older = await client.post(session_call(8, "add", a=1, b=2), mcp_protocol_version=OLDER[-1])
    assert error_of(older) == (400, 8, -32022)
    accepted = await client.post(notification("notifications/initialized"))
    assert accepted.status == 202
    assert error_of(await client.post([message])) == (400, None, -32600)


@pytest.mark.requirement("versioning.modern-error-is-not-legacy")
@for_client(lambda: offer(revisions=OLDER).asgi())
async def test_a_server_with_sessions_alone_answers_as_it_always_did(client):
    response = await client.ask(modern("server/discover"))
    assert error_of(response) == (400, None, -32600)


@pytest.mark.requirement("http.post.accepted-202")
@pytest.mark.parametrize("method", ["notifications/cancelled", "notifications/unknown"])
@for_client()
async def test_a_notification_is_accepted(client, method):
    params = {"requestId": 1}
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    response = await client.post(message, mcp_protocol_version=REVISION)
    assert (response.status, response.body) == (202, b"")


# -- refusals


def _meta(**changed):
    full = {**meta(), **{f"{PREFIX}{name}": value for name, value in changed.items()}}
    return {name: value for name, value in full.items() if value is not None}


DISCOVER = modern("server/discover", "d")


@pytest.mark.requirement(
    "errors.reserved-range.specified-meaning",
    "meta.request.missing-field-rejected",
    "meta.request.missing-field-http-400",
    "capability.missing-error-http-400",
)
@pytest.mark.requirement(
    "http.version-header.missing-rejected",
    "http.version-header.mismatch-rejected",
    "http.version-header.unsupported-400",
    "http.headers.required-missing-rejected",
    "http.headers.mismatch-rejected",
    "http.headers.mismatch-jsonrpc-body",
    "http.method-not-found.404",
    "versioning.unsupported.error-code",
)
@cases(
    ("message", "changed", "status", "code"),
    [
        (modern("server/discover", "d", _meta={}), {}, 400, -32602),
        (modern("server/discover", "d", _meta=_meta(protocolVersion=None)), {}, 400, -32602),
        (modern("server/discover", "d", _meta=_meta(clientCapabilities=None)), {}, 400, -32602),
        (modern("server/discover", "d", _meta=_meta(logLevel="loud")), {}, 400, -32602),
        (modern("server/discover", "d", _meta=_meta(clientInfo=None)), {}, 200, None),
        (DISCOVER, {"mcp_method": None}, 400, -32020),
        (DISCOVER, {"mcp_method": "tools/list"}, 400, -32020),
        (DISCOVER, {"mcp_protocol_version": None}, 400, -32020),
        (DISCOVER, {"mcp_protocol_version": "2025-11-25"}, 400, -32020),
        (DISCOVER, {"mcp_protocol_version": UNKNOWN}, 400, -32020),
        (modern("server/discover", "d", _meta=_meta(protocolVersion=UNKNOWN)), {}, 400, -32020),
        (
            modern("server/discover", "d", _meta=_meta(protocolVersion=UNKNOWN)),
            {"mcp_protocol_version": UNKNOWN},
            400,
            -32022,
        ),
        (modern("ping", "d"), {}, 404, -32601),
        (modern("initialize", "d"), {}, 404, -32601),
        (modern("unknown/method", "d"), {}, 404, -32601),
        (modern("prompts/list", "d"), {}, 404, -32601),
        (modern("unknown/method", "d"), {"mcp_method": "x"}, 400, -32020),
        (modern("tools/call", "d", name="add"), {"mcp_name": None}, 400, -32020),
        (modern("tools/call", "d", name="add"), {"mcp_name": "ADD"}, 400, -32020),
        (modern("tools/call", "d", name="add"), {"mcp_name": "=?base64?YWR?="}, 400, -32020),
        (modern("tools/call", "d", name=7), {}, 400, -32602),
        (modern("tools/call", "d", name="unknown"), {}, 200, -32602),
        (modern("tools/call", "d", name="ask", capabilities={}), {}, 400, -32021),
        (modern("resources/read", "d", uri="note://"), {"mcp_name": "x"}, 400, -32020),
        (modern("resources/read", "d", uri="nowhere://x"), {}, 200, -32602),
    ],
)
@for_client()
async def test_each_fault_has_its_status_and_its_code(client, message, changed, status, code):
    response = await client.ask(message, **changed)
    answer = response.json
    assert (response.status, answer.get("error", {}).get("code")) == (status, code)
    assert answer["id"] == "d"


@pytest.mark.requirement("versioning.unsupported.data-supported")
@for_client()
async def test_an_unknown_revision_is_answered_with_those_that_are_spoken(client):
    message = modern("server/discover", _meta=_meta(protocolVersion=UNKNOWN))
    response = await client.ask(message, mcp_protocol_version=UNKNOWN)
    data = response.json["error"]["data"]
    assert data["requested"] == UNKNOWN
    assert set(data["supported"]) == {*OLDER, REVISION}


@cases(
    ("body", "code"),
    [
        (b"{", -32700),
        (json.dumps([DISCOVER]).encode(), -32600),
        (json.dumps([session_call(1, "add")]).encode(), -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', -32600),
        (b'{"jsonrpc":"1.0","method":"x"}', -32600),
    ],
)
@for_client()
async def test_a_body_without_a_request_is_refused(client, body, code):
    response = await client.post(body, mcp_protocol_version=REVISION)
    assert error_of(response) == (400, None, code)


@for_client()
async def test_initialize_beside_a_header_of_the_other_era_is_refused(client):
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    message = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": opening}
    response = await client.post(message, mcp_protocol_version=REVISION)
    assert error_of(response) == (400, 7, -32020)


@pytest.mark.requirement("http.origin.invalid-403")
@for_client()
async def test_a_foreign_origin_is_refused_first(client):
    response = await client.ask(modern("ping"), origin="https://evil.example")
    assert response.status == 403


@for_client()
async def test_a_header_that_occurs_twice_is_refused(client):
    scope = client.scope("POST", **headers_of(DISCOVER))
    scope["headers"].append((b"mcp-method", b"server/discover"))
    response = await type(client.begin(DISCOVER))(
        client.app, scope, json.dumps(DISCOVER).encode()
    ).done()
    assert error_of(response) == (400, "d", -32020)


# -- answers


@pytest.mark.requirement(
    "http.sse.accel-buffering-off",
    "http.sse.no-event-ids",
    "http.sse.response-ends-stream",
    "http.sse.notifications-related",
)
@for_client()
async def test_messages_before_the_answer_make_it_a_stream(client):
    held = client.begin(call("hold", token="t", name="x"))
    await until(lambda: len(held.sent) > 1)
    assert held.headers["content-type"] == "text/event-stream"
    assert held.headers["x-accel-buffering"] == "no"
    await client.call("free", name="x")
    await held.done()
    assert [each.get("method") for each in held.events] == ["notifications/progress"] * 2 + [None]
    assert held.events[-1]["id"] == 1
    assert held.ids == [None] * 3
    assert b"retry:" not in held.body


@for_client()
async def test_a_client_that_accepts_streams_alone_gets_one(client):
    response = await client.ask(call("add", a=1, b=2), accept="text/event-stream")
    assert response.headers["content-type"] == "text/event-stream"
    assert response.events[0]["result"]["structuredContent"] == {"result": 3}
    failed = await client.ask(call("unknown"), accept="text/event-stream")
    assert failed.events[0]["error"]["code"] == -32602
    refused = await client.ask(modern("ping"), accept="text/event-stream")
    assert error_of(refused) == (404, 1, -32601)


@pytest.mark.requirement("http.sse.response-ends-stream")
def test_an_error_after_the_first_message_is_the_last_one():
    server = Server("any")

    @server.tool
    async def late(ctx: Context) -> str:
        await ctx.progress(1)
        await asyncio.sleep(1)
        return str(await ctx.sample("Hello?"))

    async def scenario(client):
        message = modern("tools/call", name="late", capabilities={})
        message["params"]["_meta"]["progressToken"] = 1
        response = await client.ask(message)
        assert response.status == 200
        assert response.events[-1]["error"]["code"] == -32021

    serve(scenario, server.asgi())


@pytest.mark.requirement("http.sse.keepalive-comments")
@for_client()
async def test_a_long_silence_is_filled_with_comments(client):
    waiting = client.begin(call("wait", name="x"))
    await asyncio.sleep(40)
    assert waiting.headers["content-type"] == "text/event-stream"
    assert waiting.body.count(b":") >= 2
    await client.call("free", name="x")
    await waiting.done()
    assert [each["id"] for each in waiting.events] == [1]


@for_client(lambda: offer().asgi(limits=HttpLimits(opening_bytes=4000)))
async def test_a_large_request_is_limited_like_any_message(client):
    response = await client.ask(call("note", text="x" * 5_000))
    assert response.json["result"]["content"][0]["text"] == "noted"
    refused = await client.ask(call("note", text="x" * 5_000), mcp_protocol_version=UNKNOWN)
    assert refused.status == 413
    assert "opening_bytes" in refused.json["error"]["message"]


# -- a client that leaves


@pytest.mark.requirement(
    "http.cancel.disconnect-is-cancel", "http.cancel.stop-work", "http.cancel.no-further-messages"
)
@pytest.mark.parametrize("tool", ["hold", "wait"])
@for_client()
async def test_a_client_that_leaves_cancels_its_requests(client, tool):
    tokens = {"token": "t"} if tool == "hold" else {}
    held = [client.begin(call(tool, number, name="x", **tokens)) for number in range(200)]
    await until(lambda: len(client.app.endpoint.stateless.open) == 200)
    await asyncio.sleep(0)
    for each in held:
        each.disconnect()
    for each in held:
        await each.done()
    sent = [len(each.sent) for each in held]
    assert not client.app.endpoint.stateless.open
    assert not client.app.state.readers
    assert not client.app.endpoint.waiting
    await client.call("free", name="x")
    await asyncio.sleep(1)
    assert [len(each.sent) for each in held] == sent
    if tool == "hold":
        assert (await client.call("history")).count("x is cancelled") == 200
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not {name for name in names if "tool" in name}


@pytest.mark.requirement("http.cancel.stop-work")
@in_loop
async def test_a_client_that_leaves_cancels_work_in_a_thread():
    server = offer()
    seen = []

    @server.tool
    def work(ctx: Context) -> str:
        seen.append("begins")
        while not ctx.is_cancelled:
            pass
        seen.append("is cancelled")
        return "never"

    app = server.asgi()
    client = Modern(app)
    held = client.begin(call("work"))
    await until(lambda: seen)
    held.disconnect()
    await held.done()
    await until(lambda: len(seen) == 2)
    await app.stop()


@for_client()
async def test_an_answer_that_comes_with_the_disconnect_is_sent_or_not(client):
    held = client.begin(call("wait", name="x"))
    await until(lambda: client.app.endpoint.waiting)
    freed = client.begin(call("free", name="x"))
    held.disconnect()
    await held.done()
    await freed.done()
    assert not client.app.endpoint.stateless.open


@for_client()
async def test_an_app_in_between_may_return_the_body_again_and_again(client):
    message = call("wait", name="x")
    sent = []

    async def receive():
        return {"type": "http.request", "body": json.dumps(message).encode()}

    async def send(part):
        sent.append(part)

    scope = client.scope("POST", **headers_of(message))
    waiting = asyncio.create_task(client.app(scope, receive, send))
    await asyncio.sleep(1)
    assert not waiting.done()
    await client.call("free", name="x")
    await waiting
    assert sent[0]["status"] == 200


@pytest.mark.requirement("http.disconnect.not-cancel")
@for_client()
async def test_in_a_session_the_work_goes_on(client):
    await client.open("2025-11-25")
    body = json.dumps(session_call(1, "hold", name="x")).encode()
    held = client.start("POST", body, mcp_protocol_version="2025-11-25")
    await asyncio.sleep(0.1)
    held.disconnect()
    await asyncio.sleep(0.1)
    await client.call("free", name="x")
    await asyncio.sleep(0.1)
    assert json.loads(await client.call("history")) == ["x begins", "x ends"]


@for_client(lambda: offer().asgi(grace=0.1))
async def test_a_server_that_stops_cancels_what_does_not_end(client):
    held = client.begin(call("wait", name="x"))
    await until(lambda: client.app.endpoint.stateless.open)
    await client.app.stop()
    await held.done()
    assert held.status == 503
    late = await client.ask(call("add", a=1, b=2))
    assert late.status in (200, 503)


# -- headers that repeat arguments


def regional():
    server = Server("regional")

    @server.tool
    async def route(
        region: Annotated[str, Header("Region")] = "eu",
        count: Annotated[int, Header("Count")] = 0,
        urgent: Annotated[bool, Header("Urgent")] = False,
    ) -> str:
        return f"{region} {count} {urgent}"

    return server


@pytest.mark.requirement(
    "http.param-headers.match-validated",
    "http.param-headers.missing-with-value-rejected",
    "http.param-headers.server-not-expected-without-value",
    "http.headers.integers-compared-numerically",
)
@cases(
    ("arguments", "headers", "status"),
    [
        ({}, {}, 200),
        ({}, {"region": "us"}, 200),
        ({"region": "eu"}, {"region": "eu", "other": "x"}, 200),
        ({"region": "Hello"}, {"region": "=?base64?SGVsbG8=?="}, 200),
        ({"region": "Hello"}, {"region": "=?base64?SGVsbG8?="}, 400),
        ({"region": "Hello"}, {"region": "=?base64?SGVs!!!bG8=?="}, 400),
        ({"region": "eu"}, {}, 400),
        ({"region": "eu"}, {"region": "EU"}, 400),
        ({"count": 42}, {"count": "42.0"}, 200),
        ({"count": 42}, {"count": "43"}, 400),
        ({"urgent": True}, {"urgent": "true"}, 200),
        ({"urgent": True}, {"urgent": "True"}, 400),
    ],
)
@for_client(lambda: regional().asgi())
async def test_headers_repeat_the_arguments_of_a_call(client, arguments, headers, status):
    given = {f"mcp_param_{name}": value for name, value in headers.items()}
    response = await client.ask(call("route", **arguments), **given)
    assert response.status == status
    if status == 400:
        assert error_of(response) == (400, 1, -32020)
    # In a session, headers repeat nothing.
    await client.open("2025-11-25")
    older = await client.post(session_call(1, "route", **arguments))
    assert older.status == 200


@pytest.mark.parametrize("arguments", [{"region": "us, eu"}, {"region": "us"}, {}])
def test_a_header_that_repeats_an_argument_twice_is_refused(arguments):
    app = regional().asgi()

    async def twice(scope, receive, send):
        headers = [*scope["headers"], *[(b"mcp-param-region", each) for each in (b"us", b"eu")]]
        await app(scope | {"headers": headers}, receive, send)

    async def scenario(client):
        response = await Modern(twice).ask(call("route", **arguments))
        assert error_of(response) == (400, 1, -32020)
        assert "Mcp-Param-Region occurs twice" in response.json["error"]["message"]

    serve(scenario, app)


# -- tokens


def test_each_request_has_its_own_caller():
    server = Server("any")

    @server.tool
    async def whoami(ctx: Context) -> str:
        return str(ctx.principal and ctx.principal.subject)

    async def scenario(client):
        for name in ("ann", "bob"):
            response = await client.ask(call("whoami"), x_user=name)
            assert text_of(response.json) == name

    def find(scope):
        return dict(scope["headers"])[b"x-user"].decode()

    serve(scenario, server.asgi(principal=find))


# -- requests that only listen


def listen(id=1):
    return modern("subscriptions/listen", id, notifications={"toolsListChanged": True})


def is_answered(exchange):
    return exchange.events[-1].get("result", {}).get("resultType") == "complete"


async def begin_listening(client, id=1, **headers):
    exchange = client.begin(listen(id), **headers)
    await until(lambda: len(exchange.sent) > 1)
    assert exchange.status == 200
    assert exchange.events[0]["method"] == "notifications/subscriptions/acknowledged"
    return exchange


def test_a_request_that_listens_is_answered_when_its_token_expires():
    async def scenario(client):
        exchange = await begin_listening(client)
        await asyncio.sleep(3)
        assert not is_answered(exchange)
        await exchange.done()
        assert is_answered(exchange)
        assert client.app.state.listening == 0

    def find(scope):
        return Principal("ann", expires_at=time.time() + 5)

    serve(scenario, offer().asgi(principal=find))


class Withdrawn:
    """Verifies every token but those that were withdrawn."""

    def __init__(self):
        self.tokens = set()

    async def verify(self, token):
        return None if token in self.tokens else Principal(token)


@pytest.mark.parametrize("is_known", [False, True])
def test_a_request_that_listens_is_answered_once_its_token_is_revoked(is_known):
    withdrawn = Withdrawn()
    url = "http://localhost/mcp"
    server = offer(auth=Protected(withdrawn, issuer="https://issuer.example", public_url=url))

    async def scenario(client):
        if is_known:  # the guard remembers tokens that it has just verified
            known = await client.ask(call("add", a=1, b=2), authorization="Bearer bad")
            assert known.status == 200
        kept = await begin_listening(client, authorization="Bearer good")
        ended = await begin_listening(client, authorization="Bearer bad")
        withdrawn.tokens.add("bad")
        await ended.done()
        assert is_answered(ended)
        assert not is_answered(kept)
        refused = await client.ask(listen(), authorization="Bearer bad")
        assert refused.status == 401

    serve(scenario, server.asgi())


def test_a_caller_may_listen_so_many_times_at_once():
    async def scenario(client):
        listening = [await begin_listening(client, id, x_user="ann") for id in range(2)]
        refused = await client.ask(listen(3), x_user="ann")
        assert error_of(refused) == (429, 3, -32603)
        assert "sessions_per_caller" in refused.json["error"]["message"]
        await begin_listening(client, x_user="bob")
        listening[0].disconnect()
        await listening[0].done()
        await begin_listening(client, 4, x_user="ann")

    def find(scope):
        return dict(scope["headers"])[b"x-user"].decode()

    serve(scenario, offer().asgi(principal=find, sessions_per_caller=2))


def test_a_caller_that_is_named_anew_each_time_may_listen_again():
    async def scenario(client):
        for _ in range(2):
            exchange = await begin_listening(client)
            exchange.disconnect()
            await exchange.done()
            requests = client.app.endpoint.stateless
            await until(lambda: not client.app.state.readers)
            assert not requests._listeners
            assert not requests.open

    tokens = count()
    serve(scenario, offer().asgi(principal=lambda scope: next(tokens)))


def test_a_caller_that_is_not_named_by_a_plain_value_is_refused(caplog):
    async def scenario(client):
        for message in (call("add", a=1, b=2), modern("tools/list")):
            response = await client.ask(message)
            assert response.status == 500
            assert response.json["error"] == {"code": -32603, "message": "internal error"}

    serve(scenario, offer().asgi(principal=lambda scope: object()))
    assert "a caller is named by a object: let `principal=` return" in caplog.text


@for_client()
async def test_in_a_session_nothing_listens_but_get(client):
    await client.open("2025-11-25")
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
    response = await client.post(message, mcp_protocol_version="2025-11-25")
    assert response.json["error"]["code"] == -32601


# -- real sockets


@pytest.mark.requirement("http.cancel.disconnect-is-cancel")
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("tool", ["silent", "talkative"])
def test_a_reset_connection_cancels_the_request(talk, loop, tool):
    server = offer()
    seen = []

    @server.tool
    async def silent() -> str:
        """Wait for ever."""
        return await wait()

    @server.tool
    async def talkative(ctx: Context) -> str:
        """Wait for ever, after a message."""
        ctx.warning("hello")
        return await wait()

    async def wait():
        seen.append("begins")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("is cancelled")
        return "never"

    async def scenario(port):
        async with talk(port) as client:
            client.version = REVISION
            message = modern("tools/call", name=tool, _meta=meta(logLevel="info"))
            posting = asyncio.create_task(
                client.post(message, Mcp_Method="tools/call", Mcp_Name=tool)
            )
            await until(lambda: seen)
            await until(lambda: client._open)
            client._open[0].abort()
            await until(lambda: len(seen) == 2)
            posting.cancel()

    with bounded(server.asgi(), loop=loop) as port:
        run(scenario(port))
