"""The guard around any ASGI app, played message by message."""

import asyncio
import json
import time

import pytest

from accord import Principal, Server
from accord.auth import (
    FirstOf,
    Guard,
    IntrospectionVerifier,
    JwtVerifier,
    Protected,
    StaticTokens,
)
from accord.auth.guard import KnownHeaders, TokenHead
from accord.auth.verifiers import REQUEST_SOURCE, TokenMemory, token_digest
from accord.errors import AuthError
from accord.http.server.exchange import Admission
from support.asgi import Asgi
from support.issuer import ISSUER, RESOURCE, jwks, token
from support.tables import cases
from support.waiting import until

ANN = Principal("ann", scopes=frozenset({"read"}))
TOKENS = StaticTokens({"good": ANN})
METADATA = "/.well-known/oauth-protected-resource"


class Inner:
    """An app that notes what reaches it, and answers."""

    def __init__(self):
        self.seen = []
        self.needs = None

    async def __call__(self, scope, receive, send):
        self.seen.append(scope)
        if scope["type"] == "http":
            status, headers = 200, [(b"content-type", b"text/plain")]
            if self.needs is not None:
                status = 403
                headers.append(scope["accord.challenge"](self.needs))
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"inside", "more_body": False})


def protected(verifier=TOKENS, **settings):
    settings.setdefault("issuer", ISSUER)
    settings.setdefault("public_url", RESOURCE)
    return Protected(verifier, **settings)


def ask(method="POST", *, inner=None, guard=None, scope=None, path="/mcp", **headers):
    """Send one request through a guard, and return what came of it."""

    async def scenario():
        app = guard or protected().guard(inner or Inner())
        client = Asgi(app)
        given = {**client.scope(method, path, **headers), **(scope or {})}
        client.scope = lambda *_, **__: given
        return await client.start(method, b"{}").done()

    return asyncio.run(scenario())


# -- letting through


@pytest.mark.requirement("auth.token.validated", "auth.role.resource-server")
def test_a_valid_token_passes_and_sets_the_principal():
    inner = Inner()
    answer = ask(inner=inner, authorization="Bearer good")
    assert (answer.status, answer.body) == (200, b"inside")
    assert inner.seen[0]["accord.principal"] is ANN


def test_a_verifier_knows_from_which_address_a_token_came():
    seen = []

    class Noting:
        async def verify(self, token):
            seen.append(REQUEST_SOURCE.get())
            return ANN

    guard = protected(Noting()).guard(Inner())
    for address in (("192.0.2.1", 5), ("2001:db8::1", 6), None):
        ask(guard=guard, scope={"client": address}, authorization="Bearer good")
    assert seen == ["192.0.2.1", "2001:db8::/64", ""]


def test_a_principal_set_by_an_outer_app_is_removed():
    inner = Inner()
    forged = {"accord.principal": Principal("root")}
    assert ask(inner=inner, scope=dict(forged)).status == 401
    assert inner.seen == []
    ask(inner=inner, scope=dict(forged), path="/healthz")
    assert "accord.principal" not in inner.seen[0]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/readyz/"])
def test_health_stays_open(path):
    assert ask("GET", path=path, host="10.1.2.3").status == 200


def test_preflights_stay_open_and_other_options_do_not():
    asked = {"origin": "http://localhost", "access-control-request-method": "POST"}
    assert ask("OPTIONS", **asked).status == 200
    assert ask("OPTIONS").status == 401


def test_further_paths_may_stay_open():
    guard = Guard(Inner(), protected(), open_paths=["/about"])
    assert ask("GET", guard=guard, path="/about").status == 200
    assert ask("GET", guard=guard, path="/about/me").status == 401


def test_lifespan_passes():
    async def scenario():
        inner = Inner()
        await protected().guard(inner)({"type": "lifespan"}, None, None)
        assert inner.seen == [{"type": "lifespan"}]

    asyncio.run(scenario())


# -- refusing


@pytest.mark.requirement(
    "auth.server.401-when-required",
    "auth.challenge.www-authenticate",
    "auth.tokens.validated-first",
)
@cases("method", ["POST", "GET", "DELETE", "PUT", "HEAD"])
@cases("path", ["/mcp", "/sse", "/messages", "/", "/anything"])
def test_without_a_token_nothing_passes(method, path):
    inner = Inner()
    answer = ask(method, inner=inner, path=path)
    assert answer.status == 401
    assert inner.seen == []
    said = answer.headers["www-authenticate"]
    assert said == f'Bearer resource_metadata="https://desk.example{METADATA}/mcp"'
    assert answer.json["error"] == "unauthorized"


