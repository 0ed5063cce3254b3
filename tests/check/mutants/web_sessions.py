"""Servers that are wrong about sessions over Streamable HTTP in further ways."""

import time
import uuid
from itertools import count
from typing import Any

from check.faults import faults, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Web, web_mutant
from check.mutants.foundation import few
from check.mutants.over_http import ERROR, JSON, renamed

NEWER = "2025-11-25"
MIDDLE = "2025-03-26"


HEADER = "session.id.header-name"


def elsewhere(web: Web, name: str) -> None:
    """Name sessions in another header."""

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if "mcp-session-id" in headers:
            headers[name] = headers.pop("mcp-session-id")
        return status, headers

    def before(asked: Asked) -> None:
        if name in asked.headers:
            asked.headers["mcp-session-id"] = asked.headers[name]

    web.head = head
    web.before = before


@web_mutant(HEADER, only=[HEADER], patience=2.0)
def names_sessions_as_others_do(web: Web) -> None:
    elsewhere(web, "x-session-id")


@web_mutant(HEADER, only=[HEADER], revision=MIDDLE, patience=2.0)
def misspells_the_header_of_sessions(web: Web) -> None:
    elsewhere(web, "mcp-session")


few("an id that comes in no header looks like a missing one", HEADER)


@web_mutant("session.id.secure", revision=MIDDLE)
def makes_session_ids_of_the_clock(web: Web) -> None:
    numbers = count(time.time_ns() // 1000)
    renamed(web, lambda own: f"{next(numbers):x}-session")


@web_mutant("session.id.secure", revision=NEWER)
def makes_session_ids_of_clock_and_machine(web: Web) -> None:
    renamed(web, lambda own: str(uuid.uuid1(node=0x5EED5EED5EED, clock_seq=7)))


@web_mutant("session.id.secure", revision=MIDDLE)
def makes_short_session_ids(web: Web) -> None:
    renamed(web, lambda own: own[:6])


@web_mutant("session.id.visible-ascii", revision=MIDDLE)
def puts_accents_into_session_ids(web: Web) -> None:
    renamed(web, lambda own: f"é{own}")


@web_mutant("session.id.visible-ascii", revision=NEWER)
def puts_tabs_into_session_ids(web: Web) -> None:
    numbers = count(1)
    # Only sometimes.
    renamed(web, lambda own: own if next(numbers) % 2 else f"{own[:4]}\t{own[4:]}")


def nameless(web: Web, methods: tuple[str, ...], status: int) -> None:
    def head(asked: Asked, given: int, headers: Headers) -> Head:
        is_nameless = "mcp-session-id" not in asked.headers and asked.method in methods
        return (status if is_nameless else given), headers

    web.head = head


@web_mutant("session.id.missing-400", revision=MIDDLE)
def asks_for_a_login_without_a_session(web: Web) -> None:
    nameless(web, ("ping", "tools/list"), 403)


@web_mutant("session.id.missing-400", revision=NEWER)
def falls_over_without_a_session(web: Web) -> None:
    nameless(web, ("tools/list",), 500)


def after_the_end(web: Web, answer: Any) -> None:
    """Answer what comes in sessions that were ended."""
    ended: set[str] = set()

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        session = asked.headers.get("mcp-session-id", "")
        if asked.verb == "DELETE":
            ended.add(session)
        return answer(asked) if session in ended and asked.verb != "DELETE" else None

    web.before = before


@web_mutant("session.end.terminated-404", revision=MIDDLE)
def serves_ended_sessions(web: Web) -> None:
    def answer(asked: Asked) -> tuple[int, Headers, bytes] | None:
        if asked.method != "ping":
            return None
        return 200, JSON, b'{"jsonrpc":"2.0","id":%d,"result":{}}' % asked.message["id"]

    after_the_end(web, answer)


@web_mutant("session.end.terminated-404", revision=NEWER)
def calls_ended_sessions_gone(web: Web) -> None:
    after_the_end(web, lambda asked: (410, JSON, ERROR) if asked.verb == "POST" else None)


@web_mutant("session.end.terminated-404")
def lets_listeners_stay_in_ended_sessions(web: Web) -> None:
    stream = {"content-type": "text/event-stream"}
    after_the_end(web, lambda asked: (200, stream, b"") if asked.verb == "GET" else None)


@web_mutant("session.end.terminated-404", revision=NEWER, of="before")
def takes_any_session_id(asked: Asked) -> tuple[int, Headers, bytes] | None:
    if not asked.headers.get("mcp-session-id", "").startswith("accord-check"):
        return None
    return 200, JSON, b'{"jsonrpc":"2.0","id":%d,"result":{}}' % asked.message["id"]


@hook_maker
def crowded(web: Web, room: int, status: int) -> None:
    """Have room for some sessions, and keep what was only closed."""

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        kept = web.shared.get("kept", 0)
        if asked.method == "initialize" and kept == room:
            return status, JSON, ERROR
        web.shared["kept"] = kept + (asked.method == "initialize") - (asked.verb == "DELETE")
        return None

    web.before = before


CLOSING = "lifecycle.shutdown.http-close"
faults(
    web_mutant(CLOSING, only=[CLOSING], revision=NEWER), is_full_of_closed_sessions=crowded(2, 429)
)


@web_mutant(CLOSING, only=[CLOSING], revision="2024-11-05", form="sse", patience=1.0)
def ends_with_its_first_client(web: Web) -> None:
    def left(asked: Asked) -> None:
        web.shared["left"] = web.shared.get("left", 0) + (asked.verb == "GET")

    # The check opens other streams before: one to ask for the revision, one to discover.
    web.left = left
    web.before = lambda asked: (
        (503, {}, b"") if web.shared.get("left", 0) > 2 and asked.verb == "GET" else None
    )
