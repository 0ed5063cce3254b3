"""Tokens in the requests of a client: every request, both forms, one authorization for all."""

import asyncio
from collections import Counter

import pytest

import accord
from accord import Server, connect
from accord.client.blocking import connect as connect_blocking
from accord.errors import FlowFailed, Forbidden, Unauthorized
from accord.http.client.auth import Bearer, Challenge, RequestAuthorization
from support.http_server import serving
from support.tables import cases
from support.waiting import run, until


class Gate:
    """Lets requests through to an app that carry one of the good tokens."""

    def __init__(self, *good):
        self.good = set(good)
        self.seen = []
        self.scopes = {}
        self.redirects = {}
        self.forgets = False
        self.says = 'Bearer resource_metadata="https://h.example/x", scope="a b"'
        server = Server("guarded")

        @server.tool
        async def echo(text: str) -> str:
            """Say it again."""
            return text

        self.app = server.asgi(sse=True)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        token = headers.get("authorization", "").removeprefix("Bearer ")
        self.seen.append((scope["method"], scope["path"], token, scope["query_string"].decode()))
        if scope["path"] in self.redirects:
            place = self.redirects[scope["path"]].encode()
            return await self._refuse(send, 307, b"location", place)
        if token not in self.good:
            return await self._refuse(send, 401, b"www-authenticate", self.says.encode())
        if self.forgets:
            self.forgets = False
            for session in list(self.app.sessions):
                self.app.sessions.end(session)
        missing = self.scopes.get(token)
        if missing and scope["method"] == "POST":
            says = f'Bearer error="insufficient_scope", scope="{missing}"'.encode()
            return await self._refuse(send, 403, b"www-authenticate", says)
        return await self.app(scope, receive, send)

    async def _refuse(self, send, status, name, value):
        start = {"type": "http.response.start", "status": status, "headers": [(name, value)]}
        await send(start)
        await send({"type": "http.response.body", "body": b""})


class Keys:
    """Gives tokens one after the other."""

    def __init__(self, *tokens, pause=0.0):
        self.tokens = [None, *tokens]
        self.challenges = []
        self.pause = pause
        self.flight = None

    async def token(self, resource_url):
        return self.tokens[0]

    async def challenged(self, challenge):
        if challenge.token != self.tokens[0]:
            return True
        if self.flight is None or self.flight.done():
            self.flight = asyncio.ensure_future(self.turn(challenge))
        return await self.flight

    async def turn(self, challenge):
        self.challenges.append(challenge)
        await asyncio.sleep(self.pause)
        if len(self.tokens) == 1:
            return False
        self.tokens.pop(0)
        return True


FORMS = pytest.mark.parametrize(("form", "path"), [("http", "/mcp"), ("sse", "/sse")])


def guarded(gate, work):
    with serving(gate) as port:
        run(work(f"http://127.0.0.1:{port}"))


@FORMS
@pytest.mark.requirement(
    "auth.token.bearer-header", "auth.every-request", "auth.token.not-in-query"
)
def test_every_request_carries_the_token_in_its_header(form, path):
    gate = Gate("good")

    async def work(url):
        async with connect(
            url + path, revision="2025-11-25", transport=form, auth="good"
        ) as client:
            assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"
            if form == "http":
                await until(lambda: any(each[0] == "GET" for each in gate.seen))
        methods = {method for method, *_ in gate.seen}
        assert methods == ({"POST", "GET", "DELETE"} if form == "http" else {"POST", "GET"})
        assert {token for _, _, token, _ in gate.seen} == {"good"}
        assert not any("good" in query for *_, query in gate.seen)

    guarded(gate, work)


@FORMS
@pytest.mark.requirement("auth.challenge.client-reacts", "auth.challenge.client-parses")
def test_a_challenge_is_answered_and_the_request_repeated(form, path):
    gate, keys = Gate("good"), Keys("good")

    async def work(url):
        async with connect(url + path, transport=form, auth=keys) as client:
            await client.ping()
        (challenge,) = keys.challenges
        assert (challenge.status, challenge.token, challenge.url) == (401, None, url + path)
        assert challenge.bearer.scopes == ("a", "b")
        assert challenge.bearer.resource_metadata == "https://h.example/x"

    guarded(gate, work)


