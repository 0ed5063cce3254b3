"""Protected servers on real sockets: every request is checked, every session has an owner."""

import asyncio
import json
import re
import subprocess
import sys
import textwrap
import time
from urllib.parse import urlsplit

import pytest

from accord import Context, Principal, Server, connect
from accord.auth import (
    AuthorizationServer,
    FirstOf,
    Guard,
    JwtVerifier,
    MemoryStore,
    OAuth,
    Protected,
    StaticTokens,
)
from accord.errors import AuthError, FlowFailed, Unauthorized
from support.http_server import bounded, serving
from support.http_talk import call, initialize, notification, request, text_of
from support.issuer import ISSUER, Published, jwks, token
from support.waiting import LONG, run, until

ANN = Principal("ann", scopes=frozenset({"read"}))
ANN_MORE = Principal("ann", scopes=frozenset({"read", "write"}))
BOB = Principal("bob", scopes=frozenset({"read", "write"}))
TOKENS = {"ann": ANN, "ann-more": ANN_MORE, "bob": BOB, "eve": Principal("eve")}


def desk(**settings):
    server = Server("desk", **settings)

    @server.tool(inline=True)
    def whoami(ctx: Context) -> str:
        return ctx.principal.subject if ctx.principal else "nobody"

    @server.tool
    async def whoami_later(ctx: Context) -> str:
        before = ctx.principal.subject
        await asyncio.sleep(0.001)
        assert before == Context.current().principal.subject
        return before

    @server.tool
    def whoami_in_thread() -> str:
        return Context.current().principal.subject

    @server.tool
    async def facts(ctx: Context) -> dict:
        found = ctx.request
        return {
            "headers": dict(found.headers),
            "peer": list(found.peer),
            "session": found.session_id,
            "path": found.url_path,
        }

    @server.tool(scopes=["write"])
    async def change(ctx: Context) -> str:
        return f"changed by {ctx.principal.subject}"

    return server


def protected(verifier=None, **settings):
    return Protected(verifier or StaticTokens(TOKENS), issuer=ISSUER, scopes=["read"], **settings)


def serve(scenario, *, auth=None, **options):
    server = desk(auth=auth or protected())
    with bounded(server.asgi(**options)) as port:
        run(scenario(port))


# -- fixed tokens alone


def test_fixed_tokens_need_no_authorization_server():
    async def scenario(port):
        url = f"http://127.0.0.1:{port}/mcp"
        async with connect(url, auth="ann") as client:
            assert await client.call_tool("whoami", result_type=str) == "ann"
        with pytest.raises(Unauthorized, match=r'pass auth="[.]+" with a token; the server'):
            await connect(url)
        with pytest.raises(Unauthorized, match="invalid_token"):
            await connect(url, auth="wrong")
        with pytest.raises(FlowFailed, match="its operator may have to give you a token") as caught:
            await connect(url, auth=OAuth(store=MemoryStore(), timeout=5.0))
        assert caught.value.step == "registration"

    serve(scenario, auth=Protected(StaticTokens(TOKENS)))


# -- every request


@pytest.mark.requirement(
    "auth.server.401-when-required",
    "auth.challenge.www-authenticate",
    "auth.prm.server",
    "auth.prm.lists-as",
    "auth.http.oauth-flow",
    "auth.role.resource-server",
    "auth.prm.one-mechanism",
)
def test_a_client_without_token_gets_the_metadata_url(talk):
    async def scenario(port):
        async with talk(port) as client:
            refused = await client.post(initialize())
            assert refused.status == 401
            said = refused.headers["www-authenticate"]
            (url,) = re.findall(r'resource_metadata="([^"]+)"', said)
            assert "error=" not in said
            for path in (urlsplit(url).path, "/.well-known/oauth-protected-resource"):
                found = await client.send("GET", path=path, Accept="application/json")
                assert found.status == 200
                document = json.loads(await found.body())
                assert document["resource"] == f"http://127.0.0.1:{port}/mcp"
                assert document["authorization_servers"] == [ISSUER]

    serve(scenario)


