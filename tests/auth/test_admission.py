"""One decision about a token: the same on the listener and as ASGI, in both eras.

The ways a request may take to `Guard.admit`: the first request of a connection; a request after one
with the same head, which the listener and the guard recognise; a listener on which something stands
around the guard, so that it gets ASGI requests; and ASGI without a listener.
"""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from accord import Server
from accord.auth import IntrospectionVerifier, JwtVerifier, Protected
from accord.errors import AuthError
from accord.http.client.guarded import HttpRequest, HttpResponse
from accord.principal import Principal
from support.asgi import Exchange
from support.http_talk import BOTH, call, initialize
from support.issuer import ISSUER, jwks, token, unsigned
from support.listened import call_body, call_lines, listened
from support.waiting import LONG

URL = "http://localhost/mcp"
Lines = list[str]


class Clock:
    """The time of a verifier."""

    def __init__(self) -> None:
        self.now = time.time()

    def __call__(self) -> float:
        return self.now


class Issued:
    """A verifier of JWTs that remembers them, and that cannot verify one token."""

    issuer = ISSUER

    def __init__(self, clock: Clock) -> None:
        self._jwt = JwtVerifier(ISSUER, audience=URL, keys=jwks("first"), leeway=0, clock=clock)
        self.memory = self._jwt.memory

    async def verify(self, given: str) -> Principal | None:
        if given == "unreachable":
            raise AuthError("the issuer is down")
        return await self._jwt.verify(given)


def desk(verifier: Any) -> Server:
    server = Server("desk", auth=Protected(verifier, public_url=URL, scopes=["read"]))

    @server.tool
    def work() -> str:
        """Work."""
        return "done"

    return server


class Answer:
    """What of an answer must be the same on every way."""

    NAMES = ("www-authenticate", "content-type", "cache-control", "retry-after", "vary")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = {name: headers[name] for name in self.NAMES if name in headers}
        self.session = headers.get("mcp-session-id")
        self.body = body

    @property
    def facts(self) -> tuple[int, str, bytes]:
        return self.status, json.dumps(self.headers), self.body


# -- the ways

Ask = Callable[[str, Lines, bytes], Answer]


@contextmanager
def on_listener(app: Any, *, is_kept: bool) -> Iterator[Ask]:
    with listened(app) as served:
        wires = [served.connect()]

        def ask(path: str, lines: Lines, body: bytes) -> Answer:
            if not is_kept:
                with wires.pop():
                    wires.append(served.connect())
            length = f"Content-Length: {len(body)}"
            head = [f"POST {path} HTTP/1.1", "Host: localhost", *lines, length, "", ""]
            wires[0].send("\r\n".join(head).encode() + body)
            found = wires[0].answer()
            return Answer(found.status, found.headers, found.body)

        try:
            yield ask
        finally:
            with wires.pop():
                pass


@contextmanager
def as_asgi(app: Any) -> Iterator[Ask]:
    with asyncio.Runner() as runner:

        def ask(path: str, lines: Lines, body: bytes) -> Answer:
            path, _, query = path.partition("?")
            pairs = [line.split(": ", 1) for line in ["Host: localhost", *lines]]
            scope = {
                "type": "http",
                "method": "POST",
                "path": path,
                "query_string": query.encode(),
                "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
            }

            async def send() -> Exchange:
                async with asyncio.timeout(LONG):
                    return await Exchange(app, scope, body).done()

            found = runner.run(send())
            return Answer(found.status, found.headers, found.body)

        try:
            yield ask
        finally:
            runner.run(app.stop())


WAYS: dict[str, Callable[[Server], Any]] = {
    "the listener": lambda server: on_listener(server.asgi(cors=True), is_kept=False),
    "the listener again": lambda server: on_listener(server.asgi(cors=True), is_kept=True),
    "the listener by ASGI": lambda server: on_listener(
        server.asgi(cors=True, access_log=True), is_kept=True
    ),
    "ASGI": lambda server: as_asgi(server.asgi(cors=True)),
}
USUAL = ["Content-Type: application/json", f"Accept: {BOTH}"]


def bearer(given: str) -> str:
    return f"Authorization: Bearer {given}"


class Caller:
    """A client of one era, on one way."""

    def __init__(self, ask: Ask, era: str, good: str) -> None:
        self._ask = ask
        self._lines, self._body = [*USUAL, *call_lines("work")], call_body("work")
        if era == "handshake":
            opened = ask("/mcp", [*USUAL, good], json.dumps(initialize("2025-11-25")).encode())
            assert opened.status == 200, opened.body
            named = [f"Mcp-Session-Id: {opened.session}", "MCP-Protocol-Version: 2025-11-25"]
            self._lines, self._body = [*USUAL, *named], json.dumps(call(1, "work")).encode()

    def __call__(self, *lines: str, path: str = "/mcp") -> Answer:
        return self._ask(path, [*self._lines, *lines], self._body)


@pytest.fixture(params=["handshake", "stateless"])
def era(request: Any) -> str:
    return str(request.param)


# -- every refusal

