"""A client over HTTP without sessions: the probe, the headers, and requests that are lost."""

import asyncio
import json
import logging

import pytest

from accord.client import connect
from accord.errors import (
    ConnectFailed,
    ConnectionClosed,
    HeaderMismatch,
    InternalError,
    MethodNotFound,
    MissingCapability,
    RemoteProtocolError,
    RequestTimeout,
    Unauthorized,
    UnsupportedRevision,
)
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from support.raw_http import OlderServer, RawServer, StatelessServer
from support.waiting import in_loop, run, until

ALL = list(REVISIONS)
MODERN = "2026-07-28"


def said(result):
    return json.loads(result.content[0].text)


def names(server):
    return [request.name for request in server.requests]


def speak(server, work=None, **options):
    """Connect to a server, do some work; returns the client."""

    async def main():
        async with server, connect(server.url, **{"revisions": ALL, **options}) as client:
            if work is not None:
                await work(client)
            return client

    return run(main())


def failure(server, error=ConnectFailed, **options):
    with pytest.raises(error) as caught:
        speak(server, **options)
    return caught.value


def answer(status, body=b"", kind="text/plain"):
    return lambda request, reply: reply.body(status, body, kind)


# -- what is sent


@pytest.mark.requirement(
    "http.post.each-message",
    "http.post.metadata-headers",
    "http.version-header.present",
    "http.version-header.matches-meta",
    "http.headers.mcp-method",
    "http.headers.mcp-name",
)
def test_every_request_is_a_post_whose_headers_repeat_its_body():
    async def work(client):
        assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}
        await client.list_tools()
        with pytest.raises(RemoteProtocolError):
            await client.read_resource("note://två")
        with pytest.raises(RemoteProtocolError):
            await client.get_prompt("greet")

    server = StatelessServer()
    server.capabilities = {"tools": {}, "resources": {}, "prompts": {}}
    client = speak(server, work)
    assert client.revision == MODERN
    assert names(server) == [
        "server/discover",
        "tools/call",
        "tools/list",
        "resources/read",
        "prompts/get",
    ]
    for request in server.requests:
        meta = request.message["params"]["_meta"]
        assert request.method == "POST"
        assert request.headers["mcp-protocol-version"] == MODERN
        assert meta["io.modelcontextprotocol/protocolVersion"] == MODERN
        assert request.headers["mcp-method"] == request.name
        assert request.headers["accept"] == "application/json, text/event-stream"
        assert "mcp-session-id" not in request.headers
    assert [request.headers.get("mcp-name") for request in server.requests] == [
        None,
        "echo",
        None,
        "=?base64?bm90ZTovL3R2w6U=?=",
        "greet",
    ]


def test_there_is_no_stream_to_listen_on_and_no_session_to_end():
    server = StatelessServer()
    speak(server, lambda client: client.ping())
    assert {request.method for request in server.requests} == {"POST"}


def test_headers_of_the_connection_and_of_a_call_travel_too():
    async def work(client):
        await client.call_tool("echo", headers={"X-Trace": "7"})

    server = StatelessServer()
    speak(server, work, headers={"X-All": "1"})
    assert [each.headers["x-all"] for each in server.requests] == ["1", "1"]
    assert server.requests[-1].headers["x-trace"] == "7"
    assert server.requests[-1].headers["mcp-name"] == "echo"


# -- the probe


@pytest.mark.requirement("http.compat.client-inspects-400")
@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b""),
        (400, b"Bad Request: no valid session ID provided"),
        (400, b'{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}'),
        (400, b'{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"no session"}}'),
        (404, b"Not Found"),
        (405, b""),
        (406, b""),
        (422, b"{}"),
        (200, b'{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"unknown"}}'),
        (202, b""),
    ],
    ids=str,
)
def test_an_answer_that_is_not_of_this_era_leads_to_initialize(status, body):
    server = RawServer(server__discover=answer(status, body, "application/json"))
    assert speak(server).revision == "2025-11-25"
    assert names(server)[:3] == ["server/discover", "initialize", "notifications/initialized"]
    initialize = server.requests[1]
    assert "mcp-method" not in initialize.headers
    assert "mcp-protocol-version" not in initialize.headers