@pytest.mark.requirement(
    "session.requests.verified", "auth.token.validated", "auth.token.invalid-401"
)
@pytest.mark.parametrize(
    ("value", "status"),
    [(None, 401), ("Bearer wrong", 401), ("Bearer a b", 400), ("Bearer eve", 403)],
    ids=["no token", "wrong token", "malformed", "too little"],
)
def test_a_session_does_not_replace_a_token(talk, value, status):
    async def scenario(port):
        async with talk(port, "ann") as client:
            await client.open()
            client.headers["Authorization"] = value
            body = json.dumps(call(1, "whoami")).encode()
            for method, sent in (("POST", body), ("GET", None), ("DELETE", None)):
                assert (await client.send(method, sent)).status == status
            client.headers["Authorization"] = "Bearer ann"
            assert text_of(await client.answer(call(2, "whoami"))) == "ann"

    serve(scenario)


@pytest.mark.requirement("auth.token.not-in-query", "auth.status-codes")
def test_a_token_in_the_query_string_is_not_taken(talk):
    async def scenario(port):
        async with talk(port, path="/mcp?access_token=ann") as client:
            assert (await client.post(initialize())).status == 400
            client.headers["Authorization"] = "Bearer ann"
            assert (await client.post(initialize())).status == 400

    serve(scenario)


@pytest.mark.requirement("auth.tokens.validated-first")
def test_nothing_of_a_request_is_read_before_its_token(talk):
    async def scenario(port):
        async with talk(port) as client:
            # The body that is announced never comes.
            head = "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Length: 100000\r\n\r\n"
            assert (await client.raw(head.format(port).encode())).status == 401
            assert (await client.send("POST", b"no json at all")).status == 401

    serve(scenario)


def test_health_stays_open(talk):
    async def scenario(port):
        async with talk(port) as client:
            assert (await client.send("GET", path="/healthz")).status == 200

    serve(scenario)


@pytest.mark.requirement("session.requests.verified")
def test_the_older_form_is_protected_at_both_endpoints(talk):
    async def scenario(port):
        async with talk(port, revision="2024-11-05") as client:
            assert (await client.send("GET", path="/sse")).status == 401
            stream = await client.send("GET", path="/sse", Authorization="Bearer ann")
            assert stream.status == 200
            client.path = await stream.event()
            client.transport = "sse"
            body = json.dumps(initialize("2024-11-05")).encode()
            assert (await client.send("POST", body)).status == 401
            assert (await client.send("POST", body, Authorization="Bearer bob")).status == 404
            mine = {"Authorization": "Bearer ann"}
            assert (await client.send("POST", body, **mine)).status == 202
            assert (await stream.event())["result"]["serverInfo"]["name"] == "desk"
            ready = json.dumps(notification("notifications/initialized")).encode()
            await client.send("POST", ready, **mine)
            # A refusal for lack of scopes comes where all answers come.
            change = json.dumps(call(1, "change")).encode()
            assert (await client.send("POST", change, **mine)).status == 202
            assert (await stream.event())["error"]["data"]["scopes"] == ["write"]
            who = json.dumps(call(2, "whoami")).encode()
            assert (await client.send("POST", who, **mine)).status == 202
            assert text_of(await stream.event()) == "ann"

    serve(scenario, sse=True)


# -- sessions and principals


@pytest.mark.requirement("session.id.bound-to-user", "session.requests.verified")
def test_the_session_of_another_user_does_not_exist(talk):
    async def scenario(port):
        async with talk(port, "ann") as ann, talk(port, "bob") as bob:
            await ann.open()
            bob.session = ann.session
            for method, body in (
                ("POST", json.dumps(call(1, "whoami")).encode()),
                ("GET", None),
                ("DELETE", None),
            ):
                assert (await bob.send(method, body)).status == 404
            assert text_of(await ann.answer(call(2, "whoami"))) == "ann"

    serve(scenario)


