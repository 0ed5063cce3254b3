"""A head that the listener recognises is judged as if it were read for the first time.

Each test sends a good head until the listener keeps it, then another head on the same connection,
and compares the answer with that to the other head on a connection of its own.
"""

import asyncio
import json
import re
from typing import Self

import pytest

from accord import Context, Server
from accord.auth import Protected
from accord.auth.verifiers import TokenMemory, token_digest
from accord.http.parser import KnownHead
from accord.http.server.app import HttpApp
from accord.http.server.listener_request import ReceivedHead
from accord.http.settings import HttpLimits
from accord.principal import Principal
from support.http_talk import BOTH, call, initialize
from support.listened import Answer, Listened, Wire, call_body, call_lines, listened
from support.waiting import LONG

URL = "http://localhost/mcp"
# Ids of events differ from one answer to the next although the request is the same.
EVENT_ID = re.compile(rb"^id: .*$", re.MULTILINE)


class Remembering:
    """A verifier that knows one token, and remembers it."""

    def __init__(self) -> None:
        self.memory = TokenMemory()

    async def verify(self, token: str) -> Principal | None:
        found = Principal(token, scopes=frozenset({"use"})) if token == "ann-and-bob" else None
        self.memory.keep(token_digest(token), found, 600)
        return found


def desk(*, is_guarded: bool = False) -> Server:
    auth = Protected(Remembering(), issuer=[], public_url=URL, scopes=["use"])
    server = Server("desk", auth=auth if is_guarded else None)

    @server.tool
    def look(ctx: Context) -> str:
        """Return what is known of the request."""
        facts, caller = ctx.request, ctx.principal
        subject = None if caller is None else caller.subject
        return json.dumps([subject, *sorted(facts.headers.items()), facts.peer[0]])

    return server


class Request:
    """A request whose head is changed byte by byte."""

    def __init__(self, line: str, headers: list[str], body: bytes) -> None:
        self.line = line
        self.headers = headers
        self.body = body

    def bytes(self) -> bytes:
        # In the middle: what stands before the length and what stands after it is compared apart.
        length = f"Content-Length: {len(self.body)}"
        lines = [self.line, *self.headers[:3], length, *self.headers[3:], "", ""]
        return "\r\n".join(lines).encode("latin-1") + self.body

    def with_line(self, line: str) -> "Request":
        return Request(line, self.headers, self.body)

    def with_header(self, at: int, *lines: str) -> "Request":
        """Replace a header by others, or by none."""
        return Request(self.line, [*self.headers[:at], *lines, *self.headers[at + 1 :]], self.body)


USUAL = [
    "Host: localhost",
    f"Accept: {BOTH}",
    "Content-Type: application/json",
    "Origin: http://localhost",
    "X-Forwarded-For: 192.0.2.7",
    "Forwarded: for=192.0.2.7",
    "DPoP: ab.cd.ef",
    "X-Other: 1",
]
TOKEN = "Authorization: Bearer ann-and-bob"
POST = "POST /mcp HTTP/1.1"
DELETE = "DELETE /mcp HTTP/1.1"


def stateless(served: Listened, *more: str) -> Request:
    return Request(POST, [*USUAL, *more, *call_lines("look")], call_body("look"))


def in_session(served: Listened, *more: str) -> Request:
    """Return a request of a new session."""
    with served.connect() as wire:
        opening = json.dumps(initialize("2025-11-25")).encode()
        answer = send(wire, Request(POST, [*USUAL, *more], opening))
    session = answer.headers["mcp-session-id"]
    lines = [f"Mcp-Session-Id: {session}", "MCP-Protocol-Version: 2025-11-25"]
    return Request(POST, [*USUAL, *more, *lines], json.dumps(call(1, "look")).encode())


WAYS = {
    "stateless": (False, stateless),
    "in a session": (False, in_session),
    "stateless, with a token": (True, stateless),
    "in a session, with a token": (True, in_session),
}


def send(wire: Wire, request: Request) -> Answer:
    wire.send(request.bytes())
    return wire.answer(is_head=request.line.startswith("HEAD "))


def facts(answer: Answer) -> object:
    body = EVENT_ID.sub(b"", answer.body)
    changing = ["date"] if body == answer.body else ["date", "content-length"]
    headers = {name: value for name, value in answer.headers.items() if name not in changing}
    return answer.status, headers, body


def variants(good: Request) -> list[Request]:
    """Requests that differ from a good one in a byte of the head, a header, or the first line."""
    found = []
    for at, line in enumerate(good.headers):
        name, _, value = line.partition(": ")
        lines = [line, f"{name}:", f"{name}: {value}, {value}", f"{name}: {value.upper()}"]
        found += [good.with_header(at, each) for each in lines]
        found += [good.with_header(at), good.with_header(at, line, line)]
        found += [good.with_header(at, line, f"{name}: x"), good.with_header(at, f"x-{line}")]
        for place in range(len(line)):
            if line[place] not in ": ":
                changed = "x" if line[place] != "x" else "y"
                changed = f"{line[:place]}{changed}{line[place + 1 :]}"
                found.append(good.with_header(at, changed))
    for line in (
        "POST /mcp/ HTTP/1.1",
        "POST /mcq HTTP/1.1",
        "POST /%6dcp HTTP/1.1",
        "POST /mcp? HTTP/1.1",
        "POST /mcp?a=b HTTP/1.1",
        "POST /mcp?access_token=ann-and-bob HTTP/1.1",
        "POST http://localhost/mcp HTTP/1.1",
        "POST http://evil.example/mcp HTTP/1.1",
        "POST * HTTP/1.1",
        "POST /healthz HTTP/1.1",
        "POST /mcp HTTP/1.0",
        "POST /mcp HTTP/2.0",
        "PUT /mcp HTTP/1.1",
        "OPTIONS /mcp HTTP/1.1",
        "post /mcp HTTP/1.1",
    ):
        found.append(good.with_line(line))
    return found