@pytest.mark.requirement("auth.token.invalid-401", "auth.status-codes")
@pytest.mark.parametrize("value", ["Bearer bad", "Bearer Good", "Bearer " + "a" * 20_000])
def test_a_bad_token_is_401_and_not_repeated_in_the_answer(value):
    answer = ask(authorization=value)
    assert answer.status == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert answer.headers["cache-control"] == "no-store"
    assert value.split()[1].encode() not in answer.body


@pytest.mark.requirement("auth.status-codes")
@cases(
    ("headers", "query"),
    [
        ({"authorization": "Bearer a b"}, b""),
        ({"authorization": "Bearer"}, b""),
        ({"authorization": "Bearer good"}, b"access_token=good"),
        ({}, b"access_token=good"),
    ],
    ids=["two words", "no token", "also in the query", "only in the query"],
)
def test_malformed_authorization_is_400(headers, query):
    answer = ask(scope={"query_string": query}, **headers)
    assert (answer.status, answer.json["error"]) == (400, "invalid_request")
    assert "www-authenticate" not in answer.headers


@pytest.mark.requirement("auth.status-codes")
def test_a_token_without_the_scopes_that_all_need_is_403_and_all_are_named():
    guard = protected(scopes=["read", "use"]).guard(Inner())
    answer = ask(guard=guard, authorization="Bearer good")
    assert answer.status == 403
    said = answer.headers["www-authenticate"]
    assert 'error="insufficient_scope", scope="read use"' in said
    # A client that needs another token has to know what it must allow.
    assert 'scope="read use"' in ask(guard=guard).headers["www-authenticate"]
    bad = ask(guard=guard, authorization="Bearer bad")
    assert 'error="invalid_token", scope="read use"' in bad.headers["www-authenticate"]


def test_an_app_may_find_out_later_that_more_is_needed():
    inner = Inner()
    inner.needs = ("write",)
    verifier = JwtVerifier(ISSUER, keys=jwks("first"))
    guard = protected(verifier, scopes=["read"]).guard(inner)
    given = f"Bearer {token()}"
    for _ in range(2):  # the second time the token is known
        answer = ask(guard=guard, authorization=given)
        assert (answer.status, answer.body) == (403, b"inside")
        assert 'scope="read write"' in answer.headers["www-authenticate"]


def test_a_recently_verified_token_is_checked_again_when_needed():
    verifier = JwtVerifier(ISSUER, keys=jwks("first"))
    given = f"Bearer {token()}"
    lax, strict = (protected(verifier, scopes=each).guard(Inner()) for each in ("read", "read use"))
    bound = verifier.for_audience(RESOURCE)
    assert asyncio.run(bound.verify(given.split()[1])) is not None
    for guard, status in ((lax, 200), (lax, 200), (strict, 403), (strict, 403)):
        assert ask(guard=guard, authorization=given).status == status
    query = {"query_string": b"access_token=x"}
    assert ask(guard=lax, scope=query, authorization=given).status == 400
    assert ask(guard=lax, authorization=given.replace("Bearer", "Digest")).status == 401
    for first in (given.encode(), b"", b"Basic YTpi"):
        twice = [(b"authorization", first), (b"authorization", given.encode())]
        assert ask(guard=lax, scope={"headers": twice}).status == 400


def test_known_headers_are_forgotten_together_and_soon():
    memory = TokenMemory()
    for number in range(7):
        memory.keep(token_digest(f"t{number}"), ANN, 60.0)

    def heads(*numbers):
        return [TokenHead(None, (b"Bearer t%d" % number,)) for number in numbers]

    def admit(head, verified):
        return Admission(verified, None, None)

    async def scenario():
        known = KnownHeaders(memory, most=3, seconds=0.01)
        for head in heads(*range(5)):
            assert known.learn(head, admit).principal is ANN
            assert len(known) <= 3
        await until(lambda: len(known) == 0)
        known.learn(heads(5)[0], admit)
        return known

    async def on_another_loop(known):
        # The loop that would have forgotten it is gone.
        known.learn(heads(6)[0], admit)
        assert len(known) == 1
        await until(lambda: len(known) == 0)

    asyncio.run(on_another_loop(asyncio.run(scenario())))