@FORMS
def test_fifty_calls_at_once_wait_for_one_authorization(form, path):
    gate, keys = Gate("one"), Keys("one", "two", pause=0.05)

    async def work(url):
        async with connect(url + path, transport=form, auth=keys) as client:
            gate.good = {"two"}
            calls = [client.call_tool("echo", {"text": str(n)}) for n in range(50)]
            results = await asyncio.gather(*calls)
            assert [each.content[0].text for each in results] == [str(n) for n in range(50)]
            assert len(keys.challenges) == 2
            posts = Counter(token for method, _, token, _ in gate.seen if method == "POST")
            assert posts["two"] <= 52

    guarded(gate, work)


def test_a_form_that_is_found_by_trying_keeps_its_token():
    gate, keys = Gate("good"), Keys("good")

    async def work(url):
        async with connect(url + "/sse", auth=keys) as client:
            await client.ping()
        assert len(keys.challenges) == 1

    guarded(gate, work)


def test_more_scopes_are_asked_for_when_they_are_missing():
    gate, keys = Gate("small", "large"), Keys("small", "large")

    async def work(url):
        async with connect(f"{url}/mcp", auth=keys) as client:
            gate.scopes["small"] = "write"
            await client.ping()
        assert [each.status for each in keys.challenges] == [401, 403]
        assert keys.challenges[1].bearer.scopes == ("write",)

    guarded(gate, work)


@pytest.mark.parametrize("auth", ["bad", None], ids=str)
@FORMS
def test_a_401_without_auth_is_reported_with_a_hint(auth, form, path):
    async def work(url):
        with pytest.raises(Unauthorized) as caught:
            await connect(url + path, transport=form, auth=auth)
        error = caught.value
        assert (error.status, "scope=" in error.challenge) == (401, True)
        assert "https://h.example/x" in str(error)
        assert ('auth="oauth"' in str(error)) == (auth is None)
        assert "bad" not in str(error)

    guarded(Gate("good"), work)


def test_a_server_that_wants_something_else_than_a_token_is_reported():
    gate = Gate("good")
    gate.says = 'Basic realm="desk", Digest nonce="x"'

    async def work(url):
        with pytest.raises(Unauthorized, match="not take tokens but basic or digest") as caught:
            await connect(f"{url}/mcp")
        assert 'auth="oauth"' not in str(caught.value)

    guarded(gate, work)


def test_a_call_that_is_not_allowed_names_the_scopes_and_breaks_nothing():
    gate = Gate("good")

    async def work(url):
        async with connect(f"{url}/mcp", auth="good") as client:
            gate.scopes["good"] = "write admin"
            with pytest.raises(Forbidden) as caught:
                await client.call_tool("echo", {"text": "x"})
            assert caught.value.scopes == ("write", "admin")
            gate.scopes.clear()
            await client.ping()

    guarded(gate, work)


def test_a_request_is_repeated_no_more_than_three_times():
    gate, keys = Gate(), Keys(*"abcdefgh")

    async def work(url):
        with pytest.raises(Unauthorized):
            await connect(f"{url}/mcp", auth=keys)
        assert [each.repeats for each in keys.challenges] == [0, 1, 2]
        assert len(gate.seen) == 4

    guarded(gate, work)


def test_a_failed_authorization_is_what_the_caller_sees():
    class Failing(Keys):
        async def turn(self, challenge):
            raise FlowFailed("registration", asked="POST x", came="HTTP 500", hint="wait")

    async def work(url):
        with pytest.raises(FlowFailed) as caught:
            await connect(f"{url}/mcp", auth=Failing())
        assert caught.value.step == "registration"

    guarded(Gate("good"), work)


def test_an_authorizer_that_breaks_is_one_clear_error():
    class Broken(Keys):
        async def token(self, resource_url):
            raise RuntimeError("SECRET")

    async def work(url):
        with pytest.raises(FlowFailed, match="RuntimeError") as caught:
            await connect(f"{url}/mcp", auth=Broken())
        assert "SECRET" not in str(caught.value)

    guarded(Gate("good"), work)


def test_timeouts_do_not_run_while_the_user_is_asked():
    gate, keys = Gate("one"), Keys("one", "two", pause=2.5)

    async def work(url):
        async with connect(f"{url}/mcp", auth=keys, connect_timeout=2, timeout=2) as client:
            gate.good = {"two"}
            await client.ping()
        assert len(keys.challenges) == 2

    guarded(gate, work)