def test_a_new_token_of_the_same_principal_goes_on_with_the_session(talk):
    async def scenario(port):
        async with talk(port, "ann") as client:
            await client.open()
            assert (await client.post(call(1, "change"))).status == 403
            client.headers["Authorization"] = "Bearer ann-more"
            assert text_of(await client.answer(call(2, "change"))) == "changed by ann"

    serve(scenario)


class Fading:
    """Takes every token; one called short ends soon after it was shown, one called late before."""

    async def verify(self, token):
        lasts = {"short": 0.3, "late": -5.0}.get(token, 600)
        return Principal("ann", scopes=frozenset({"read"}), expires_at=time.time() + lasts)


@pytest.fixture
def brief(monkeypatch):
    """Let a stream end soon also where the machine was so slow that its token was over before."""
    monkeypatch.setattr("accord.http.server.exchange._LEEWAY", 0.3)


@pytest.mark.usefixtures("brief")
def test_a_listening_client_returns_with_the_next_token(talk):
    async def scenario(port):
        async with talk(port, "long") as client:
            await client.open()
            listening = await client.get(Authorization="Bearer short")
            assert listening.status == 200
            assert await listening.rest() == []
            again = await client.get()
            assert again.status == 200
            assert text_of(await client.answer(call(1, "remind"))) == "soon"
            assert (await again.event())["method"] == "notifications/tools/list_changed"

    serve_reminders(scenario)


def test_a_token_that_is_taken_though_clocks_differ_opens_a_stream_that_lasts(talk):
    async def scenario(port):
        async with talk(port, "late") as client:
            await client.open()
            listening = await client.get()
            await asyncio.sleep(0.4)  # clock: longer than the token lasts by our clock
            assert text_of(await client.answer(call(1, "remind"))) == "soon"
            assert (await listening.event())["method"] == "notifications/tools/list_changed"

    serve_reminders(scenario)


def test_a_call_may_take_longer_than_its_token(talk):
    async def scenario(port):
        async with talk(port, "short") as client:
            await client.open()
            said = await (await client.post(call(1, "slow", token="p"))).rest()
            assert text_of(said[-1]) == "done"
            broken = await client.post(call(2, "slow", token="q"))
            await broken.event()
            broken.abort()
            resumed = await client.get(Last_Event_ID=broken.last_id)
            assert text_of((await resumed.rest())[-1]) == "done"

    serve_reminders(scenario)


@pytest.mark.usefixtures("brief")
def test_a_session_of_the_older_form_lives_as_long_as_the_last_token_shown(talk):
    async def scenario(port):
        async with talk(port, "short", revision="2024-11-05") as client:
            client.transport, status = "sse", 404
            body = json.dumps(initialize("2024-11-05")).encode()
            while status == 404:  # on a busy machine, the first token may be over before
                stream = await client.send("GET", path="/sse")
                client.path = await stream.event()
                status = (await client.send("POST", body, Authorization="Bearer long")).status
            assert status == 202
            assert (await stream.event())["result"]["serverInfo"]["name"] == "reminders"
            await client.post(notification("notifications/initialized"))
            assert (await client.send("POST", json.dumps(call(1, "slow")).encode())).status == 202
            assert text_of(await stream.event()) == "done"
            other = await client.send("GET", path="/sse")
            assert [place.split("?")[0] for place in await other.rest()] == ["/messages"]

    serve_reminders(scenario, sse=True)


class Withdrawn:
    """Takes every token until it is withdrawn; of one called unknown it cannot tell for a while."""

    def __init__(self):
        self.tokens = set()
        self.asked = set()

    async def verify(self, token):
        if "unknown" in self.tokens:
            self.asked.add(token)
            raise AuthError("not reachable")
        return None if token in self.tokens else Principal("ann", scopes=frozenset({"read"}))