@pytest.mark.requirement("versioning.era.cached")
@in_loop
async def test_a_server_known_to_open_with_a_handshake_is_not_asked_again():
    async with RawServer() as server:
        for _ in range(2):
            async with connect(f"{server.url}?key=1", revisions=ALL) as client:
                await client.ping()
        assert len(server.seen("server/discover")) == 1
        server.behaviours["initialize"] = answer(400, b"")
        with pytest.raises(ConnectFailed):
            await connect(server.url, revisions=ALL)
        # What was known proved wrong: the server is asked again.
        assert len(server.seen("server/discover")) == 2


def test_a_server_of_the_oldest_form_is_found_behind_the_probe():
    server = OlderServer()
    client = speak(server, lambda client: client.call_tool("echo", {}))
    assert client.revision == "2025-11-25"


def test_the_oldest_form_is_not_probed_where_it_was_asked_for():
    server = OlderServer()
    speak(server, lambda client: client.ping(), transport="sse")
    assert not server.seen("server/discover")
    text = str(failure(OlderServer(), transport="sse", revision=MODERN, revisions=None))
    assert MODERN in text


@pytest.mark.parametrize(
    "body",
    [b"oops", b'{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"unknown"}}'],
    ids=["text", "message"],
)
@pytest.mark.parametrize("status", [500, 502, 503])
def test_an_error_of_the_server_is_an_outage_and_nothing_else_is_tried(status, body):
    server = RawServer(server__discover=answer(status, body, "application/json"))
    assert f"HTTP {status}" in str(failure(server))
    assert names(server) == ["server/discover"]


def test_a_connection_that_breaks_during_the_probe_is_an_outage():
    server = RawServer(server__discover=lambda request, reply: reply.abort())
    assert "no answer to server/discover" in str(failure(server))
    assert not server.seen("initialize")


@pytest.mark.requirement(
    "http.compat.sse-fallback-checks-body", "versioning.modern-error-is-not-legacy"
)
@pytest.mark.parametrize("code", [-32020, -32021])
def test_a_refusal_of_this_era_is_reported_and_not_answered_by_initialize(code):
    server = StatelessServer()
    server.behaviours["server/discover"] = server.refuse(code)
    assert "refused server/discover" in str(failure(server))
    assert names(server) == ["server/discover"]


def test_with_nothing_in_common_both_sides_are_listed():
    server = StatelessServer()
    data = {"supported": ["2031-01-01"], "requested": MODERN}
    server.behaviours["server/discover"] = server.refuse(-32022, data=data)
    text = str(failure(server))
    assert "2031-01-01" in text
    assert all(each in text for each in ALL)