GOOD = bearer(token(aud=URL))
REFUSED: dict[str, tuple[int, str, Lines, str]] = {
    "no token": (401, "unauthorized", [], ""),
    "another scheme": (401, "unauthorized", ["Authorization: Basic YTpi"], ""),
    "the scheme of DPoP": (401, "unauthorized", [GOOD.replace("Bearer", "DPoP")], ""),
    "a proof of DPoP alone": (401, "unauthorized", ["DPoP: ab.cd.ef"], ""),
    "no token, from a page": (401, "unauthorized", ["Origin: http://localhost"], ""),
    "no token, from another page": (401, "unauthorized", ["Origin: http://evil.example"], ""),
    "an empty header": (401, "unauthorized", ["Authorization: "], ""),
    "an empty token": (400, "invalid_request", ["Authorization: Bearer"], ""),
    "two words": (400, "invalid_request", [bearer("a b")], ""),
    "characters of no token": (400, "invalid_request", [bearer("a,b")], ""),
    "the same token twice": (400, "invalid_request", [GOOD, GOOD], ""),
    "a token and another": (400, "invalid_request", [GOOD, bearer("other")], ""),
    "in the query": (400, "invalid_request", [], "access_token=any"),
    "in the query too": (400, "invalid_request", [GOOD], "access_token=any"),
    "in the query, in disguise": (400, "invalid_request", [GOOD], "a=b&acces%73_Token=any"),
    "too long": (401, "invalid_token", [bearer("a" * 20_000)], ""),
    "unknown": (401, "invalid_token", [bearer("unknown")], ""),
    "nearly the good one": (401, "invalid_token", [f"{GOOD[:-5]}AAAAA"], ""),
    "expired": (401, "invalid_token", [bearer(token(aud=URL, exp=1))], ""),
    "not valid yet": (401, "invalid_token", [bearer(token(aud=URL, nbf=9_999_999_999))], ""),
    "for another server": (401, "invalid_token", [bearer(token(aud="https://o.example"))], ""),
    "for no server": (401, "invalid_token", [bearer(token(aud=None))], ""),
    "of another issuer": (
        401,
        "invalid_token",
        [bearer(token(aud=URL, iss="https://o.example"))],
        "",
    ),
    "signed with another key": (401, "invalid_token", [bearer(token("second", aud=URL))], ""),
    "unsigned": (401, "invalid_token", [bearer(unsigned({"alg": "none"}, aud=URL))], ""),
    "without a scope": (403, "insufficient_scope", [bearer(token(aud=URL, scope=None))], ""),
    "with other scopes": (403, "insufficient_scope", [bearer(token(aud=URL, scope="use"))], ""),
    "one that cannot be verified": (503, "temporarily_unavailable", [bearer("unreachable")], ""),
}


@pytest.fixture(scope="module")
def first_answers() -> dict[str, tuple[int, str, bytes]]:
    """What the first way has answered to each refusal, for the others to agree with."""
    return {}


@pytest.mark.requirement("auth.token.validated", "auth.token.invalid-401", "auth.status-codes")
@pytest.mark.parametrize("way", WAYS)
def test_every_refusal_is_the_same_on_every_way(way, era, first_answers):
    with WAYS[way](desk(Issued(Clock()))) as ask:
        caller = Caller(ask, era, GOOD)
        for name, (status, error, lines, query) in REFUSED.items():
            for _ in range(2):  # the second time what the first has shown is known
                assert caller(GOOD).status == 200
                answer = caller(*lines, path=f"/mcp?{query}" if query else "/mcp")
                assert (answer.status, json.loads(answer.body)["error"]) == (status, error), name
                challenge = answer.headers.get("www-authenticate", "")
                assert challenge.startswith("Bearer ") == (status in (401, 403)), name
                assert answer.facts == first_answers.setdefault(name, answer.facts), name


# -- tokens that end


@pytest.mark.parametrize("way", WAYS)
def test_a_token_that_expires_between_two_calls_is_refused(way, era):
    clock = Clock()
    with WAYS[way](desk(Issued(clock))) as ask:
        caller = Caller(ask, era, GOOD)
        brief = bearer(token(aud=URL, exp=int(clock.now) + 60))
        assert [caller(brief).status for _ in range(4)] == [200] * 4
        clock.now = int(clock.now) + 59.9
        assert caller(brief).status == 200
        clock.now += 0.2
        assert [caller(brief).status for _ in range(2)] == [401, 401]
        assert caller(GOOD).status == 200


@pytest.mark.parametrize("way", WAYS)
def test_a_revoked_token_is_refused_within_the_time_that_its_verifier_remembers_it(way, era):
    clock, active = Clock(), [True]

    async def send(request: HttpRequest) -> HttpResponse:
        said = {"active": active[0], "sub": "ann", "scope": "read", "aud": URL, "client_id": "c"}
        return HttpResponse(status=200, body=json.dumps(said).encode())

    verifier = IntrospectionVerifier(
        "https://issuer.example/introspect",
        client_id="desk",
        client_secret="secret",
        issuer=ISSUER,
        audience=URL,
        remember=30.0,
        clock=clock,
        send=send,
    )
    with WAYS[way](desk(verifier)) as ask:
        caller = Caller(ask, era, GOOD)
        opaque = bearer("opaque")
        assert [caller(opaque).status for _ in range(4)] == [200] * 4
        active[0] = False
        clock.now += 29.9
        assert caller(opaque).status == 200
        clock.now += 0.2
        assert [caller(opaque).status for _ in range(2)] == [401, 401]


@pytest.mark.parametrize("way", WAYS)
def test_a_verifier_that_remembers_nothing_is_asked_with_every_request(way, era):
    known = {"ann": Principal("ann", scopes=frozenset({"read"}))}

    class Asked:
        issuer = ISSUER

        async def verify(self, given: str) -> Principal | None:
            return known.get(given)

    with WAYS[way](desk(Asked())) as ask:
        caller = Caller(ask, era, bearer("ann"))
        assert [caller(bearer("ann")).status for _ in range(3)] == [200] * 3
        del known["ann"]
        assert caller(bearer("ann")).status == 401
