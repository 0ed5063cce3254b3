"""The rules of Streamable HTTP, each tested on a server with a real socket."""

import asyncio
import gzip
import html
import json
import re

import pytest

from accord import Context, Server
from accord.errors import RequestTimeout
from support.http_offer import offer
from support.http_server import bounded, served
from support.http_talk import call, initialize, notification, request, text_of
from support.tables import cases
from support.waiting import in_loop, run, until


# On one of the loops handlers begin at once, on the other with the next turn.
@pytest.fixture(scope="module", params=["uvloop", "asyncio"])
def port(request):
    """A server with all defaults, shared by tests that do not mind."""
    with bounded(offer().asgi(sse=True), loop=request.param) as port:
        yield port


REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25")
everywhere = pytest.mark.parametrize("revision", REVISIONS)


@everywhere
@pytest.mark.requirement(
    "http.endpoint.single-post-get",
    "http.post.response-content-type",
    "http.post.accepted-202",
    "http.get.stream-or-405",
    "session.id.assigned-at-initialize",
    "session.id.header-name",
    "session.id.visible-ascii",
)
@in_loop
async def test_one_endpoint_opens_a_session_and_serves_it(port, talk, revision):
    async with talk(port, revision=revision) as client:
        opened = await client.open()
        assert opened["protocolVersion"] == revision
        assert re.fullmatch(r"[\x21-\x7e]{22,}", client.session)
        response = await client.post(call(1, "add", a=1, b=2))
        assert (response.status, response.kind) == (200, "application/json")
        assert text_of(await response.json()) == "3"
        accepted = await client.post(notification("notifications/roots/list_changed"))
        assert (accepted.status, await accepted.body()) == (202, b"")
        listening = await client.get()
        assert (listening.status, listening.kind) == (200, "text/event-stream")


@pytest.mark.requirement("session.id.secure")
@in_loop
async def test_session_ids_are_long_and_random(port, talk):
    async with talk(port) as client:
        ids = []
        for _ in range(100):
            response = await client.post(initialize())
            ids.append(response.headers["mcp-session-id"])
        assert len(set(ids)) == 100
        # No two share a long beginning or end. With a store the first letters are its form.
        assert len({id[:24] for id in ids}) == len({id[-8:] for id in ids}) == 100


@pytest.mark.requirement("session.id.missing-400")
@pytest.mark.parametrize(
    "message", [call(1, "add", a=1, b=2), notification("notifications/initialized")]
)
@in_loop
async def test_without_its_session_a_message_is_refused(port, talk, message):
    async with talk(port) as client:
        response = await client.post(message)
        assert response.status == 400
        assert "Mcp-Session-Id is missing" in await response.error()
        for method in ("GET", "DELETE"):
            assert (await client.send(method)).status == 400


@everywhere
@pytest.mark.requirement("session.end.terminated-404", "lifecycle.shutdown.http-close")
@in_loop
async def test_an_ended_session_is_unknown(port, talk, revision):
    async with talk(port, revision=revision) as client:
        await client.open()
        listening = await client.get()
        assert (await client.send("DELETE")).status == 204
        assert await listening.rest() == []
        for response in (
            await client.post(call(1, "add", a=1, b=2)),
            await client.get(),
            await client.send("DELETE"),
        ):
            assert response.status == 404
            assert "initialize anew" in await response.error()


@pytest.mark.parametrize("id", ["x", "é", "a" * 10_000, "a b", "", "a, b"])
@in_loop
async def test_an_unknown_session_is_answered_with_404(port, talk, id):
    async with talk(port) as client:
        response = await client.post(call(1, "add", a=1, b=2), Mcp_Session_Id=id)
        assert response.status == 404


@pytest.mark.requirement("session.end.server-may-terminate", "session.end.terminated-404")
@served(session_idle=1.0)
async def test_an_unused_session_ends(port, talk):
    async with talk(port) as client, talk(port) as other:
        await client.open()
        await other.open()
        listening = await other.get()
        while (await client.post(request(1, "ping"))).status == 200:
            await asyncio.sleep(1.5)
        # A listening client uses its session.
        assert (await other.post(request(1, "ping"))).status == 200
        listening.close()