def test_an_unsupported_revision_leads_to_the_handshake_that_the_server_names():
    # versioning.unsupported.client-retries
    def discover(request, reply):
        data = {"supported": ["2025-06-18"], "requested": MODERN}
        error = {"code": -32022, "message": "no", "data": data}
        reply.json({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, status=400)

    server = RawServer(server__discover=discover)
    server.revision = "2025-06-18"
    assert speak(server).revision == "2025-06-18"


def test_a_pinned_revision_says_what_the_server_answered():
    text = str(failure(RawServer(), revision=MODERN, revisions=None))
    assert "HTTP 404" in text
    assert "session not found" in text


def test_a_server_that_wants_authorization_is_asked_again_with_it():
    def discover(request, reply):
        if request.headers.get("authorization") != "Bearer good":
            reply.empty(401, WWW_Authenticate="Bearer")
        else:
            server.usual(request, reply)

    server = StatelessServer(server__discover=discover)
    assert speak(server, auth="good").revision == MODERN
    server = StatelessServer(server__discover=discover)
    failure(server, Unauthorized, auth="bad")
    assert set(names(server)) == {"server/discover"}


def test_a_redirect_of_the_probe_holds_for_what_follows():
    def discover(request, reply):
        if request.path == "/mcp":
            reply.empty(307, Location="/moved")
        else:
            server.usual(request, reply)

    server = StatelessServer(server__discover=discover)
    speak(server, lambda client: client.call_tool("echo", {}))
    assert [request.path for request in server.requests] == ["/mcp", "/moved", "/moved"]


def test_a_redirect_of_the_probe_holds_for_the_handshake():
    def discover(request, reply):
        if request.path == "/mcp":
            reply.empty(307, Location="/moved")
        else:
            reply.empty(400)

    server = RawServer(server__discover=discover)
    speak(server, lambda client: client.ping())
    assert [request.path for request in server.requests][:3] == ["/mcp", "/moved", "/moved"]


# -- arguments in headers


REGION = {"type": "string", "x-mcp-header": "Region"}


def tool(name, **properties):
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


def param(request, name="region"):
    return request.headers.get(f"mcp-param-{name}")


@pytest.mark.requirement(
    "http.param-headers.value.string-forms",
    "http.param-headers.value.base64-when-unsafe",
    "http.param-headers.value.sentinel-escaped",
)
@pytest.mark.requirement("http.param-headers.client-support", "http.param-headers.exact-path")
def test_arguments_of_listed_tools_are_repeated_in_headers():
    nested = {"type": "object", "properties": {"on": {"type": "boolean", "x-mcp-header": "On"}}}
    server = StatelessServer()
    shard = {"type": "integer", "x-mcp-header": "Shard"}
    server.tools = [tool("query", region=REGION, deep=nested, shard=shard), tool("plain")]

    async def work(client):
        await client.call_tool("query", {"region": "unlisted"})
        await client.list_tools()
        await client.call_tool("query", {"region": "eu-1", "deep": {"on": True}})
        await client.call_tool("query", {"region": " två"})
        await client.call_tool("query", {"region": None})
        await client.call_tool("plain", {"region": "eu-1"})
        await client.call_tool("query", {"region": "=?base64?x?=", "shard": 42})
        await client.call_tool("query", {"region": "a\nb", "deep": {"on": False}})

    speak(server, work)
    calls = server.seen("tools/call")
    assert [param(call) for call in calls] == [
        None,
        "eu-1",
        "=?base64?IHR2w6U=?=",
        None,
        None,
        "=?base64?PT9iYXNlNjQ/eD89?=",
        "=?base64?YQpi?=",
    ]
    assert [param(call, "on") for call in calls] == [None, "true", *[None] * 4, "false"]
    assert [param(call, "shard") for call in calls] == [*[None] * 5, "42", None]


@pytest.mark.requirement("http.param-headers.mismatch-client-relists")
def test_a_mismatch_lists_the_tools_again_and_repeats_the_call_once():
    def call(request, reply):
        if param(request) == request.message["params"]["arguments"]["region"]:
            server.usual(request, reply)
        else:
            server.refuse(-32020)(request, reply)

    server = StatelessServer(tools__call=call)
    server.tools = [tool("other"), tool("query", region=REGION)]

    async def work(client):
        assert said(await client.call_tool("query", {"region": "eu"})) == {"region": "eu"}

    speak(server, work)
    assert names(server) == ["server/discover", "tools/call", "tools/list", "tools/call"]


def test_a_mismatch_that_the_list_does_not_explain_is_raised():
    server = StatelessServer()
    server.behaviours["tools/call"] = server.refuse(-32020)
    server.tools = [tool("query")]

    async def work(client):
        with pytest.raises(HeaderMismatch, match="refused"):
            await client.call_tool("query", {"region": "eu"})

    speak(server, work)
    assert names(server) == ["server/discover", "tools/call", "tools/list"]


@pytest.mark.requirement(
    "tools.x-mcp-header.client-drops-invalid-tool", "tools.x-mcp-header.client-warns"
)
def test_tools_with_invalid_annotations_are_left_out_and_logged(caplog):
    server = StatelessServer()
    server.tools = [
        tool("good", region=REGION),
        tool("bad", region={"type": "array", "x-mcp-header": "Region"}),
        tool("plain"),
    ]

    async def work(client):
        assert [each.name for each in (await client.list_tools()).tools] == ["good", "plain"]

    with caplog.at_level(logging.WARNING):
        speak(server, work)
    assert "'bad' is left out" in caplog.text
    assert "'good'" not in caplog.text


# -- answers


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        (-32020, 400, HeaderMismatch),
        (-32021, 400, MissingCapability),
        (-32022, 400, UnsupportedRevision),
        (-32601, 404, MethodNotFound),
    ],
)
def test_errors_have_types_whatever_their_status(code, status, kind):
    server = StatelessServer()
    server.behaviours["tools/list"] = server.refuse(code, status, data={"supported": []})

    async def work(client):
        with pytest.raises(kind) as caught:
            await client.list_tools()
        assert caught.value.code == code
        assert caught.value.data == {"supported": []}

    speak(server, work)