def test_a_stream_ends_once_its_token_is_revoked(talk):
    withdrawn = Withdrawn()

    async def scenario(port):
        async with talk(port, "good") as client:
            await client.open()
            kept, ended = await client.get(), await client.get(Authorization="Bearer bad")
            withdrawn.tokens.add("unknown")
            await until(lambda: withdrawn.asked == {"good", "bad"})
            withdrawn.tokens = {"bad"}
            assert await ended.rest() == []
            assert (await client.get(Authorization="Bearer bad")).status == 401
            assert text_of(await client.answer(call(1, "remind"))) == "soon"
            assert (await kept.event())["method"] == "notifications/tools/list_changed"

    serve_reminders(scenario, withdrawn)


def test_a_session_of_the_older_form_ends_once_the_last_token_shown_is_revoked(talk):
    withdrawn = Withdrawn()

    async def scenario(port):
        async with talk(port, "first", revision="2024-11-05") as client:
            client.transport = "sse"
            stream = await client.send("GET", path="/sse")
            client.path = await stream.event()
            client.headers["Authorization"] = "Bearer second"
            await client.send("POST", json.dumps(initialize("2024-11-05")).encode())
            assert (await stream.event())["result"]["serverInfo"]["name"] == "reminders"
            await client.post(notification("notifications/initialized"))
            withdrawn.tokens.add("first")
            assert (await client.send("POST", json.dumps(call(1, "slow")).encode())).status == 202
            withdrawn.tokens.add("second")
            assert text_of(await stream.event()) == "done"
            assert await stream.rest() == []

    serve_reminders(scenario, withdrawn, sse=True)


def serve_reminders(scenario, verifier=None, **options):
    server = Server("reminders", auth=protected(verifier or Fading()))

    @server.tool
    async def slow(ctx: Context) -> str:
        await ctx.progress(1)
        await asyncio.sleep(1)
        return "done"

    @server.tool
    async def remind(ctx: Context) -> str:
        ctx.session.list_changed("tools")
        return "soon"

    with bounded(server.asgi(keep_alive=0.4, **options)) as port:
        run(scenario(port))


@pytest.mark.parametrize("sessions", [True, False], ids=["sessions", "no sessions"])
def test_two_principals_interleaved_never_mix(talk, sessions):
    async def scenario(port):
        async def calls(who, tool):
            async with talk(port, who) as client:
                if sessions:
                    await client.open()
                for number in range(40):
                    assert text_of(await client.answer(call(number, tool))) == who

        tools = ("whoami", "whoami_later", "whoami_in_thread")
        await asyncio.gather(*(calls(who, tool) for who in ("ann", "bob") for tool in tools))

    serve(scenario, sessions=sessions)


def test_handlers_see_headers_and_peer_but_no_token(talk):
    async def scenario(port):
        async with talk(port, "ann") as client:
            await client.open()
            answer = await client.answer(call(1, "facts"), X_Tenant="blue")
            found = answer["result"]["structuredContent"]
            assert found["headers"]["x-tenant"] == "blue"
            assert "authorization" not in found["headers"]
            assert found["peer"][0] == "127.0.0.1"
            assert (found["session"], found["path"]) == (client.session, "/mcp")

    serve(scenario)


def test_without_protection_handlers_have_no_principal_and_all_headers_are_kept(talk):
    async def scenario(port):
        async with talk(port, "passed-on-by-a-gateway") as client:
            await client.open()
            assert text_of(await client.answer(call(1, "whoami"))) == "nobody"
            found = (await client.answer(call(2, "facts")))["result"]["structuredContent"]
            assert found["headers"]["authorization"] == "Bearer passed-on-by-a-gateway"
            refused = await client.answer(call(3, "change"))
            assert refused["error"]["data"]["scopes"] == ["write"]

    with bounded(desk().asgi()) as port:
        run(scenario(port))


def test_in_memory_there_are_no_facts():
    async def scenario():
        server = desk()

        @server.tool
        def known(ctx: Context) -> bool:
            return bool(ctx.request.headers) or ctx.request.peer is not None

        async with connect(server) as client:
            assert (await client.call_tool("known")).structured_content == {"result": False}
            assert (await client.call_tool("whoami")).content[0].text == "nobody"

    run(scenario())