@pytest.mark.requirement("http.sse.terminate-after-response")
@everywhere
@pytest.mark.requirement(
    "http.server.sse-optional",
    "http.post.stream-messages-before-response",
    "http.post.stream-one-response-per-request",
    "http.sse.not-closed-before-response",
    "http.sse.closed-after-response",
)
@in_loop
async def test_a_message_before_the_answer_makes_it_a_stream(port, talk, revision):
    async with talk(port, revision=revision) as client:
        await client.open()
        response = await client.post(call(1, "count", token="t", to=3))
        assert response.kind == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        *steps, answer = await response.rest()
        assert [each["params"]["progress"] for each in steps] == [1, 2, 3]
        assert text_of(answer) == "3"
        assert response.whole


@pytest.mark.requirement("http.sse.not-closed-before-response")
@in_loop
async def test_a_stream_stays_open_until_the_answer(port, talk):
    async with talk(port) as client, talk(port) as other:
        await client.open()
        await other.open()
        response = await client.post(call(1, "hold", token="t", name="stays"))
        assert (await response.event())["params"]["progress"] == 1
        reading = asyncio.create_task(response.event())
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done
        await other.answer(call(1, "free", name="stays"))
        assert (await reading)["params"]["progress"] == 2
        assert [text_of(each) for each in await response.rest()] == ["stays"]