def test_a_status_without_a_message_says_what_it_was():
    server = StatelessServer(tools__list=answer(404, b"gone"))

    async def work(client):
        with pytest.raises(InternalError, match="HTTP 404: gone"):
            await client.list_tools()

    speak(server, work)


@pytest.mark.requirement("http.sse.comments-ignored")
def test_comments_and_events_without_data_are_skipped():
    def call(request, reply):
        reply.stream()
        reply.text(b": hello\n\nid: 1\ndata:\n\nevent: other\ndata: x\n\n")
        token = request.message["params"]["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1}
        reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        reply.text(b": still there\n")
        result = {"resultType": "complete", "content": [], "isError": False}
        reply.event({"jsonrpc": "2.0", "id": request.message["id"], "result": result})
        reply.end()

    seen = []

    async def work(client):
        await client.call_tool("echo", on_progress=seen.append)

    speak(StatelessServer(tools__call=call), work)
    assert [each.progress for each in seen] == [1]


@pytest.mark.requirement("http.sse.client-reissues-lost-request")
@pytest.mark.parametrize("how", ["end", "abort"])
def test_a_stream_that_breaks_is_a_lost_request_and_is_not_resumed(how):
    def call(request, reply):
        reply.stream()
        reply.text(b"id: 7\nretry: 1\ndata:\n\n")
        getattr(reply, how)()

    server = StatelessServer(tools__call=call)

    async def work(client):
        with pytest.raises(ConnectionClosed, match=r"tools/call: .* is unknown"):
            await client.call_tool("echo")
        server.behaviours.clear()
        assert said(await client.call_tool("echo", {"a": 1})) == {"a": 1}

    speak(server, work)
    assert {request.method for request in server.requests} == {"POST"}
    first, second = server.seen("tools/call")
    assert first.message["id"] != second.message["id"]


@pytest.mark.requirement("result.type.unknown-is-invalid")
def test_a_result_of_an_unknown_type_is_named():
    def call(request, reply):
        reply.result(request, {"resultType": "moonlight", "content": []})

    async def work(client):
        with pytest.raises(RemoteProtocolError, match="resultType 'moonlight' is unknown"):
            await client.call_tool("echo")

    speak(StatelessServer(tools__call=call), work)


# -- cancelling


@pytest.mark.requirement("cancellation.client-sends", "timeouts.cancel-on-expiry")
@pytest.mark.parametrize("begins", [False, True], ids=["before the head", "in the stream"])
@pytest.mark.parametrize("by", ["timeout", "caller"])
def test_a_request_is_cancelled_by_the_end_of_its_connection(begins, by):
    ended = []

    async def call(request, reply):
        if begins:
            reply.stream()
            reply.text(b": working\n\n")
        await reply.hung_up()
        ended.append(True)

    server = StatelessServer(tools__call=call)

    async def work(client):
        if by == "timeout":
            with pytest.raises(RequestTimeout):
                await client.call_tool("echo", timeout=0.1)
        else:
            task = asyncio.ensure_future(client.call_tool("echo"))
            await until(lambda: server.seen("tools/call"))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await until(lambda: ended)
        await client.ping()

    speak(server, work)
    assert not server.seen("notifications/cancelled")


def test_a_client_of_both_eras_speaks_each_to_its_server():
    from accord import Server
    from accord.testing import connected

    async def main(supported):
        server = Server("demo", revisions=supported)
        async with connected(server, transport="http", revisions=ALL) as client:
            await client.ping()
            return client.revision

    assert run(main(ALL)) == MODERN
    assert run(main([MODERN])) == MODERN
    assert run(main(list(HANDSHAKE))) == "2025-11-25"