def test_a_known_header_is_decided_anew_once_the_verifier_has_forgotten_its_token():
    now, decided = [1_000.0], []
    memory = TokenMemory(clock=lambda: now[0])
    bob = Principal("bob")

    def admit(head, verified):
        decided.append(verified)
        return Admission(verified, None, None)

    async def scenario():
        known, head = KnownHeaders(memory), TokenHead(None, (b"Bearer t",))
        assert known.learn(head, admit) is None
        memory.keep(token_digest("t"), ANN, 60.0)
        first = known.learn(head, admit)
        assert known.find(b"Bearer t") is first
        memory.known.clear()
        assert known.find(b"Bearer t") is known.learn(head, admit) is None
        memory.keep(token_digest("t"), bob, 60.0)
        assert known.find(b"Bearer t") is None
        assert known.learn(head, admit).principal is bob
        memory.keep(token_digest("t"), None, 60.0)
        assert known.find(b"Bearer t") is known.learn(head, admit) is None
        memory.keep(token_digest("t"), ANN, 60.0)
        assert known.learn(head, admit).principal is ANN
        now[0] += 60.0
        assert known.find(b"Bearer t") is known.learn(head, admit) is None

    asyncio.run(scenario())
    assert decided == [ANN, bob, ANN]


def test_a_token_that_was_just_good_is_refused_from_the_moment_it_expires():
    async def scenario():
        now = [time.time()]
        verifier = JwtVerifier(ISSUER, keys=jwks("first"), leeway=0, clock=lambda: now[0])
        client = Asgi(protected(verifier).guard(Inner()))
        soon, seen = 0.0, []
        while time.time() >= soon:  # so slow that it was over before
            soon = time.time() + 1.0
            given = {"authorization": f"Bearer {token(exp=soon)}"}
            seen = [(await client.post(b"{}", **given)).status for _ in range(3)]
        assert seen == [200] * 3
        now[0] = soon + 1
        while time.time() < soon:
            await asyncio.sleep(0.02)
        assert (await client.post(b"{}", **given)).status == 401

    asyncio.run(scenario())


def test_a_token_that_cannot_be_verified_now_is_503_and_not_401():
    class Unreachable:
        async def verify(self, token):
            raise AuthError("the issuer at 10.0.0.1 is down")

    answer = ask(guard=protected(Unreachable()).guard(Inner()), authorization="Bearer good")
    assert answer.status == 503
    assert answer.headers["retry-after"] == "5"
    assert b"10.0.0.1" not in answer.body


def test_web_sockets_need_a_token_too():
    async def scenario(**headers):
        inner, sent = Inner(), []
        scope = {**Asgi(None).scope("GET", **headers), "type": "websocket", "scheme": "ws"}

        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            sent.append(message)

        await protected().guard(inner)(scope, receive, send)
        return len(inner.seen), [each["type"] for each in sent]

    assert asyncio.run(scenario()) == (0, ["websocket.close"])
    assert asyncio.run(scenario(authorization="Bearer good")) == (1, [])


# -- metadata


@pytest.mark.requirement("auth.prm.server", "auth.prm.lists-as")
@cases("path", [METADATA, f"{METADATA}/", f"{METADATA}/mcp", f"{METADATA}/mcp/"])
def test_metadata_is_at_the_root_and_below_the_path(path):
    guard = protected(scopes=["read"], resource_name="Desk").guard(Inner())
    answer = ask("GET", guard=guard, path=path)
    assert answer.status == 200
    assert answer.json == {
        "resource": RESOURCE,
        "authorization_servers": [ISSUER],
        "bearer_methods_supported": ["header"],
        "scopes_supported": ["read"],
        "resource_name": "Desk",
    }
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["access-control-allow-origin"] == "*"


def test_other_metadata_is_not_ours():
    assert ask("GET", path=f"{METADATA}/other").status == 401
    assert ask("GET", path=f"/x{METADATA}/mcp").status == 401


def test_metadata_is_read_only_and_open_to_browsers():
    assert ask("POST", path=METADATA).status == 405
    head = ask("HEAD", path=METADATA)
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 50
    asked = {"origin": "https://a.example", "access-control-request-method": "GET"}
    preflight = ask("OPTIONS", path=METADATA, **asked)
    assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (204, "*")