# -- scopes


@pytest.mark.requirement(
    "tools.server.access-controlled",
    "auth.status-codes",
    "auth.scope.insufficient-403",
    "auth.scope.insufficient-names-needed",
    "auth.scope.all-in-one-challenge",
)
def test_a_tool_without_its_scopes_is_not_listed_and_403_names_all_that_is_needed(talk):
    async def scenario(port):
        async with talk(port, "ann") as ann, talk(port, "bob") as bob:
            await ann.open()
            await bob.open()
            for client, expected in ((ann, False), (bob, True)):
                listed = await client.answer(request(1, "tools/list"))
                names = [each["name"] for each in listed["result"]["tools"]]
                assert ("change" in names) is expected
            refused = await ann.post(call(2, "change"))
            assert refused.status == 403
            said = refused.headers["www-authenticate"]
            assert 'error="insufficient_scope", scope="read write"' in said
            body = await refused.json()
            assert (body["id"], body["error"]["data"]["scopes"]) == (2, ["write"])
            assert text_of(await bob.answer(call(3, "change"))) == "changed by bob"

    serve(scenario)


def test_in_a_batch_one_refusal_leaves_the_others(talk):
    async def scenario(port):
        async with talk(port, "ann", revision="2025-03-26") as client:
            await client.open()
            response = await client.post([call(1, "change"), call(2, "whoami")])
            assert response.status == 200
            first, second = sorted(await response.json(), key=lambda each: each["id"])
            assert first["error"]["data"]["scopes"] == ["write"]
            assert text_of(second) == "ann"

    serve(scenario)


@pytest.mark.requirement("auth.scope.challenge-has-scope", "auth.scope.all-in-one-challenge")
def test_scopes_of_tools_alone_are_in_the_challenge_and_the_metadata(talk):
    server = desk(auth=Protected(StaticTokens(TOKENS), issuer=ISSUER))

    @server.prompt(scopes=["a", "b"])
    def prompt() -> str:
        return ""

    async def scenario(port):
        async with talk(port) as client:
            said = await client.post(initialize())
            assert said.status == 401
            assert 'scope="a b write"' in said.headers["www-authenticate"]
        server.prompt_entries.disable("prompt")
        async with talk(port) as client:
            said = await client.post(initialize())
            assert 'scope="write"' in said.headers["www-authenticate"]

    with bounded(server.asgi()) as port:
        run(scenario(port))


def test_without_step_up_the_challenge_names_no_scopes_of_tools(talk):
    auth = Protected(StaticTokens(TOKENS), issuer=ISSUER)

    async def scenario(port):
        async with talk(port) as client:
            said = await client.post(initialize())
            assert "scope=" not in said.headers["www-authenticate"]

    with bounded(desk(auth=auth, step_up=False).asgi()) as port:
        run(scenario(port))


@pytest.mark.requirement("auth.scope.hierarchy")
def test_a_tool_can_be_called_with_a_scope_that_includes_its_own(talk):
    tokens = StaticTokens({"root": ["admin"], "ann": ["read"]})
    auth = Protected(tokens, issuer=ISSUER, implied_scopes={"admin": ["read", "write"]})

    async def scenario(port):
        async with talk(port, "root", revision="2025-06-18") as client:
            await client.open()
            assert "changed by" in text_of(await (await client.post(call(1, "change"))).json())
        async with talk(port, "ann", revision="2025-06-18") as client:
            await client.open()
            assert (await client.post(call(1, "change"))).status == 403

    serve(scenario, auth=auth)


# -- tokens of an issuer