@in_loop
async def test_a_question_to_the_client_travels_on_the_stream_of_its_request(port, talk):
    async with talk(port) as client:
        await client.open(elicitation={})
        listening = await client.get()
        response = await client.post(call(1, "ask"))
        question = await response.event()
        assert question["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"name": "Ada"}}
        accepted = await client.post({"jsonrpc": "2.0", "id": question["id"], "result": answer})
        assert (accepted.status, await accepted.body()) == (202, b"")
        assert text_of((await response.rest())[0]) == "hello Ada"
        await client.send("DELETE")
        assert await listening.rest() == []


@pytest.mark.requirement(
    "http.post.related-requests-on-stream", "cancellation.request-id.previously-issued"
)
def test_a_question_is_cancelled_on_the_stream_that_brought_it(talk):
    """On another stream its cancellation might arrive before it."""
    server = Server("hurried")

    @server.tool
    async def hurry(ctx: Context) -> str:
        """Ask for folders, and wait for a moment only."""
        try:
            await ctx.roots(timeout=0.05)
        except RequestTimeout:
            return "no answer"
        return "an answer"

    async def scenario(port):
        async with talk(port) as client:
            await client.open(roots={})
            listening = await client.get()
            response = await client.post(call(1, "hurry"))
            question, cancelled, answer = await response.rest()
            assert question["method"] == "roots/list"
            assert cancelled["method"] == "notifications/cancelled"
            assert cancelled["params"]["requestId"] == question["id"]
            assert text_of(answer) == "no answer"
            await client.send("DELETE")
            assert await listening.rest() == []

    with bounded(server.asgi()) as port:
        run(scenario(port))


@pytest.mark.requirement(
    "http.get.server-messages", "http.get.no-responses", "http.streams.no-broadcast"
)
@served()
async def test_a_message_outside_of_requests_arrives_on_one_listening_stream(port, talk):
    async with talk(port) as client:
        await client.open()
        streams = [await client.get(), await client.get()]
        hearing = [asyncio.create_task(each.rest()) for each in streams]
        await client.answer(request(1, "resources/subscribe", uri="note://a"))
        for id in range(2, 8):
            await client.answer(call(id, "touch", uri="note://a"))
        await client.answer(call(8, "register", name="more"))
        await until(lambda: sum(len(each.names) for each in streams) >= 7)
        await client.send("DELETE")
        heard = [message for each in hearing for message in await each]
        names = [each["method"] for each in heard]
        assert names.count("notifications/resources/updated") == 6
        assert names.count("notifications/tools/list_changed") == 1
        assert all("id" not in each for each in heard)


@everywhere
@pytest.mark.requirement("http.get.no-responses")
@in_loop
async def test_answers_never_arrive_on_a_listening_stream(port, talk, revision):
    async with talk(port, revision=revision) as client:
        await client.open()
        listening = await client.get()
        for id in range(5):
            await client.answer(call(id, "count", token=id, to=2))
        await client.send("DELETE")
        assert await listening.rest() == []


@served(listeners=2)
async def test_the_number_of_listening_streams_is_limited(port, talk):
    async with talk(port) as client:
        await client.open()
        streams = [await client.get() for _ in range(3)]
        assert [each.status for each in streams] == [200, 200, 429]
        assert "listeners" in await streams[2].error()
        streams[0].close()
        while (again := await client.get()).status == 429:
            await asyncio.sleep(0.05)
        assert again.status == 200


@pytest.mark.requirement("http.version-header.bad-400")
@pytest.mark.parametrize("version", ["2024-01-01", "x", "", "2025-06-18, 2025-06-18"])
@in_loop
async def test_an_unknown_version_header_is_refused(port, talk, version):
    async with talk(port) as client:
        await client.open()
        for response in (
            await client.post(call(1, "add", a=1, b=2), MCP_Protocol_Version=version),
            await client.get(MCP_Protocol_Version=version),
            await client.send("DELETE", MCP_Protocol_Version=version),
        ):
            assert response.status == 400
            assert "2025-06-18" in await response.error()


@everywhere
@pytest.mark.requirement("lifecycle.initialize.not-in-batch")
@in_loop
async def test_a_batch_that_opens_is_refused_with_all_its_ids(port, talk, revision):
    async with talk(port, revision=revision) as client:
        response = await client.post([initialize(revision), request("p", "ping")])
        assert response.status == 400
        errors = await response.json()
        assert [each["id"] for each in errors] == [initialize()["id"], "p"]
        assert {each["error"]["code"] for each in errors} == {-32600}
        assert "mcp-session-id" not in response.headers


@everywhere
@in_loop
async def test_a_further_initialize_within_a_session_is_answered_there(port, talk, revision):
    async with talk(port) as client:
        await client.open()
        session = client.session
        again = await client.post(initialize(revision), MCP_Protocol_Version=None)
        assert again.status == 200
        assert (await again.json())["result"]["protocolVersion"] == revision
        assert "mcp-session-id" not in again.headers
        accepted = await client.post(
            notification("notifications/initialized"), MCP_Protocol_Version=revision
        )
        assert (accepted.status, client.session) == (202, session)
        answer = await client.post(call(1, "add", a=1, b=2), MCP_Protocol_Version=revision)
        assert text_of(await answer.json()) == "3"


@pytest.mark.requirement("http.version-header.default-2025-03-26")
@served(sessions=False)
async def test_without_the_version_header_the_revision_is_the_one_before_it(port, talk):
    async with talk(port) as client:
        # Without sessions, only the header names the revision.
        batch = [request(1, "ping"), request(2, "ping")]
        response = await client.post(batch)
        assert response.status == 200
        assert {each["id"] for each in await response.json()} == {1, 2}
        refused = await client.post(batch, MCP_Protocol_Version="2025-06-18")
        assert refused.status == 400
        errors = await refused.json()
        assert [each["id"] for each in errors] == [1, 2]
        assert "batches are not part of 2025-06-18" in errors[0]["error"]["message"]


@in_loop
async def test_the_version_of_an_opening_is_negotiated_whatever_the_header_says(port, talk):
    async with talk(port) as client:
        response = await client.post(initialize("2099-01-01"), MCP_Protocol_Version="2099-01-01")
        assert response.status == 200
        assert (await response.json())["result"]["protocolVersion"] == "2025-11-25"


@everywhere
@pytest.mark.requirement("http.post.refused-status")
@cases(
    ("message", "why"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"\xff\xfe", "UTF-8"),
        (b"5", "expected an object"),
        (b'{"jsonrpc":"1.0","method":"notifications/initialized"}', "2.0"),
        (b'{"jsonrpc":"2.0","method":"notifications/progress","params":[]}', "object"),
        (b'{"jsonrpc":"2.0","id":77,"result":{}}', "no open request"),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', "id"),
        (b"[]", "batch"),
        (b"[" * 100_000, "not JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "nests deeper"),
    ],
)
@in_loop
async def test_a_malformed_message_is_answered_with_400(port, talk, message, why, revision):
    async with talk(port, revision=revision) as client:
        await client.open()
        response = await client.post(message)
        assert response.status == 400
        assert response.kind == "application/json"
        body = await response.json()
        assert body.get("id") is None
        assert why in json.dumps(body)
        assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (request(1, "nobody/knows"), -32601),
        (request(1, "tools/call", name=5), -32602),
        ([request(1, "nobody/knows")], -32601),
    ],
    ids=["method", "params", "batch"],
)
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "text/event-stream"])
@in_loop
async def test_a_request_that_is_refused_is_answered_like_any_other(
    port, talk, message, code, accept
):
    async with talk(port, revision="2025-03-26") as client:
        await client.open()
        response = await client.post(message, Accept=accept)
        assert response.status == 200
        assert response.kind == accept.split(", ")[0]
        is_stream = response.kind == "text/event-stream"
        (answer,) = await response.rest() if is_stream else [await response.json()]
        (fault,) = answer if isinstance(message, list) else [answer]
        assert (fault["id"], fault["error"]["code"]) == (1, code)