@cases(
    ("public_url", "scope"),
    [
        ("https://desk.example/tools", {}),
        ("https://desk.example/tools/", {"root_path": "/tools"}),
        ("https://desk.example/tools/mcp", {"root_path": "/tools", "path": "/tools/mcp"}),
        ("HTTPS://desk.example:443/tools/mcp/", {"root_path": "/elsewhere"}),
    ],
    ids=["prefix that a proxy strips", "root path", "mount", "another spelling"],
)
def test_one_public_url_is_right_behind_prefixes_mounts_and_proxies(public_url, scope):
    guard = protected(public_url=public_url).guard(Inner())
    answer = ask(guard=guard, scope=scope)
    url = f"https://desk.example/tools{METADATA}/mcp"
    assert f'resource_metadata="{url}"' in answer.headers["www-authenticate"]
    root = scope.get("root_path", "") if "path" in scope else ""
    for path in (f"/tools{METADATA}/mcp", f"{METADATA}/tools/mcp", f"{METADATA}/mcp", METADATA):
        found = ask("GET", guard=guard, path=path, scope={"root_path": root})
        assert found.json["resource"] == "https://desk.example/tools/mcp"


def test_the_url_may_be_given_where_the_app_is_made():
    guard = protected(public_url=None).guard(Inner(), path="/", public_url="https://a.example/x")
    assert ask("GET", guard=guard, path=METADATA).json["resource"] == "https://a.example/x"


# -- without a public URL


def local(scope=None, verifier=TOKENS, **headers):
    guard = protected(verifier, public_url=None).guard(Inner())
    usual = {"server": ("127.0.0.1", 8000), "scheme": "http"}
    return ask(guard=guard, scope={**usual, **(scope or {})}, **headers)


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_on_loopback_the_url_is_the_one_that_the_client_uses(host):
    answer = local(host=host)
    assert f'resource_metadata="http://{host}{METADATA}/mcp"' in answer.headers["www-authenticate"]
    mounted = local({"root_path": "/tools"}, host=host)
    url = f"http://{host}/tools{METADATA}/mcp"
    assert url in mounted.headers["www-authenticate"]
    on_a_path = local({"server": None}, host=host)  # a socket in the file system
    assert on_a_path.headers == answer.headers


@cases("port", ["8000", None, "", "0"], ids=["text", "none", "empty", "0"])
def test_servers_tell_in_several_ways_where_they_listen(port):
    assert local({"server": ("127.0.0.1", port)}, host="localhost:8000").status == 401


@cases(
    "host", ["evil.example", "evil.example:8000", "localhost:9999", "localhost", "x@localhost:8000"]
)
def test_a_host_that_is_not_ours_makes_no_url_of_ours(host):
    answer = local(host=host, authorization="Bearer good")
    assert answer.status == 403
    assert "public_url" in answer.json["error_description"]
    assert host.encode() not in answer.body or host == "localhost"


@pytest.mark.requirement("auth.token.audience-validated", "auth.token.foreign-rejected")
def test_the_audience_on_loopback_is_the_port_we_listen_on():
    verifier = JwtVerifier(ISSUER, keys=jwks("first"))
    ours = f"Bearer {token(aud='http://localhost:8000/mcp')}"
    theirs = f"Bearer {token(aud='http://localhost:9999/mcp')}"
    assert local(verifier=verifier, host="localhost:8000", authorization=ours).status == 200
    assert local(verifier=verifier, host="localhost:8000", authorization=theirs).status == 401
    # A client that got a token for itself cannot use it here under its own name.
    assert local(verifier=verifier, host="localhost:9999", authorization=theirs).status == 403


# -- more than one endpoint


def of_two_forms(**settings):
    verifier = JwtVerifier(ISSUER, keys=jwks("first"))
    inner = Inner()
    inner.resource_paths = {"/sse": "/sse", "/messages": "/sse"}
    return protected(verifier, **settings).guard(inner)