@pytest.mark.requirement(
    "auth.token.audience-validated",
    "auth.token.foreign-rejected",
    "auth.resource.case-tolerant",
    "auth.server.own-tokens-only",
)
def test_only_tokens_that_were_issued_for_this_server_are_taken(talk):
    auth = protected(JwtVerifier(ISSUER, keys=jwks("first")))

    async def scenario(port):
        ours = f"http://127.0.0.1:{port}/mcp"
        good = [ours, f"HTTP://127.0.0.1:{port}/mcp/", ["https://other.example", ours]]
        bad = ["https://other.example/mcp", f"http://127.0.0.1:{port}", f"{ours}/more"]
        for status, audiences in ((200, good), (401, bad)):
            for audience in audiences:
                async with talk(port, token(aud=audience)) as client:
                    assert (await client.post(initialize())).status == status

    serve(scenario, auth=auth)


@pytest.mark.requirement("auth.token.validated", "auth.token.invalid-401")
def test_attacks_on_tokens_are_401_on_the_wire(talk):
    auth = protected(JwtVerifier(ISSUER, audience="desk", keys=jwks("first"), leeway=0))
    bad = {
        "expired": token(aud="desk", exp=1),
        "issuer": token(aud="desk", iss="https://evil.example"),
        "key": token("second", aud="desk"),
        "huge": "a" * 20_000,
    }

    async def scenario(port):
        for name, given in bad.items():
            async with talk(port, given) as client:
                refused = await client.post(initialize())
                assert refused.status == 401, name
                assert 'error="invalid_token"' in refused.headers["www-authenticate"]
        async with talk(port, token(aud="desk")) as client:
            await client.open()

    serve(scenario, auth=auth)


class Issuer:
    """A JWKS on a socket, which may be broken."""

    def __init__(self, *names):
        self.document = jwks(*names)
        self.status = 200
        self.asked = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        self.asked += 1
        body = json.dumps(self.document).encode()
        headers = [(b"content-type", b"application/json")]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def test_keys_come_from_a_real_endpoint_rotate_and_outlive_it(talk):
    issuer = Issuer("first")
    with serving(issuer, lifespan="off") as jwks_port:
        url = f"http://127.0.0.1:{jwks_port}/jwks"
        verifier = JwtVerifier(ISSUER, audience="desk", jwks_url=url, pause=0.0)

        async def scenario(port):
            async def status(given):
                async with talk(port, given) as client:
                    return (await client.post(initialize())).status

            issuer.status = 500
            assert await status(token(aud="desk")) == 503
            issuer.status = 200
            many = [status(token(aud="desk", jti=str(number))) for number in range(8)]
            assert await asyncio.gather(*many) == [200] * 8
            asked = issuer.asked
            assert await status(token(aud="desk")) == 200
            assert issuer.asked == asked
            issuer.document = jwks("second")
            assert await status(token("second", aud="desk")) == 200
            issuer.status = 500
            assert await status(token("second", aud="desk", jti="x")) == 200
            assert await status(token("third", aud="desk")) == 401

        serve(scenario, auth=protected(verifier))


@pytest.mark.requirement("auth.as-metadata.server")
def test_with_an_authorization_server_of_its_own_a_server_publishes_the_metadata_of_both(talk):
    auth = AuthorizationServer(auto_approve="ann", scopes=["read"])

    async def scenario(port):
        async with talk(port) as client:
            assert (await client.post(initialize())).status == 401
            found = await client.send("GET", path="/.well-known/oauth-authorization-server")
            document = json.loads(await found.body())
            assert document["authorization_endpoint"].startswith(f"http://127.0.0.1:{port}/")
            described = await client.send("GET", path="/.well-known/oauth-protected-resource/mcp")
            issuers = json.loads(await described.body())["authorization_servers"]
            assert issuers == [document["issuer"]]

    serve(scenario, auth=auth)


# -- the ways to serve


def test_our_own_client_is_served_with_its_token():
    async def scenario(port):
        async with connect(f"http://127.0.0.1:{port}/mcp", auth="bob") as client:
            assert (await client.call_tool("whoami")).content[0].text == "bob"
            assert "change" in [tool.name async for tool in client.tools()]

    serve(scenario)