@in_loop
async def test_an_opening_that_is_refused_is_answered_and_opens_nothing(port, talk):
    async with talk(port) as client:
        response = await client.post(request(1, "initialize"))
        assert (response.status, response.headers.get("mcp-session-id")) == (200, None)
        assert (await response.json())["error"]["code"] == -32602


@in_loop
async def test_an_unknown_notification_is_accepted_and_ignored(port, talk):
    async with talk(port) as client:
        await client.open()
        response = await client.post(notification("notifications/of_my_own"))
        assert response.status == 202


@pytest.mark.requirement("http.post.stream-one-response-per-request", "http.post.accepted-202")
@in_loop
async def test_a_batch_is_answered_as_one(port, talk):
    async with talk(port, revision="2025-03-26") as client:
        await client.open(elicitation={})
        batch = [
            call(1, "add", a=1, b=2),
            notification("notifications/roots/list_changed"),
            request(2, "ping"),
            call(3, "add", a=2, b=2),
            {"jsonrpc": "2.0", "id": 99},
        ]
        response = await client.post(batch)
        assert response.kind == "application/json"
        assert {each["id"] for each in await response.json()} == {1, 2, 3, 99}
        quiet = [notification("notifications/roots/list_changed")] * 2
        accepted = await client.post(quiet)
        assert (accepted.status, await accepted.body()) == (202, b"")


@in_loop
async def test_a_batch_may_become_a_stream_and_hold_answers_to_questions(port, talk):
    async with talk(port, revision="2025-03-26") as client:
        await client.open(roots={})
        batch = [call(1, "count", token="a", to=2), call(2, "count", token="b", to=2)]
        *steps, answers = await (await client.post(batch)).rest()
        assert sorted((each["params"]["progressToken"]) for each in steps) == [
            "a",
            "a",
            "b",
            "b",
        ]
        assert {each["id"]: text_of(each) for each in answers} == {1: "2", 2: "2"}


@in_loop
async def test_a_batch_whose_requests_are_all_cancelled_ends(port, talk):
    async with talk(port, revision="2025-03-26") as client:
        await client.open()
        batch = [call(1, "wait", name="one"), call(2, "wait", name="two")]
        posting = asyncio.create_task(client.post(batch))
        while "two begins" not in text_of(await client.answer(call(5, "history"))):
            await asyncio.sleep(0.01)
        for id in (1, 2):
            await client.post(notification("notifications/cancelled", requestId=id))
        response = await posting
        assert (response.status, await response.rest()) == (200, [])