@pytest.mark.parametrize("path", ["/sse", "/sse/", "/messages"])
def test_a_further_endpoint_has_metadata_of_its_own(path):
    guard = of_two_forms(public_url="https://desk.example/tools/mcp")
    answer = ask("GET", guard=guard, path=path)
    url = f"https://desk.example/tools{METADATA}/sse"
    assert f'resource_metadata="{url}"' in answer.headers["www-authenticate"]
    for place in (f"/tools{METADATA}/sse", f"{METADATA}/tools/sse", f"{METADATA}/sse"):
        found = ask("GET", guard=guard, path=place)
        assert found.json["resource"] == "https://desk.example/tools/sse"
    usual = ask("GET", guard=guard, path=f"{METADATA}/mcp")
    assert usual.json["resource"] == "https://desk.example/tools/mcp"
    assert ask("GET", guard=guard, path=f"{METADATA}/messages").status == 401


def test_a_further_endpoint_on_loopback_has_its_own_url():
    here = {"server": ("127.0.0.1", 8000), "scheme": "http", "root_path": "/x"}
    guard = of_two_forms(public_url=None)
    answer = ask("GET", guard=guard, scope=here, path="/x/sse", host="localhost:8000")
    url = f"http://localhost:8000/x{METADATA}/sse"
    assert f'resource_metadata="{url}"' in answer.headers["www-authenticate"]


@pytest.mark.requirement("auth.token.audience-validated")
def test_a_further_endpoint_takes_tokens_for_itself_and_for_the_usual_one():
    guard = of_two_forms()
    older = RESOURCE.replace("/mcp", "/sse")
    for aud, path, status in [
        (older, "/sse", 200),
        (older, "/messages", 200),
        (RESOURCE, "/sse", 200),
        (RESOURCE, "/mcp", 200),
        (older, "/mcp", 401),
        (f"{RESOURCE}/other", "/sse", 401),
    ]:
        answer = ask(guard=guard, path=path, authorization=f"Bearer {token(aud=aud)}")
        assert (aud, path, answer.status) == (aud, path, status)


# -- settings


class Keys:
    """A custom verifier."""

    async def verify(self, token):
        return ANN if token == "good" else None


def test_the_issuer_of_tokens_is_required():
    introspecting = IntrospectionVerifier("https://i.example/introspect", "desk", "secret")
    for unsaid in (Keys(), introspecting, FirstOf(TOKENS, Keys())):
        with pytest.raises(ValueError, match=r"issuer is missing: .* or issuer=\[\] if clients"):
            Protected(unsaid)
    jwts = JwtVerifier(ISSUER, keys=[])
    assert Protected(jwts).issuers == (ISSUER,)
    assert Protected(FirstOf(TOKENS, jwts, Keys(), jwts)).issuers == (ISSUER,)
    for without in (
        Protected(TOKENS),
        Protected(FirstOf(TOKENS, TOKENS)),
        Protected(Keys(), issuer=[]),
    ):
        assert without.issuers == ()
    assert Protected(TOKENS, issuer=["a", "b"]).issuers == ("a", "b")


@cases("public_url", [RESOURCE, None])
@cases("scopes", [(), ("write",)])
def test_without_an_authorization_server_no_metadata_is_named_or_published(public_url, scopes):
    guard = Protected(TOKENS, public_url=public_url, scopes=scopes).guard(Inner())
    challenge = ask(guard=guard).headers["www-authenticate"]
    assert challenge == ('Bearer realm="mcp", scope="write"' if scopes else 'Bearer realm="mcp"')
    wrong = ask(guard=guard, authorization="Bearer wrong").headers["www-authenticate"]
    assert wrong.startswith('Bearer realm="mcp", error="invalid_token"')
    assert "resource_metadata" not in wrong
    for method in ("GET", "HEAD", "OPTIONS"):
        for path in (METADATA, f"{METADATA}/mcp"):
            assert ask(method, guard=guard, path=path).status == 404
    good = ask(guard=guard, authorization="Bearer good")
    assert good.status == (403 if scopes else 200)


def test_a_public_url_must_be_one():
    with pytest.raises(ValueError, match="invalid resource"):
        Protected(TOKENS, issuer=ISSUER, public_url="desk.example")


def test_scopes_may_be_one_text_and_what_is_required_is_supported():
    found = Protected(TOKENS, issuer=ISSUER, scopes="a b", scopes_supported=["c"])
    assert (found.scopes, found.scopes_supported) == ({"a", "b"}, ("a", "b", "c"))


def test_a_guard_has_what_its_app_has():
    app = Server("desk").asgi(path="/x")
    guard = protected().guard(app, path="/x")
    assert guard.options is app.options
    with pytest.raises(AttributeError):
        _ = guard.nothing