def test_a_guard_alone_protects_a_server_that_knows_nothing_of_it(talk):
    server = desk()
    app = Guard(server.asgi(), protected())

    async def scenario(port):
        async with talk(port, "ann") as client, talk(port, "bob") as bob:
            await client.open()
            assert text_of(await client.answer(call(1, "whoami"))) == "ann"
            assert (await client.post(call(2, "change"))).status == 403
            bob.session = client.session
            assert (await bob.post(call(1, "whoami"))).status == 404
        async with talk(port) as stranger:
            assert (await stranger.post(initialize())).status == 401

    with serving(app) as port:
        run(scenario(port))


def test_mounted_below_a_path_everything_is_found_there(talk):
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/tools", desk(auth=protected()).asgi())])

    async def scenario(port):
        async with talk(port, path="/tools/mcp") as client:
            refused = await client.post(initialize())
            (url,) = re.findall(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
            found = await client.send("GET", path=urlsplit(url).path)
            document = json.loads(await found.body())
            assert document["resource"] == f"http://127.0.0.1:{port}/tools/mcp"
            client.headers["Authorization"] = "Bearer ann"
            await client.open()
            assert text_of(await client.answer(call(1, "whoami"))) == "ann"

    with serving(app) as port:
        run(scenario(port))


def test_behind_a_proxy_one_public_url_is_enough(talk):
    auth = protected(
        JwtVerifier(ISSUER, keys=jwks("first")), public_url="https://desk.example/tools/mcp"
    )

    async def scenario(port):
        async with talk(port) as client:
            client.headers["Host"] = "desk.example"
            refused = await client.post(initialize())
            url = "https://desk.example/tools/.well-known/oauth-protected-resource/mcp"
            assert f'resource_metadata="{url}"' in refused.headers["www-authenticate"]
            given = token(aud="https://desk.example/tools/mcp")
            client.headers["Authorization"] = f"Bearer {given}"
            await client.open()
            assert text_of(await client.answer(call(1, "whoami"))) == "ann"

    serve(scenario, auth=auth)


def test_accord_run_serves_a_protected_server(tmp_path, talk):
    (tmp_path / "desk.py").write_text(
        textwrap.dedent("""
        from accord import Context, Server
        from accord.auth import Protected, StaticTokens

        auth = Protected(StaticTokens({"secret": "read"}), issuer="https://issuer.example")
        server = Server("desk", auth=auth)

        @server.tool
        def scopes(ctx: Context) -> str:
            "Say what the caller may do."
            return " ".join(ctx.principal.scopes)
        """)
    )
    command = [sys.executable, "-m", "accord.cli.main", "run", "desk.py", "--http", "--port", "0"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        said = process.stderr.readline()
        port = int(re.findall(r":(\d+)/mcp", said)[0])

        async def scenario():
            async with talk(port) as stranger:
                assert (await stranger.post(initialize())).status == 401
            async with talk(port, "secret") as client:
                await client.open()
                assert text_of(await client.answer(call(1, "scopes"))) == "read"

        run(scenario())
    finally:
        process.terminate()
        assert process.wait(LONG) == 0
        process.stderr.close()


def test_a_key_endpoint_that_is_slow_holds_up_only_those_who_need_it(talk):
    published, gate = Published("first"), asyncio.Event()
    serving_loop = None

    async def late(request):
        nonlocal serving_loop
        serving_loop = asyncio.get_running_loop()
        await gate.wait()
        return await published.send(request)

    fixed = StaticTokens(TOKENS)
    slow = JwtVerifier(ISSUER, audience="desk", jwks_url="https://i.example/jwks", send=late)

    async def scenario(port):
        async with talk(port, token(aud="desk")) as waiting, talk(port, "ann") as client:
            task = asyncio.create_task(waiting.post(initialize()))
            await until(lambda: serving_loop)
            await client.open()
            assert text_of(await client.answer(call(1, "whoami"))) == "ann"
            assert not task.done()
            serving_loop.call_soon_threadsafe(gate.set)
            assert (await task).status == 200

    serve(scenario, auth=protected(FirstOf(fixed, slow)))
