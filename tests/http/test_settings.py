"""The settings of an app: sessions, principals, browsers, limits."""

import asyncio
import json

import pytest

from accord import Server
from accord.http.server.sessions import caller_key
from accord.http.settings import HttpLimits
from accord.sharing import MemoryBackend
from support.http_offer import offer
from support.http_server import bounded, served
from support.http_talk import Connection, call, initialize, notification, request, text_of
from support.stored_apps import in_one_process
from support.tables import cases
from support.waiting import run


def serve(scenario, **options):
    with bounded(offer().asgi(**options)) as port:
        run(scenario(port))


# -- stateless


@served(sessions=False)
async def test_without_sessions_every_request_stands_alone(port, talk):
    async with talk(port) as client:
        opened = await client.post(initialize())
        assert "mcp-session-id" not in opened.headers
        assert (await opened.json())["result"]["serverInfo"]["name"] == "offer"
        initialized = await client.post(notification("notifications/initialized"))
        assert initialized.status == 202
    for _ in range(2):
        async with talk(port) as stranger:
            response = await stranger.post(call(1, "count", token="t", to=2))
            assert response.kind == "text/event-stream"
            *steps, answer = await response.rest()
            assert (len(steps), text_of(answer), response.ids) == (2, "2", [None] * 3)


@pytest.mark.parametrize("kind", ["in this process", "in a store"])
def test_without_sessions_progress_precedes_the_answer(kind, talk):
    async def scenario(port):
        async with talk(port) as client:
            response = await client.post(call(1, "count", token="t", to=2))
            *steps, answer = await response.rest()
            assert (len(steps), text_of(answer)) == (2, "2")

    store = {"store": MemoryBackend(), "store_keys": "none"} if kind == "in a store" else {}
    serve(scenario, sessions=False, **store)


@served(sessions=False)
async def test_without_sessions_there_is_nothing_to_listen_to_or_to_end(port, talk):
    async with talk(port) as client:
        for method in ("GET", "DELETE"):
            response = await client.send(method)
            assert response.status == 405
            assert response.headers["allow"] == "POST, OPTIONS"


@served(sessions=False)
async def test_without_sessions_ids_of_different_clients_do_not_collide(port, talk):
    async with talk(port) as client, talk(port) as other:
        waiting = asyncio.create_task(client.answer(call(1, "wait", name="same id")))
        while "same id begins" not in text_of(await other.answer(call(1, "history"))):
            await asyncio.sleep(0.01)
        await other.answer(call(1, "free", name="same id"))
        assert text_of(await waiting) == "same id"


@served(sessions=False)
async def test_without_sessions_nothing_can_be_asked(port, talk):
    async with talk(port) as client:
        response = await client.post(call(1, "ask"), MCP_Protocol_Version="2025-06-18")
        assert "did not declare" in text_of(await response.json())


@served(sessions=False)
async def test_without_sessions_a_client_s_capabilities_do_not_reach_the_next(port, talk):
    async with talk(port) as client, talk(port) as stranger:
        await client.answer(initialize(elicitation={}))
        response = await stranger.post(call(1, "ask"), MCP_Protocol_Version="2025-06-18")
        assert "did not declare" in text_of(await response.json())


@served(sessions=False)
async def test_without_sessions_nothing_is_promised_that_needs_one(port, talk):
    async with talk(port) as client:
        opened = await client.answer(initialize())
        declared = opened["result"]["capabilities"]
        assert "logging" not in declared
        assert not any(each.get("listChanged") for each in declared.values())
        assert not declared.get("resources", {}).get("subscribe")
        refused = await client.post(request(2, "logging/setLevel", level="error"))
        assert (await refused.json())["error"]["code"] == -32601


@served(sessions=False)
async def test_without_sessions_an_unreadable_message_is_refused(port, talk):
    async with talk(port) as client:
        assert (await client.post(b"{")).status == 400
        refused = await client.post(request(1, "ping"), MCP_Protocol_Version="x")
        assert refused.status == 400