NEW = {
    "Host": ("evil.example", "127.0.0.1", "localhost:1", "localhost, localhost"),
    "Origin": ("http://evil.example", "null", "http://127.0.0.1"),
    "Accept": ("application/json", "text/event-stream", "text/html", "*/*"),
    "Content-Type": (
        "text/plain",
        "application/json; charset=utf-8",
        "application/json; charset=x",
    ),
    "MCP-Protocol-Version": ("2025-06-18", "2026-07-28", "2025-11-25", "1999-01-01"),
    "Mcp-Session-Id": ("nothing",),
    "mcp-method": ("tools/list",),
    "mcp-name": ("other",),
    "Authorization": ("Bearer eve", "Basic ann-and-bob", "DPoP ann-and-bob", "bearer ann-and-bob"),
    "X-Forwarded-For": ("198.51.100.1, 192.0.2.9",),
    "Content-Encoding": ("gzip",),
}


def new_values(good: Request) -> list[Request]:
    found = []
    for name, values in NEW.items():
        names = [line.partition(":")[0].lower() for line in good.headers]
        at = names.index(name.lower()) if name.lower() in names else None
        for value in values:
            line = f"{name}: {value}"
            if at is None:
                found.append(Request(good.line, [*good.headers, line], good.body))
            else:
                found.append(good.with_header(at, line))
    return found


class Kept:
    """A connection on which the listener keeps a good head."""

    def __init__(self, served: Listened, good: Request, recognised: list[ReceivedHead]) -> None:
        self._served = served
        self._good = good
        self._recognised = recognised
        self._wire: Wire | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._wire is not None:
            with self._wire:
                self._wire = None

    def answer(self, request: Request) -> Answer:
        """Send a request right after a head that is recognised."""
        wire = self._wire = self._wire or self._served.connect()
        before = len(self._recognised)
        for _ in range(4):
            if len(self._recognised) == before:
                assert send(wire, self._good).status == 200
        assert len(self._recognised) > before
        found = send(wire, request)
        if found.headers.get("connection") == "close":
            self.__exit__()
        return found


@pytest.fixture
def recognised(monkeypatch):
    """The heads that were recognised."""
    found = []
    match = KnownHead.find

    def note(self, data):
        answer = match(self, data)
        if answer is not None:
            found.append(self.meaning)
        return answer

    monkeypatch.setattr(KnownHead, "find", note)
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [variants, new_values])
def test_a_head_that_differs_in_any_byte_is_judged_anew(way, make, recognised):
    is_guarded, build = WAYS[way]
    statuses = set()
    with listened(desk(is_guarded=is_guarded).asgi(cors=True)) as served:
        good = build(served, *([TOKEN] if is_guarded else []))
        with Kept(served, good, recognised) as kept:
            for request in make(good):
                with served.connect() as fresh:
                    expected = send(fresh, request)
                found = kept.answer(request)
                assert facts(found) == facts(expected), request.bytes()
                statuses.add(found.status)
    assert statuses >= {200, 400, 403, 415} | ({401} if is_guarded else set())


def test_a_method_that_ends_a_session_is_judged_anew(recognised):
    with listened(desk().asgi()) as served:
        good, other = in_session(served), in_session(served)
        with served.connect() as fresh:
            expected = facts(send(fresh, Request(DELETE, other.headers, b"")))
        with Kept(served, good, recognised) as kept:
            assert facts(kept.answer(Request(DELETE, good.headers, b""))) == expected
        with served.connect() as fresh:
            assert [send(fresh, each).status for each in (good, other)] == [404, 404]


def test_a_body_of_another_length_is_served_with_the_kept_head(recognised):
    with listened(desk().asgi()) as served, served.connect() as wire:
        good = in_session(served)
        for _ in range(3):
            assert send(wire, good).status == 200
        decided = {id(head.decision) for head in recognised}
        good.body = json.dumps(call("a longer id than before", "look")).encode()
        answer = send(wire, good)
        assert answer.json["id"] == "a longer id than before"
        assert str(len(good.body)) in answer.json["result"]["content"][0]["text"]
        assert {id(head.decision) for head in recognised} == decided
        assert recognised[-1].decision is not None


def test_facts_outside_of_a_head_are_asked_for_with_each_request(recognised):
    app = desk().asgi(limits=HttpLimits(connections=3))
    assert isinstance(app, HttpApp)
    with listened(app) as served, served.connect() as wire:
        good = stateless(served)
        for _ in range(3):
            assert send(wire, good).status == 200
        assert recognised
        app.under_way += 3
        refused = send(wire, good)
        app.under_way -= 3
        assert (refused.status, refused.json["error"]["message"]) == (
            503,
            "3 requests are under way (connections)",
        )
        with served.connect() as other:
            assert send(other, good).status == 200


def test_an_app_that_was_started_again_serves_kept_heads_anew(recognised):
    app = desk().asgi()

    async def start_again() -> None:
        await app.stop()
        await app.start()

    with listened(app) as served, served.connect() as wire:
        opening = Request(POST, USUAL, json.dumps(initialize("2025-11-25")).encode())
        for _ in range(3):
            assert send(wire, opening).status == 200
        assert recognised
        before = len(app.sessions)
        asyncio.run_coroutine_threadsafe(start_again(), app._loop).result(LONG)
        assert (before, len(app.sessions)) == (3, 0)
        assert send(wire, opening).status == 200
        assert len(app.sessions) == 1