@in_loop
async def test_a_cancelled_request_ends_without_an_answer(port, talk):
    async with talk(port) as client:
        await client.open()
        streaming = await client.post(call(1, "hold", token="t", name="cancel"))
        assert (await streaming.event())["params"]["progress"] == 1
        silent = asyncio.create_task(client.post(call(2, "wait", name="cancel too")))
        while "cancel too begins" not in text_of(await client.answer(call(3, "history"))):
            await asyncio.sleep(0.01)
        for id in (1, 2):
            accepted = await client.post(notification("notifications/cancelled", requestId=id))
            assert accepted.status == 202
        assert await streaming.rest() == []
        response = await silent
        assert (response.status, response.kind) == (200, "text/event-stream")
        assert await response.rest() == []
        assert "cancel is cancelled" in text_of(await client.answer(call(4, "history")))


@pytest.mark.requirement("http.origin.validated")
@cases(
    ("header", "value", "option"),
    [
        ("Origin", "https://evil.example", "allowed_origins"),
        ("Origin", "null", "allowed_origins"),
        ("Origin", "http://localhost.evil.example", "allowed_origins"),
        ("Origin", "http://[", "allowed_origins"),
        ("Host", "evil.example", "allowed_hosts"),
        ("Host", "localhost.evil.example:8000", "allowed_hosts"),
        ("Host", "localhost@evil.example", "allowed_hosts"),
        ("Host", "localhost:x", "allowed_hosts"),
        ("Host", "[", "allowed_hosts"),
    ],
)
@cases("path", ["/mcp", "/sse", "/messages", "/elsewhere"])
@in_loop
async def test_foreign_origins_and_hosts_are_refused(port, talk, header, value, option, path):
    async with talk(port) as client:
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            body = json.dumps(initialize()).encode() if method == "POST" else None
            response = await client.send(method, body, path=path, **{header: value})
            assert response.status == 403
            said = await response.error()
            assert repr(value) in said
            assert option in said
            assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages"])
@in_loop
async def test_a_request_without_a_host_or_with_two_is_refused(port, talk, hosts, path):
    body = json.dumps(initialize()).encode()
    lines = [f"POST {path} HTTP/1.1", *(f"Host: {host}" for host in hosts)]
    lines += ["Accept: application/json, text/event-stream", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "", ""]
    async with talk(port) as client:
        response = await client.raw("\r\n".join(lines).encode() + body)
        assert response.status == 400
        assert "Host" in await response.error()
        assert "mcp-session-id" not in response.headers


@in_loop
async def test_http_1_0_needs_no_host(port, talk):
    body = json.dumps(initialize()).encode()
    lines = ["POST /mcp HTTP/1.0", "Accept: application/json, text/event-stream"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", ""]
    async with talk(port) as client:
        response = await client.raw("\r\n".join(lines).encode() + body)
        assert response.status == 200


@pytest.mark.requirement("http.origin.validated")
@pytest.mark.parametrize("value", ["http://localhost", "https://127.0.0.1:5173", "http://[::1]:1"])
@in_loop
async def test_local_origins_are_served(port, talk, value):
    async with talk(port) as client:
        assert (await client.post(initialize(), Origin=value)).status == 200


def test_a_public_url_allows_its_host_and_origin(talk):
    app = offer().asgi(public_url="https://tools.example/mcp", allowed_hosts=["proxy:8080"])

    async def scenario(port):
        async with talk(port) as client:
            for headers in (
                {"Host": "tools.example", "Origin": "https://tools.example"},
                {"Host": "tools.example:443"},
                {"Host": "proxy:8080"},
                {"Host": "localhost"},
            ):
                assert (await client.post(initialize(), **headers)).status == 200
            for headers in ({"Host": "proxy:8081"}, {"Origin": "http://tools.example"}):
                assert (await client.post(initialize(), **headers)).status == 403

    with bounded(app) as port:
        run(scenario(port))


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/json"),
        ("*/*", "application/json"),
        ("application/*, text/*", "application/json"),
        ("application/json", "application/json"),
        ("text/event-stream", "text/event-stream"),
        ("application/json;q=0, text/event-stream", "text/event-stream"),
    ],
)
@in_loop
async def test_the_answer_is_what_the_client_accepts(port, talk, accept, kind):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "add", a=1, b=2), Accept=accept)
        assert (response.status, response.kind) == (200, kind)