def test_a_session_that_is_begun_anew_is_authorized_anew():
    gate, keys = Gate("one"), Keys("one", "two")
    renewed = []

    async def work(url):
        async with connect(
            f"{url}/mcp", revision="2025-11-25", auth=keys, on_renewed=lambda: renewed.append(1)
        ) as client:
            await client.ping()
            gate.forgets = True
            gate.good = {"two"}
            await client.ping()
        assert len(keys.challenges) == 2
        assert len(renewed) == 1

    guarded(gate, work)


def test_closing_does_not_ask_the_user_to_sign_in():
    gate, keys = Gate("one"), Keys("one", "two")

    async def work(url):
        client = await connect(f"{url}/mcp", revision="2025-11-25", auth=keys)
        await until(lambda: any(each[0] == "GET" for each in gate.seen))
        gate.good = set()
        await client.close()
        assert len(keys.challenges) == 1
        assert gate.seen[-1][0] == "DELETE"

    guarded(gate, work)


@pytest.mark.requirement("auth.tokens.only-own-issuer")
def test_a_token_goes_to_no_other_origin():
    gate, other = Gate("good"), Gate("good")

    async def work(url):
        with serving(other) as port:
            gate.redirects["/mcp"] = f"http://127.0.0.1:{port}/mcp"
            with pytest.raises(accord.errors.AccordError):
                await connect(f"{url}/mcp", auth="good")
            gate.redirects["/mcp"] = f"http://localhost:{port}/mcp"
            with pytest.raises(accord.errors.AccordError):
                await connect(f"{url}/mcp", auth="good")
        assert other.seen == []

    guarded(gate, work)


@cases(
    ("home", "there", "goes"),
    [
        ("https://h.example/mcp", "https://h.example/other", True),
        ("https://h.example/mcp", "https://H.example:443/mcp", True),
        ("https://h.example/mcp", "https://h.example:8443/mcp", False),
        ("https://h.example/mcp", "http://h.example/mcp", False),
        ("https://h.example/mcp", "https://sub.h.example/mcp", False),
        ("https://h.example/mcp", "https://h.example@evil.example/mcp", False),
        ("http://h.example/mcp", "https://h.example/mcp", True),
        ("http://h.example:8000/mcp", "https://h.example:9000/mcp", False),
        ("http://h.example:8000/mcp", "https://h.example/mcp", False),
    ],
)
def test_a_token_goes_to_the_origin_it_is_for(home, there, goes):
    authorization = RequestAuthorization(Bearer("good"), home, lambda: pytest.fail("not asked"))
    assert asyncio.run(authorization.token(there)) == ("good" if goes else None)


def test_a_token_follows_to_another_path_of_the_same_server():
    gate = Gate("good")
    gate.redirects["/old"] = "/mcp"

    async def work(url):
        async with connect(f"{url}/old", auth="good") as client:
            await client.ping()

    guarded(gate, work)


def test_a_given_header_does_not_travel_beside_a_token():
    gate = Gate("good")

    async def work(url):
        async with connect(
            f"{url}/mcp", auth="good", headers={"authorization": "Bearer other"}
        ) as client:
            await client.ping()
        assert {token for _, _, token, _ in gate.seen} == {"good"}

    guarded(gate, work)


def test_the_blocking_client_authorizes_as_well():
    gate = Gate("good")
    with (
        serving(gate) as port,
        connect_blocking(f"http://127.0.0.1:{port}/mcp", auth=Keys("good")) as client,
    ):
        client.ping()


@cases("token", ["", "a b", "a\r\nb", "ü"], ids=repr)
def test_an_invalid_token_is_refused_without_being_shown(token):
    with pytest.raises(ValueError, match="characters") as caught:
        Bearer(token)
    assert not token.strip() or token.strip() not in str(caught.value)


def test_a_token_may_be_given_with_its_scheme():
    assert asyncio.run(Bearer("Bearer abc").token("x")) == "abc"
    assert not asyncio.run(Bearer("abc").challenged(Challenge(url="x", status=401)))
    assert "SECRET" not in repr(Challenge(url="x", status=401, token="SECRET"))