@in_one_process  # with a store, a module of the tests stands between
def test_the_former_name_of_a_server_without_sessions_names_the_present_one():
    with pytest.warns(DeprecationWarning, match="stateless=True is now sessions=False") as warned:
        app = offer().asgi(stateless=True)
    assert app.options["sessions"] is False
    assert [each.filename for each in warned] == [__file__]
    with pytest.warns(DeprecationWarning, match="stateless=False is now sessions=True"):
        assert offer().asgi(stateless=False).options["sessions"] == 10_000


@in_one_process
@cases("name", HttpLimits.__struct_fields__)
def test_the_former_name_of_a_limit_works_and_names_the_present_one(name):
    said = f"{name}=7 is now limits=HttpLimits\\({name}=7\\)"
    with pytest.warns(DeprecationWarning, match=said) as warned:
        app = offer().asgi(**{name: 7}, limits=HttpLimits(connections=8, write_timeout=9))
    expected = {"connections": 8, "write_timeout": 9, name: 7}
    assert app.options["limits"] == HttpLimits(**expected)
    assert [each.filename for each in warned] == [__file__]


def test_sessions_are_a_number_or_whether_there_are_any():
    given = (False, True, 7)
    found = [offer().asgi(sessions=each).options["sessions"] for each in given]
    assert found == [False, 10_000, 7]


# -- principals


def test_a_session_serves_only_the_caller_that_opened_it(talk):
    def who(scope):
        return dict(scope["headers"]).get(b"authorization")

    async def scenario(port):
        async with talk(port) as client:
            client.headers["Authorization"] = "ada"
            await client.open()
            client.headers["Authorization"] = "bob"
            for response in (
                await client.post(request(1, "ping")),
                await client.get(),
                await client.send("DELETE"),
            ):
                assert response.status == 404
            client.headers["Authorization"] = "ada"
            assert (await client.post(request(1, "ping"))).status == 200

    serve(scenario, principal=who)


class User:
    """A user of an application; the name that is shown can be chosen."""

    def __init__(self, id, name):
        self.id = id
        self.name = name

    def __eq__(self, other):
        return self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __str__(self):
        return self.name


