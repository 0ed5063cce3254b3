"""The authorization server on real sockets, beside a protected server and alone."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from urllib.parse import urlencode, urlsplit

import msgspec
import pytest

from accord import Context, Server
from accord.auth import AuthorizationServer, JwtVerifier, KnownClient
from accord.auth.authorization_server import Request
from accord.errors import AuthError, StoreUnavailable
from support.http_server import bounded, serving
from support.oauth import ADA, VERIFIER, Answer, Desk, challenge_of, claims_of, request_query
from support.tables import cases

PRM = "/.well-known/oauth-protected-resource"
ASM = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
RETURN = "http://127.0.0.1:3000/callback"


class Reply:
    """What came over the wire."""

    def __init__(self, response) -> None:
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    json = Answer.json
    error = Answer.error
    location = Answer.location
    returned = Answer.returned
    hidden = Answer.hidden
    action = Answer.action


class Wire:
    """A client of OAuth and a browser, over a socket."""

    def __init__(self, port: int, prefix: str = "") -> None:
        self.port = port
        self.prefix = prefix
        self.cookies: dict[str, str] = {}
        self.base = f"http://127.0.0.1:{port}{prefix}"

    def send(self, method, path, body=None, **headers):
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookies:
            named["cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        connection.request(method, path, body, named)
        response = connection.getresponse()
        reply = Reply(response)
        for cookie in response.headers.get_all("set-cookie", []):
            key, _, value = cookie.split(";")[0].partition("=")
            self.cookies[key] = value
        connection.close()
        return reply

    def get(self, path, **headers):
        return self.send("GET", path, **headers)

    def post(self, path, **form):
        kind = "application/x-www-form-urlencoded"
        return self.send("POST", self.prefix + path, urlencode(form), content_type=kind)

    def client(self) -> str:
        body = json.dumps({"redirect_uris": [RETURN], "token_endpoint_auth_method": "none"})
        reply = self.send("POST", f"{self.prefix}/register", body, content_type="application/json")
        assert reply.status == 201, reply.text
        found: str = reply.json["client_id"]
        return found

    def authorize(self, client, **changed):
        given = {"resource": f"{self.base}/mcp", "scope": None} | changed
        return self.get(f"{self.prefix}/authorize?{request_query(client, **given)}")

    def submit(self, page, **fields):
        parts = urlsplit(page.action)
        kind = "application/x-www-form-urlencoded"
        body = urlencode(page.hidden | fields)
        return self.send("POST", f"{parts.path}?{parts.query}", body, content_type=kind)

    def redeem(self, client, code):
        return self.post(
            "/token",
            grant_type="authorization_code",
            client_id=client,
            code=code,
            code_verifier=VERIFIER,
        )

    def call(self, token=None, name="whoami", path=None):
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": name, "arguments": {}},
        }
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return self.send(
            "POST",
            path or f"{self.prefix}/mcp",
            json.dumps(message),
            content_type="application/json",
            accept="application/json, text/event-stream",
            mcp_protocol_version="2025-06-18",
            **headers,
        )


def protected(auth, **options):
    server = Server("desk", auth=auth)

    @server.tool
    def whoami(ctx: Context) -> str:
        """Say who asks."""
        return ctx.principal.subject

    return server.asgi(sessions=False, **options)


@contextmanager
def online(auth, **options):
    with bounded(protected(auth, **options)) as port:
        yield Wire(port)


def test_a_server_with_an_authorization_server_is_all_it_takes():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        refused = wire.call()
        assert refused.status == 401
        assert f'resource_metadata="{wire.base}{PRM}/mcp"' in refused.headers["www-authenticate"]
        metadata = wire.get(f"{PRM}/mcp").json
        assert metadata["resource"] == f"{wire.base}/mcp"
        assert metadata["authorization_servers"] == [wire.base]
        assert wire.get(ASM).json["issuer"] == wire.base
        client = wire.client()
        code = wire.authorize(client).returned["code"]
        token = wire.redeem(client, code).json["access_token"]
        answer = wire.call(token)
        assert answer.status == 200
        assert answer.json["result"]["content"][0]["text"] == "ada"


@pytest.mark.requirement("auth.as.rfc8414-required")
def test_metadata_is_found_where_clients_look():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        for path in (ASM, f"{ASM}/", f"{ASM}/mcp", OPENID, f"{OPENID}/mcp"):
            reply = wire.get(path)
            assert reply.json["issuer"] == wire.base
            assert reply.headers["access-control-allow-origin"] == "*"
        assert wire.get(f"{ASM}/other").status == 401


def test_a_person_logs_in_and_allows_over_http():
    auth = AuthorizationServer({"ada": "lovelace"}, store=None, scopes={"read": "Read it"})
    with online(auth) as wire:
        client = wire.client()
        page = wire.authorize(client)
        back = wire.submit(page, name="ada", password="lovelace")
        page = wire.get(back.location.removeprefix(wire.base))
        assert "Read it" in page.text
        code = wire.submit(page, decision="allow").returned["code"]
        tokens = wire.redeem(client, code).json
        assert tokens["scope"] == "read"
        assert wire.call(tokens["access_token"]).status == 200


def test_a_revoked_token_is_refused_at_once():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        client = wire.client()
        tokens = wire.redeem(client, wire.authorize(client).returned["code"]).json
        assert wire.call(tokens["access_token"]).status == 200
        assert wire.post("/revoke", client_id=client, token=tokens["refresh_token"]).status == 200
        assert wire.call(tokens["access_token"]).status == 401


def test_a_replayed_code_ends_the_tokens_that_came_from_it():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        client = wire.client()
        code = wire.authorize(client).returned["code"]
        token = wire.redeem(client, code).json["access_token"]
        assert wire.call(token).status == 200
        assert wire.redeem(client, code).error == "invalid_grant"
        assert wire.call(token).status == 401


def test_tokens_survive_a_change_of_keys():
    auth = AuthorizationServer(auto_approve="ada")
    with online(auth) as wire:
        client = wire.client()
        old = wire.redeem(client, wire.authorize(client).returned["code"]).json
        auth.rotate_keys()
        new = wire.redeem(client, wire.authorize(client).returned["code"]).json
        assert len(wire.get("/jwks").json["keys"]) == 2
        assert wire.call(old["access_token"]).status == 200
        assert wire.call(new["access_token"]).status == 200


def test_a_token_of_another_server_is_refused():
    one, two = AuthorizationServer(auto_approve="ada"), AuthorizationServer(auto_approve="ada")
    with online(one) as here, online(two) as there:
        client = here.client()
        token = here.redeem(client, here.authorize(client).returned["code"]).json["access_token"]
        assert here.call(token).status == 200
        assert there.call(token).status == 401


def test_a_token_for_another_resource_of_the_same_store_is_refused(tmp_path):
    store = tmp_path / "auth.db"
    one = AuthorizationServer(auto_approve="ada", store=store)
    two = AuthorizationServer(auto_approve="ada", store=store)
    with online(one) as here, online(two) as there:
        client = here.client()
        token = here.redeem(client, here.authorize(client).returned["code"]).json["access_token"]
        assert here.call(token).status == 200
        assert there.call(token).status == 401
        asked = there.authorize(client, resource=f"{here.base}/mcp")
        assert asked.returned["error"] == "invalid_target"


def test_another_process_sees_a_revocation_soon(tmp_path):
    store = tmp_path / "auth.db"
    one = AuthorizationServer(auto_approve="ada", store=store)
    two = AuthorizationServer(auto_approve="ada", store=store)
    desk = Desk(store=one.endpoints.store, users={}, single_user="ada", auto_approve=True)
    client = desk.client()
    code = desk.authorize(client).returned["code"]
    issued = desk.redeem(client, code).json
    grant = claims_of(issued["access_token"])["grant"]

    async def seen() -> bool:
        for _ in range(200):
            if await two._revoked.has(grant):
                return True
            await asyncio.sleep(0.02)
        return False

    async def main() -> None:
        assert not await two._revoked.has(grant)
        desk.redeem(client, code)
        assert await seen()

    asyncio.run(main())


def test_required_scopes_are_demanded_and_named():
    auth = AuthorizationServer(
        auto_approve="ada", scopes={"read": "", "write": ""}, required_scopes=["write"]
    )
    with online(auth) as wire:
        assert 'scope="write"' in wire.call().headers["www-authenticate"]
        metadata = wire.get(PRM).json
        assert metadata["scopes_supported"] == ["read", "write"]
        client = wire.client()
        code = wire.authorize(client, scope="read").returned["code"]
        token = wire.redeem(client, code).json["access_token"]
        assert wire.call(token).status == 403


# -- places


def test_a_public_url_with_a_prefix_is_in_every_url():
    auth = AuthorizationServer({"ada": ADA}, store=None)
    public = "https://tools.example/desk"
    with online(auth, public_url=public) as wire:
        for path in (ASM, f"{ASM}/desk", f"/desk{OPENID}", OPENID, f"/desk{ASM}"):
            document = wire.get(path, host="tools.example").json
            assert document["issuer"] == public
            assert document["token_endpoint"] == f"{public}/token"
        metadata = wire.get(f"{PRM}/desk/mcp", host="tools.example").json
        assert metadata["resource"] == f"{public}/mcp"
        assert metadata["authorization_servers"] == [public]
        for path in ("/jwks", "/desk/jwks"):
            assert wire.get(path, host="tools.example").status == 200
        challenge = wire.call().headers["www-authenticate"]
        assert "https://tools.example/" in challenge


def test_an_issuer_alone_says_where_the_server_is():
    auth = AuthorizationServer({"ada": ADA}, store=None, issuer="https://tools.example")
    with online(auth) as wire:
        metadata = wire.get(PRM, host="tools.example").json
        assert metadata["resource"] == "https://tools.example/mcp"
        assert metadata["authorization_servers"] == ["https://tools.example"]


def test_a_mounted_server_knows_where_it_is():
    app = protected(AuthorizationServer(auto_approve="ada"))

    async def mounted(scope, receive, send):
        await app({**scope, "root_path": "/desk"}, receive, send)

    with serving(mounted, lifespan="off") as port:
        wire = Wire(port, "/desk")
        assert wire.get(f"/desk{ASM}").json["issuer"] == wire.base
        client = wire.client()
        code = wire.authorize(client).returned["code"]
        token = wire.redeem(client, code).json["access_token"]
        assert wire.call(token).status == 200


@pytest.mark.requirement("auth.https.endpoints")
def test_anything_but_https_is_refused_outside_of_loopback():
    users = {"ada": ADA}
    with pytest.raises(ValueError, match="expected https"):
        AuthorizationServer(users, issuer="http://tools.example")
    auth = AuthorizationServer(users, store=None)
    with pytest.raises(ValueError, match="expected https"):
        protected(auth, public_url="http://tools.example")
    with online(auth, public_url="https://tools.example") as wire:
        reply = wire.get(ASM, host="tools.example", x_forwarded_proto="http")
        assert reply.status == 403
        reply = wire.get(ASM, host="tools.example", x_forwarded_proto="https")
        assert reply.status == 200


def test_without_a_public_url_only_loopback_is_served():
    with online(AuthorizationServer({"ada": ADA}, store=None)) as wire:
        for path in (ASM, "/jwks", "/authorize", PRM):
            assert wire.get(path, host="tools.example").status == 403
            assert wire.get(path, host="127.0.0.1.evil.example").status == 403
        assert wire.get(ASM, host=f"localhost:{wire.port}/evil").status in (400, 403)
        local = f"http://localhost:{wire.port}"
        assert wire.get(ASM, host=f"localhost:{wire.port}").json["issuer"] == local


@pytest.mark.parametrize("who", [{}, {"users": "ada"}, {"auto_approve": "ada"}], ids=str)
def test_people_without_passwords_are_served_on_loopback_alone(who):
    auth = AuthorizationServer(store=None, **who)
    with pytest.raises(ValueError, match="not on loopback"):
        protected(auth, public_url="https://tools.example")
    with pytest.raises(ValueError, match="not on loopback"):
        AuthorizationServer(issuer="https://tools.example", store=None, **who)
    with online(auth) as wire:
        assert wire.get("/jwks").status == 200
        assert wire.get("/jwks", forwarded="for=192.0.2.1").status == 403
        assert wire.get("/jwks", x_forwarded_for="192.0.2.1").status == 403


def test_a_body_that_is_too_long_is_not_read_to_its_end():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        reply = wire.send("POST", "/register", b"x" * 100_000, content_type="application/json")
        assert reply.status == 413
        reply = wire.send("POST", "/token", b"x" * 100_000)
        assert reply.status == 413


# -- logins of others


@pytest.mark.parametrize("is_async", [False, True])
def test_a_developers_own_login_names_the_user(is_async):
    seen = []

    def by_header(request: Request) -> str | None:
        seen.append(request.path)
        return request.headers.get("x-user")

    async def by_header_later(request: Request) -> str | None:
        await asyncio.sleep(0)
        return by_header(request)

    auth = AuthorizationServer(authenticate=by_header_later if is_async else by_header, store=None)
    with online(auth) as wire:
        client = wire.client()
        query = request_query(client, resource=None, scope=None)
        assert wire.get(f"/authorize?{query}").status == 401
        page = wire.get(f"/authorize?{query}", x_user="grace")
        assert "<strong>grace</strong>" in page.text
        parts = urlsplit(page.action)
        reply = wire.send(
            "POST",
            f"{parts.path}?{parts.query}",
            urlencode(page.hidden | {"decision": "allow"}),
            content_type="application/x-www-form-urlencoded",
            x_user="grace",
        )
        token = wire.redeem(client, reply.returned["code"]).json["access_token"]
        assert claims_of(token)["sub"] == "grace"
        assert set(seen) == {"/authorize"}


def test_passwords_may_be_given_as_hashes_and_are_never_shown():
    auth = AuthorizationServer({"ada": ADA, "eve": "apple"}, store=None)
    assert "apple" not in repr(auth.settings)
    with online(auth) as wire:
        page = wire.authorize(wire.client())
        assert wire.submit(page, name="ada", password="lovelace").status == 303


class HeldUsers(dict):
    """Users that are found only when the test says so: their passwords are being checked."""

    def __init__(self, users):
        super().__init__(users)
        self.looked_up = []
        self.go = threading.Event()

    def get(self, name, default=None):
        self.looked_up.append(name)
        assert self.go.wait(300)
        return super().get(name, default)


def test_logins_that_wait_delay_no_call_and_only_some_of_them_wait():
    auth = AuthorizationServer({"ada": ADA}, store=None)
    users = HeldUsers(auth.settings.users)
    users.go.set()
    msgspec.structs.force_setattr(auth.settings, "users", users)
    with online(auth) as wire, ThreadPoolExecutor(11) as browsers:
        client = wire.client()
        page = wire.authorize(client)
        assert wire.submit(page, name="ada", password="lovelace").status == 303
        code = wire.submit(wire.authorize(client), decision="allow").returned["code"]
        token = wire.redeem(client, code).json["access_token"]
        other = Wire(wire.port)
        page = other.authorize(client)
        users.go.clear()
        logins = [
            browsers.submit(other.submit, page, name=f"user {number}", password="x")
            for number in range(11)
        ]
        try:
            # Two are checked and eight wait; the server has never seen the token.
            done, _ = futures.wait(logins, 15, futures.FIRST_COMPLETED)
            (refused,) = (each.result() for each in done)
            answer = wire.call(token)
        finally:
            users.go.set()
        assert (refused.status, refused.headers["retry-after"]) == (503, "5")
        assert "Too many people log in" in refused.text
        assert answer.json["result"]["content"][0]["text"] == "ada"
        assert sorted(each.result().status for each in logins) == [401] * 10 + [503]


# -- alone


def test_it_stands_alone_for_resources_elsewhere():
    machine = KnownClient(client_id="m", secret="s")
    auth = AuthorizationServer(
        {"ada": ADA},
        store=None,
        clients=[machine],
        resources=["https://one.example/mcp", "https://two.example/mcp"],
    )
    with serving(auth, lifespan="on") as port:
        wire = Wire(port)
        assert wire.get("/nothing").status == 404
        assert wire.get(ASM).json["issuer"] == wire.base
        form = {"grant_type": "client_credentials", "client_id": "m", "client_secret": "s"}
        assert wire.post("/token", **form).error == "invalid_target"
        reply = wire.post("/token", resource="https://two.example/mcp", **form)
        token = reply.json["access_token"]
        assert claims_of(token)["aud"] == "https://two.example/mcp"
        principal = asyncio.run(auth.verifier.verify(token))
        assert principal is not None
        assert principal.subject == "m"
        other = auth.verifier.for_audience("https://one.example/mcp")
        assert asyncio.run(other.verify(token)) is None


def test_another_server_verifies_tokens_with_the_published_keys():
    auth = AuthorizationServer(
        {"ada": ADA},
        store=None,
        clients=[KnownClient(client_id="m", secret="s")],
        resources=["http://127.0.0.1/elsewhere"],
    )
    with serving(auth) as port:
        wire = Wire(port)
        form = {"grant_type": "client_credentials", "client_id": "m", "client_secret": "s"}
        token = wire.post("/token", **form).json["access_token"]
        verifier = JwtVerifier(
            issuer=wire.base,
            audience="http://127.0.0.1/elsewhere",
            jwks_url=f"{wire.base}/jwks",
            algorithms=["ES256"],
        )
        principal = asyncio.run(verifier.verify(token))
        assert principal is not None
        assert (principal.subject, principal.client_id) == ("m", "m")


def test_closing_begins_anew(tmp_path):
    auth = AuthorizationServer(auto_approve="ada", store=tmp_path / "auth.db")
    auth.close()
    before = auth.endpoints
    auth.close()
    assert auth.endpoints is not before
    auth.close()


def test_a_failure_is_logged_and_answered_without_its_reason(caplog):
    def fail(request: Request) -> str:
        raise RuntimeError("the word is sesame")

    with online(AuthorizationServer(authenticate=fail, store=None)) as wire:
        reply = wire.authorize(wire.client())
        assert (reply.status, reply.error) == (500, "server_error")
        assert "sesame" not in reply.text
    assert "the authorization server failed at /authorize" in caplog.text


def test_a_head_request_has_no_body():
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        reply = wire.send("HEAD", ASM)
        assert (reply.status, reply.text) == (200, "")
        assert int(reply.headers["content-length"]) > 0


@cases(
    ("settings", "told"),
    [
        ({"users": {}}, "users is empty"),
        ({"users": {"ada": ""}}, "no password"),
        ({"users": {"ada": "scrypt$half"}}, "not a complete hash"),
        ({"registration_token": ""}, "registration_token is empty"),
        ({"users": {"ada": "x"}, "auto_approve": "ada"}, "exclude"),
        ({"access_ttl": 0}, "access_ttl is 0"),
        ({"reuse_tolerance": -1}, "reuse_tolerance"),
        ({"algorithm": "HS256"}, "HS256"),
        ({"scopes": ["a b"]}, "scope 'a b'"),
        ({"scopes": ["a"], "default_scopes": ["b"]}, "default_scopes"),
        ({"issuer": "nothing"}, "issuer is 'nothing'"),
        ({"issuer": "https://a.example/?x=1"}, "issuer"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(settings, told):
    with pytest.raises(ValueError, match=told):
        AuthorizationServer(**({"store": None} | settings))


def test_known_clients_are_checked():
    with pytest.raises(ValueError, match="neither a secret nor"):
        KnownClient(client_id="m")
    with pytest.raises(ValueError, match="redirect URI"):
        KnownClient(client_id="m", redirect_uris=("http://a.example/",))
    with pytest.raises(ValueError, match="empty secret"):
        KnownClient(client_id="m", secret="")
    assert "word" not in repr(KnownClient(client_id="m", secret="word"))


def test_secrets_are_in_no_log(caplog):
    caplog.set_level(logging.DEBUG)
    with online(AuthorizationServer(auto_approve="ada")) as wire:
        client = wire.client()
        code = wire.authorize(client).returned["code"]
        tokens = wire.redeem(client, code).json
        wire.call(tokens["access_token"])
        wire.redeem(client, code)
    for secret in (code, tokens["access_token"], tokens["refresh_token"], VERIFIER):
        assert secret not in caplog.text
    assert challenge_of(VERIFIER) not in caplog.text


@pytest.mark.parametrize(
    ("given", "files"),
    [
        ({"auto_approve": "ada"}, []),
        ({"users": {"ada": ADA}}, ["accord-auth.db"]),
        ({"users": {"ada": ADA}, "store": None}, []),
        ({"auto_approve": "ada", "store": "kept.db"}, ["kept.db"]),
    ],
    ids=["auto_approve", "people", "people in memory", "a file by name"],
)
def test_state_is_in_a_file_except_with_auto_approve(given, files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    auth = AuthorizationServer(**given)
    store = auth.endpoints.store
    assert store.clients.count() == 0
    auth.close()
    assert [each.name for each in tmp_path.iterdir()] == files
    if files:
        with pytest.raises(StoreUnavailable, match="is not open"):
            store.clients.count()


# -- a store that cannot be used


@pytest.fixture
def garbage(tmp_path):
    path = tmp_path / "auth.db"
    path.write_bytes(b"not a database" * 100)
    return path


def test_a_protected_server_whose_store_is_corrupt_does_not_start(garbage):
    server = Server("notes", auth=AuthorizationServer({"ada": ADA}, store=garbage))
    with pytest.raises(AuthError, match="not a database") as caught:
        server.asgi()
    assert str(garbage) in str(caught.value)


def test_an_authorization_server_by_itself_whose_store_is_corrupt_does_not_start(garbage):
    auth = AuthorizationServer({"ada": ADA}, store=garbage, issuer="http://localhost:1")
    sent, coming = [], [{"type": "lifespan.shutdown"}, {"type": "lifespan.startup"}]

    async def receive():
        return coming.pop()

    async def send(message):
        sent.append(message)

    asyncio.run(auth({"type": "lifespan"}, receive, send))
    (told,) = sent
    assert told["type"] == "lifespan.startup.failed"
    assert str(garbage) in told["message"]


def test_a_store_that_breaks_later_is_logged_in_one_line(garbage, caplog):
    auth = AuthorizationServer({"ada": ADA}, store=garbage, issuer="http://localhost:1")
    with serving(auth, lifespan="off") as port:
        wire = Wire(port)
        assert wire.get("/jwks", host="localhost:1").status == 500
    (told,) = [each for each in caplog.records if each.name == "accord.auth"]
    assert str(garbage) in told.getMessage()
    assert told.exc_info is None


def test_the_command_line_names_the_corrupt_store_in_one_line(garbage):
    file = garbage.with_name("notes.py")
    file.write_text(
        "from accord import Server\n"
        "from accord.auth import AuthorizationServer\n"
        f"auth = AuthorizationServer({{'ada': {ADA!r}}}, store={str(garbage)!r})\n"
        "server = Server('notes', auth=auth)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "accord.cli.main", "run", str(file), "--http", "--port", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("accord: the store of the authorization server, ")
    assert str(garbage) in line