@in_loop
async def test_an_accept_header_without_our_types_is_refused(port, talk):
    async with talk(port) as client:
        await client.open()
        response = await client.post(call(1, "add", a=1, b=2), Accept="text/html")
        assert response.status == 406
        assert "text/event-stream" in await response.error()
        response = await client.get(Accept="application/json")
        assert response.status == 406


BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    "options", [{}, {"sessions": False}, {"public_url": "https://example.com/desk/mcp"}]
)
@pytest.mark.requirement("http.get.stream-or-405")
def test_a_browser_gets_a_page_that_says_how_to_add_the_server(talk, options):
    async def scenario(port):
        async with talk(port) as client:
            response = await client.send("GET", Accept=BROWSER)
            assert response.status == 405
            assert response.headers["allow"] == "POST, OPTIONS"
            assert response.headers["content-type"] == "text/html; charset=utf-8"
            assert response.headers["content-security-policy"].startswith("default-src 'none';")
            assert response.headers["x-content-type-options"] == "nosniff"
            text = (await response.body()).decode()
            assert "<h1>&lt;script&gt;alert(1)&lt;/script&gt;</h1>" in text
            assert "<script" not in text
            entry = json.loads(html.unescape(text.partition("<pre>")[2].partition("</pre>")[0]))
            url = options.get("public_url") or f"http://127.0.0.1:{port}/mcp"
            assert entry == {"mcpServers": {"<script>alert(1)</script>": {"url": url}}}

    server = Server("<script>alert(1)</script>")
    with bounded(server.asgi(**options)) as port:
        run(scenario(port))


@in_loop
async def test_other_clients_without_a_session_get_the_error_as_before(port, talk):
    async with talk(port) as client:
        for accept, status in (
            ("text/event-stream", 400),
            ("*/*", 400),
            (f"{BROWSER}, text/event-stream", 400),
            ("application/json", 406),
        ):
            response = await client.send("GET", Accept=accept)
            assert (response.status, response.kind) == (status, "application/json")
            assert await response.error()
        response = await client.send("GET", Accept=BROWSER, Mcp_Session_Id="made-up")
        assert response.status == 404
        response = await client.send("GET", Accept=BROWSER, Host="evil.example")
        assert (response.status, response.kind) == (403, "application/json")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]
)
@in_loop
async def test_a_body_that_is_not_json_is_refused(port, talk, kind):
    async with talk(port) as client:
        response = await client.post(initialize(), Content_Type=kind)
        assert response.status == 415
        assert (await client.post(initialize(), Content_Type=None)).status == 415
        fine = await client.post(initialize(), Content_Type='Application/JSON; charset="UTF-8"')
        assert fine.status == 200


@in_loop
async def test_a_compressed_body_is_refused_as_such(port, talk):
    async with talk(port) as client:
        packed = gzip.compress(b"{}")
        response = await client.send("POST", packed, Content_Encoding="gzip")
        assert response.status == 415
        assert response.headers["accept-encoding"] == "identity"
        assert "Content-Encoding is 'gzip'; bodies are taken" in await response.error()
        fine = await client.post(initialize(), Content_Encoding="identity")
        assert fine.status == 200


@in_loop
async def test_other_methods_and_paths_are_named_in_the_refusal(port, talk):
    async with talk(port) as client:
        response = await client.send("PUT", b"{}")
        assert response.status == 405
        assert response.headers["allow"] == "GET, POST, DELETE, OPTIONS"
        response = await client.send("GET", path="/elsewhere")
        assert response.status == 404
        assert "/mcp" in await response.error()


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
@in_loop
async def test_the_path_works_with_and_without_a_slash(port, talk, path):
    async with talk(port, path=path) as client:
        await client.open()
        assert text_of(await client.answer(call(1, "add", a=1, b=2))) == "3"


@in_loop
async def test_health_checks_need_no_host(port, talk):
    async with talk(port) as client:
        for path in ("/healthz", "/readyz/"):
            response = await client.send("GET", path=path, Host="10.0.0.1")
            assert (response.status, await response.json()) == (200, {"status": "ok"})