@pytest.mark.parametrize(
    ("caller", "kind"),
    [
        (User(1, "ann"), "User"),
        (object(), "object"),
        (True, "bool"),
        (1.5, "float"),
        (frozenset({"ann"}), "frozenset"),
        (("ann", User(1, "ann")), "User"),
        (["ann"], "list"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_caller_that_is_not_named_by_a_plain_value_is_refused(talk, caplog, caller, kind):
    async def scenario(port):
        async with talk(port) as client:
            opened = await client.post(initialize())
            assert opened.status == 500
            assert "mcp-session-id" not in opened.headers

    serve(scenario, principal=lambda scope: caller)
    reason = f"a caller is named by a {kind}: let `principal=` return a Principal, a str"
    assert reason in caplog.text


# -- limits


@served(sessions=2)
async def test_sessions_in_use_are_limited(port, talk):
    async with talk(port) as client, talk(port) as other, talk(port) as third:
        for each in (client, other):
            await each.open()
            await each.get()
        response = await third.post(initialize())
        assert response.status == 503
        assert "2 sessions are open (sessions)" in await response.error()
        assert int(response.headers["retry-after"]) > 0
        assert (await client.send("DELETE")).status == 204
        await third.open()


@in_one_process
@served(sessions=20)
async def test_a_flood_of_sessions_used_once_does_not_lock_others_out(port, talk):
    async with talk(port) as client, talk(port) as newcomer:
        await client.open()
        flood = await Connection.to(port)
        sessions = []
        for _ in range(60):
            sessions.append(await flood.open())
            # A session that is still used is kept.
            assert (await client.post(request(1, "ping"))).status == 200
        await newcomer.open()
        assert (await newcomer.post(request(1, "ping"))).status == 200
        ping = json.dumps(request(1, "ping")).encode()
        for session in sessions[:40]:
            response = await flood.send("POST", ping, session)
            await response.body()
            assert response.status == 404
        flood.close()


def by_header(scope):
    return dict(scope["headers"]).get(b"authorization")


@in_one_process
@served(sessions=10, principal=by_header)
async def test_a_caller_s_flood_ends_its_own_sessions_first(port, talk):
    async with talk(port) as client, talk(port) as flood, talk(port) as newcomer:
        client.headers["Authorization"] = "ada"
        flood.headers["Authorization"] = "eve"
        newcomer.headers["Authorization"] = "bob"
        await client.open()  # and idle for longer than all of the flood
        for _ in range(50):
            flood.session = None
            await flood.open()
        assert (await client.post(request(1, "ping"))).status == 200
        await newcomer.open()
        for _ in range(50):
            flood.session = None
            await flood.open()
        for each in (client, newcomer):
            assert (await each.post(request(2, "ping"))).status == 200


@in_one_process
@served(sessions_per_caller=2, principal=by_header)
async def test_a_caller_has_a_quota_of_sessions(port, talk):
    async with talk(port) as client, talk(port) as other, talk(port) as third:
        for each in (client, other, third):
            each.headers["Authorization"] = "ada"
        await client.open()
        await client.get()
        await other.open()
        await third.open()  # in place of the other's, which is idle
        assert (await other.post(request(1, "ping"))).status == 404
        await third.get()
        other.session = None
        response = await other.post(initialize())
        assert response.status == 503
        assert "(sessions_per_caller)" in await response.error()
        other.headers["Authorization"] = "bob"
        await other.open()


@served(sessions=2, principal=by_header)
async def test_sessions_of_other_callers_that_were_just_used_are_not_ended(port, talk):
    async with talk(port) as client, talk(port) as other, talk(port) as third:
        for each, name in ((client, "ada"), (other, "bob"), (third, "eve")):
            each.headers["Authorization"] = name
        await client.open()
        await other.open()
        assert (await third.post(initialize())).status == 503
        for each in (client, other):
            assert (await each.post(request(1, "ping"))).status == 200


@cases(
    ("one", "other", "is_same"),
    [
        ((None, ("10.0.0.1", 5)), (None, ("10.0.0.1", 6)), True),
        ((None, ("10.0.0.1", 5)), (None, ("10.0.0.2", 5)), False),
        ((None, ("2001:db8::1", 5)), (None, ("2001:db8::ffff:2", 6)), True),
        ((None, ("2001:db8:0:1::1", 5)), (None, ("2001:db8:0:2::1", 6)), False),
        ((None, ("::ffff:10.0.0.1", 5)), (None, ("::ffff:10.0.0.2", 6)), False),
        ((None, ("testclient", 5)), (None, None), False),
        (("ada", ("10.0.0.1", 5)), ("ada", ("10.0.0.2", 5)), True),
        (({}, ("10.0.0.1", 5)), ({}, ("10.0.0.1", 6)), True),
    ],
)
def test_a_caller_is_a_principal_or_a_network(one, other, is_same):
    assert (caller_key(*one) == caller_key(*other)) is is_same


@in_one_process
@served(sessions=3)
async def test_sessions_that_were_never_used_make_room(port, talk):
    async with talk(port) as client, talk(port) as other:
        await client.open()
        for _ in range(10):
            assert (await other.post(initialize())).status == 200
        assert (await client.post(request(1, "ping"))).status == 200


@served(sessions=1)
async def test_a_failed_opening_leaves_no_session(port, talk):
    async with talk(port) as client:
        for body in (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', b"{", b"[]"):
            response = await client.post(body)
            assert "mcp-session-id" not in response.headers
        for _ in range(3):
            await client.post(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}')
        assert (await client.post(initialize())).status == 200


@served(limits=HttpLimits(connections=3))
async def test_requests_under_way_are_limited(port, talk):
    async with talk(port) as client:
        await client.open()
        streams = [await client.get() for _ in range(3)]
        response = await client.post(request(1, "ping"))
        assert response.status == 503
        assert "(connections)" in await response.error()
        for stream in streams:
            stream.close()
        while (await client.post(request(1, "ping"))).status == 503:
            await asyncio.sleep(0.01)


# -- browsers


def test_a_browser_gets_a_preflight_and_may_read_the_answer(talk):
    origin = "https://app.example"

    async def scenario(port):
        async with talk(port) as client:
            client.headers["Origin"] = origin
            preflight = await client.send(
                "OPTIONS",
                Access_Control_Request_Method="POST",
                Access_Control_Request_Headers="content-type,mcp-session-id",
            )
            assert preflight.status == 204
            headers = preflight.headers
            assert headers["access-control-allow-origin"] == origin
            assert "POST" in headers["access-control-allow-methods"]
            assert headers["access-control-allow-headers"] == "content-type,mcp-session-id"
            assert headers["vary"] == "Origin"
            response = await client.post(initialize())
            assert response.headers["access-control-allow-origin"] == origin
            assert "Mcp-Session-Id" in response.headers["access-control-expose-headers"]
            client.session = response.headers["mcp-session-id"]
            await client.post(notification("notifications/initialized"))
            stream = await client.post(call(1, "count", token="t", to=1))
            assert stream.headers["access-control-allow-origin"] == origin
            refused = await client.post(b"{")
            assert refused.headers["access-control-allow-origin"] == origin

    serve(scenario, cors=True, allowed_origins=[origin])


@served()
async def test_without_the_setting_there_are_no_cors_headers(port, talk):
    async with talk(port) as client:
        client.headers["Origin"] = "http://localhost:3000"
        for response in (await client.send("OPTIONS"), await client.post(initialize())):
            assert response.status in (200, 204)
            assert not any(name.startswith("access-control") for name in response.headers)


@served(allowed_origins=["*"], allowed_hosts=["*"])
async def test_any_origin_can_be_allowed(port, talk):
    async with talk(port) as client:
        response = await client.post(initialize(), Origin="https://any.example", Host="any")
        assert response.status == 200


# -- mistakes


@cases(
    ("options", "why"),
    [
        ({"path": "mcp"}, "begins with /"),
        ({"path": "/mcp?a=b"}, "no query"),
        ({"path": "/sse/", "sse": True}, "'/sse', which the app uses already"),
        ({"path": "/healthz"}, "uses already"),
        ({"cors": ["https://a.example"]}, "list the origins in allowed_origins"),
        ({"retry": -1}, "0 or more"),
        ({"allowed_hosts": ["https://a.example"]}, "allowed_hosts has 'https://a.example'"),
        ({"answers": "xml"}, "'auto', 'json' or 'stream'"),
        ({"allowed_hosts": "example.com"}, "a list"),
        ({"public_url": "example.com"}, "http"),
        ({"sessions": 0}, "more than 0, or False for none"),
        ({"sse": True, "sessions": False}, "sessions=False"),
        ({"session_idle": "long"}, "session_idle is 'long', expected more than 0"),
        ({"limits": 7}, r"limits is 7, expected HttpLimits\(...\)"),
    ],
)
def test_invalid_settings_are_named(options, why):
    with pytest.raises(ValueError, match=why):
        Server("any").asgi(**options)


def test_an_invalid_limit_is_named():
    with pytest.raises(ValueError, match="connections is 0, expected more than 0"):
        HttpLimits(connections=0)


def test_a_setting_that_does_not_exist_is_refused_with_the_nearest():
    with pytest.raises(TypeError, match="no keyword 'pth'; did you mean 'path'"):
        offer().asgi(pth="/mcp")


def test_a_server_that_does_not_start_says_so_and_tries_again(talk, caplog):
    from contextlib import asynccontextmanager

    tries = []

    @asynccontextmanager
    async def lifespan(server):
        tries.append(server)
        if len(tries) == 1:
            raise RuntimeError("no database at 10.0.0.7")
        yield "ready"

    async def scenario(port):
        async with talk(port) as client:
            response = await client.post(initialize())
            assert response.status == 500
            assert await response.error() == "internal error"
            assert (await client.post(initialize())).status == 200

    app = Server("shy", lifespan=lifespan).asgi()

    async def without_lifespan(scope, receive, send):
        assert scope["type"] == "http"
        await app(scope, receive, send)

    from support.http_server import serving

    with serving(without_lifespan, lifespan="off") as port:
        run(scenario(port))
    assert "no database" in caplog.text
