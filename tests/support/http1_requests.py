"""The parts of requests as bytes, and what is right for a server to do with them."""

import json
from dataclasses import dataclass
from typing import Any

from support.http_talk import BOTH

# Stands in all calls; replaced by as many bytes that tell the run of a case from all others.
MARK = b"c@se"


def message(tool: str, **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": {"case": MARK.decode(), **arguments}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return json.dumps(call, separators=(",", ":")).encode()


def note(number: int = 1) -> bytes:
    """The body of a call that is to be served; numbers count from 1."""
    return message("note", number=number)


USUAL = (b"Host: localhost", b"Accept: " + BOTH.encode(), b"Content-Type: application/json")


def head(
    *lines: bytes, first: bytes = b"POST /mcp HTTP/1.1", usual: tuple[bytes, ...] = USUAL
) -> bytes:
    return b"".join(line + b"\r\n" for line in (first, *usual, *lines, b""))


def sized(
    body: bytes, *lines: bytes, first: bytes = b"POST /mcp HTTP/1.1", usual: Any = USUAL
) -> bytes:
    """A request with a length; the other lines come first."""
    return head(*lines, b"Content-Length: %d" % len(body), first=first, usual=usual) + body


def chunk(data: bytes, size: bytes | None = None) -> bytes:
    return b"%b\r\n%b\r\n" % (b"%x" % len(data) if size is None else size, data)


END = b"0\r\n\r\n"
TE = b"Transfer-Encoding: chunked"


def chunked(body: bytes, *lines: bytes, first: bytes = b"POST /mcp HTTP/1.1") -> bytes:
    """A request in two chunks."""
    return head(*lines, TE, first=first) + chunk(body[:20]) + chunk(body[20:]) + END


GOOD = sized(note())
FORBIDDEN = message("canary")
"""The body of a request that must not be executed itself."""
CANARY = sized(FORBIDDEN)
"""What must never be executed."""
SAME = b"Content-Length: %d" % len(CANARY)
"""Frames that request as the body of another."""
AFTER = sized(note(99))
"""What is sent last where a connection must have ended."""
PROBE = head(b"Connection: close", first=b"GET /healthz HTTP/1.1", usual=USUAL[:1])
"""What is sent last where a connection goes on: it shows that the next request is understood."""


def get(*lines: bytes, target: bytes = b"/healthz", version: bytes = b"HTTP/1.1") -> bytes:
    return head(*lines, first=b"GET %b %b" % (target, version), usual=USUAL[:1])


# -- outcomes


@dataclass(frozen=True)
class Expected:
    """What is right: a status for each response, how many calls, whether the connection goes on.

    Attributes:
        statuses: of the responses, in order; each one of some.
        calls: how many calls of `note` are served, with numbers from 1.
        goes_on: whether the next request on the connection is answered; None if either is right.
        refusal: what may follow and end the connection.
        needs_refusal: whether it must.
        is_incomplete: whether the request never ends, so that the client ends the connection.
        fewer: whether the server may end the connection before it has answered all.
    """

    statuses: tuple[frozenset[int], ...]
    calls: int = 0
    goes_on: bool | None = True
    refusal: frozenset[int] = frozenset()
    needs_refusal: bool = True
    is_incomplete: bool = False
    fewer: bool = False


OK = frozenset((200,))


def served(times: int = 1, *, goes_on: bool | None = True, fewer: bool = False) -> Expected:
    """All calls are served in order, then the probe."""
    return Expected((OK,) * times, times, goes_on, fewer=fewer)


def served_last(times: int = 1) -> Expected:
    """All calls are served, and the connection ends."""
    return served(times, goes_on=False)


def answered(*one_of: int, goes_on: bool | None = True) -> Expected:
    """One response by the app, which has understood the request; no call."""
    return Expected((frozenset(one_of),), goes_on=goes_on)


def refused(*one_of: int, after: int = 0) -> Expected:
    """One response at most after some that are served, and the connection ends."""
    statuses = frozenset(one_of or (400,))
    return Expected((OK,) * after, after, False, statuses, needs_refusal=not after)


def silent(after: int = 0) -> Expected:
    """The request never ends; when the client ends the connection, there is nothing to answer."""
    # The end of what a client sends counts as its leaving, so that earlier answers may be lost.
    statuses = (OK,) * after
    return Expected(
        statuses, after, False, frozenset((400,)), False, is_incomplete=True, fewer=True
    )


@dataclass(frozen=True)
class Case:
    """Bytes that a client sends, and what is right."""

    name: str
    data: bytes
    expected: Expected
    section: str
    finding: str = ""


class Cases(list[Case]):
    """A table of cases."""

    def case(
        self, name: str, data: bytes, expected: Expected, section: str, finding: str = ""
    ) -> None:
        self.append(Case(name, data, expected, section, finding))

    def framed(self, line: bytes, name: str, section: str, finding: str = "", *status: int) -> None:
        """Add a request whose length or coding is not valid, and whose body is another request."""
        body = chunk(CANARY) + END if b"hunked" in line else CANARY
        self.case(name, head(line) + body, refused(*status), section, finding)