@pytest.mark.parametrize(
    ("origin", "readable"), [("http://localhost:3000", True), ("https://evil.example", False)]
)
def test_pages_that_may_read_answers_may_read_refusals(origin, readable):
    server = Server("desk", auth=protected())
    for cors in (True, False):
        answer = ask(guard=server.asgi(cors=cors), origin=origin)
        assert answer.status == 401
        allowed = answer.headers.get("access-control-allow-origin")
        assert allowed == (origin if readable and cors else None)
        if allowed:
            assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]


def test_bodies_are_json_that_people_can_read():
    said = json.loads(ask().body)
    assert said["error_description"].startswith("a token is required")


# -- scopes of parts, and scopes that include others


class Scoped(Inner):
    """An app whose parts need scopes."""

    entry_scopes = frozenset({"write", "read", "offline_access"})


def challenge_of(response):
    return response.headers["www-authenticate"]


@pytest.mark.requirement("auth.scope.challenge-has-scope", "auth.refresh.server-no-offline-access")
@pytest.mark.parametrize("authorization", [None, "Bearer wrong"])
def test_a_challenge_names_the_scopes_of_the_entries_if_none_is_required(authorization):
    headers = {} if authorization is None else {"authorization": authorization}
    said = ask(guard=protected().guard(Scoped()), **headers)
    assert said.status == 401
    assert 'scope="read write"' in challenge_of(said)


def test_a_challenge_names_the_required_scopes_alone():
    said = ask(guard=protected(scopes=["use"]).guard(Scoped()))
    assert 'scope="use"' in challenge_of(said)


@pytest.mark.requirement("auth.refresh.server-no-offline-access")
@pytest.mark.parametrize(
    ("settings", "supported"),
    [
        ({}, ["read", "write"]),
        ({"scopes": ["use"]}, ["read", "use", "write"]),
        ({"scopes_supported": ["other", "offline_access"]}, ["other"]),
    ],
    ids=str,
)
def test_the_metadata_lists_the_scopes_of_the_entries_unless_others_are_named(settings, supported):
    said = ask("GET", guard=protected(**settings).guard(Scoped()), path=METADATA)
    assert json.loads(said.body)["scopes_supported"] == supported


@pytest.mark.requirement("auth.scope.hierarchy")
def test_a_broader_scope_satisfies_the_need_of_a_narrower_one():
    implied = {"admin": ["write"], "write": "read list", "list": ["write"]}
    tokens = StaticTokens({"root": ["admin"], "ann": ["read"], "bob": ["other"]})
    inner = Inner()
    guard = protected(tokens, scopes=["read"], implied_scopes=implied).guard(inner)
    found = [ask(guard=guard, authorization=f"Bearer {each}") for each in ("root", "ann", "bob")]
    assert [each.status for each in found] == [200, 200, 403]
    assert [scope["accord.principal"].scopes for scope in inner.seen] == [
        {"admin", "write", "read", "list"},
        {"read"},
    ]


@pytest.mark.requirement("auth.scope.hierarchy")
def test_a_token_that_was_verified_a_moment_ago_has_its_implied_scopes_too():
    inner = Inner()
    verifier = JwtVerifier(ISSUER, keys=jwks("first"))
    guard = protected(verifier, scopes=["read"], implied_scopes={"admin": ["read"]}).guard(inner)

    async def scenario():
        client, bearer = Asgi(guard), f"Bearer {token(scope='admin')}"
        for _ in range(3):
            given = client.scope("POST", "/mcp", authorization=bearer)
            client.scope = lambda *_, given=given, **__: given
            assert (await client.start("POST", b"{}").done()).status == 200
            del client.scope

    asyncio.run(scenario())
    assert [scope["accord.principal"].scopes for scope in inner.seen] == [{"admin", "read"}] * 3


@pytest.mark.requirement("auth.stateless.each-request-authorized")
@pytest.mark.parametrize("method", ["server/discover", "tools/call", "subscriptions/listen"])
def test_a_request_without_a_handshake_needs_a_token_of_its_own(method):
    inner = Inner()
    guard = protected().guard(inner)
    headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": method}
    statuses = [
        ask(guard=guard, **headers, **token_header).status
        for token_header in ({}, {"authorization": "Bearer good"}, {"authorization": "Bearer no"})
    ]
    assert statuses == [401, 200, 401]
    assert len(inner.seen) == 1
