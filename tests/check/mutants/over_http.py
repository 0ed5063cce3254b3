"""Servers that are wrong over Streamable HTTP: areas http and session, and how it ends."""

import asyncio
import contextlib
import json
from itertools import count
from typing import Any

from accord.http.rules.sse import Event, encode
from accord_tools.check.scenarios.server.http_connections import listening_addresses, own_addresses
from check.faults import faults, hook
from check.mutants.between_http import OPENING, Asked, Head, Headers, Send, Web, web_mutant
from check.mutants.foundation import unbreakable

ERROR = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}'
JSON = {"content-type": "application/json"}


def is_stream(headers: Headers) -> bool:
    return headers.get("content-type", "").startswith("text/event-stream")


def is_answer(event: Event) -> bool:
    return b'"method"' not in event.data


# -- what needs no answer


faults(
    web_mutant("http.post.accepted-202"),
    answers_notifications_with_ok=hook(
        head=lambda asked, status, headers: ((200 if status == 202 else status), headers)
    ),
    says_null_to_notifications=hook(
        body=lambda asked, body: b"null" if asked.method == "notifications/initialized" else body
    ),
)


@web_mutant("http.post.refused-status")
def refuses_with_ok(web: Web) -> None:
    web.before = lambda asked: (
        (200, JSON, ERROR) if asked.method == "notifications/cancelled" else None
    )


# -- requests


@web_mutant("http.post.response-content-type", of="head")
def answers_with_plain_text(asked: Asked, status: int, headers: Headers) -> Head:
    if asked.method == "ping" and status == 200:
        headers["content-type"] = "text/plain"
    return status, headers


@web_mutant("http.post.stream-one-response-per-request", of="event")
def answers_twice(asked: Asked, event: Event) -> list[Event]:
    if asked.tool == "count" and is_answer(event):
        return [event, Event(event.data, id=f"{event.id}-2")]
    return [event]


@web_mutant("http.sse.closed-after-response")
def never_closes_a_stream(web: Web) -> None:
    async def last(asked: Asked, send: Send) -> None:
        if asked.tool == "count":
            await asyncio.sleep(0.6)

    web.last = last


@web_mutant("http.sse.terminate-after-response", revision="2025-11-25")
def leaves_streams_open(web: Web) -> None:
    never_closes_a_stream(web)


@web_mutant("http.sse.not-closed-before-response")
def closes_streams_early(web: Web) -> None:
    def is_odd(asked: Asked) -> bool:
        # A tool that never answers would not be called again.
        return asked.tool == "show_pass" and "_meta" in asked.message["params"]

    def before(asked: Asked) -> None:
        if is_odd(asked):
            asked.headers["accept"] = "text/event-stream"

    web.before = before
    web.event = lambda asked, event: [] if is_odd(asked) and is_answer(event) else [event]


@web_mutant("http.sse.retry-before-close", revision="2025-11-25")
def closes_streams_without_a_word(web: Web) -> None:
    closes_streams_early(web)
    web.body = lambda asked, body: body.replace(b"retry: ", b"later: ")


@web_mutant("http.sse.priming-event", revision="2025-11-25", of="body")
def begins_streams_with_data(asked: Asked, body: bytes) -> bytes:
    first, end, rest = body.partition(b"\n\n")
    is_priming = asked.verb == "POST" and b"id: " in first and first.endswith(b"data: ")
    return rest if is_priming and end else body


# -- listening


@web_mutant(
    "http.endpoint.single-post-get",
    also={"http.get.stream-or-405": "404 is neither a stream nor 405"},
)
def knows_no_get(web: Web) -> None:
    web.before = lambda asked: (404, {}, b"") if asked.verb == "GET" else None


@web_mutant("http.get.stream-or-405")
def greets_whoever_gets(web: Web) -> None:
    web.before = lambda asked: (200, JSON, b"{}") if asked.verb == "GET" else None


def also_says(web: Web, data: bytes) -> None:
    """Let every stream of a GET begin with a message."""

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if asked.verb == "GET" and is_stream(headers) and "last-event-id" not in asked.headers:
            asked.headers["x-mutant"] = "begins"
        return status, headers

    def body(asked: Asked, body: bytes) -> bytes:
        is_first = asked.headers.pop("x-mutant", None) == "begins"
        return body + b"data: " + data + b"\n\n" if is_first else body

    web.head = head
    web.body = body


@web_mutant("http.get.no-responses")
def answers_on_the_get_stream(web: Web) -> None:
    also_says(web, b'{"jsonrpc":"2.0","id":1,"result":{}}')


@web_mutant("http.streams.no-broadcast")
def tells_everybody(web: Web) -> None:
    also_says(web, b'{"jsonrpc":"2.0","method":"notifications/roots/hello"}')


WIRE = ("http.get.unrelated-messages", "http.post.related-requests-on-stream", "progress")


@web_mutant("http.get.unrelated-messages", only=WIRE)
def reports_progress_to_listeners(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        listener = web.listening.get(asked.headers.get("mcp-session-id", ""))
        is_first = b'"progress":1,' in event.data and asked.tool == "look"
        if asked.verb == "GET" or listener is None or not is_first:
            return [event]
        listener(event.data)
        return []

    web.event = event


@web_mutant("http.post.related-requests-on-stream", only=WIRE)
def mixes_streams_up(web: Web) -> None:
    """The stream of one call stays open until it has carried a message of another."""
    begun: dict[str, asyncio.Future[bytes]] = {}

    async def last(asked: Asked, send: Send) -> None:
        if asked.tool == "count":
            told = asyncio.get_running_loop().create_future()
            begun[asked.headers["mcp-session-id"]] = told
            with contextlib.suppress(TimeoutError):
                data = await asyncio.wait_for(told, 0.3)
                event = {"type": "http.response.body", "body": data, "more_body": True}
                await send(event)

    def before(asked: Asked) -> None:
        meta = asked.message["params"].get("_meta") if asked.tool == "look" else None
        told = begun.pop(asked.headers["mcp-session-id"], None) if meta else None
        if told is not None and not told.done():
            params = {"progressToken": meta["progressToken"], "progress": 0.5}
            notice = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
            told.set_result(encode(json.dumps(notice).encode()))

    web.last = last
    web.before = before


@web_mutant("http.sse.event-id-unique")
def calls_each_last_event_the_end(web: Web) -> None:
    web.event = lambda asked, event: (
        [Event(event.data, id="the-end")] if event.id and is_answer(event) else [event]
    )


@web_mutant("http.sse.no-foreign-replay")
def replays_what_came_last(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.verb == "POST" and is_answer(event):
            web.shared["last"] = Event(event.data)
        elif "last-event-id" in asked.headers and "last" in web.shared:
            return [event, web.shared["last"]]
        return [event]

    web.event = event


@web_mutant("http.disconnect.not-cancel")
def gives_up_when_left_alone(web: Web) -> None:
    """Only what was answered in full is replayed."""
    answered: set[Any] = set()

    def event(asked: Asked, event: Event) -> list[Event]:
        id = json.loads(event.data).get("id")
        if asked.verb == "POST" and is_answer(event):
            answered.add(id)
        is_lost = asked.verb == "GET" and is_answer(event) and id in web.shared.get("left", ())
        return [] if is_lost else [event]

    def left(asked: Asked) -> None:
        if asked.method == "tools/call" and asked.message["id"] not in answered:
            web.shared.setdefault("left", set()).add(asked.message["id"])

    web.event = event
    web.left = left


# -- headers


@web_mutant("http.version-header.bad-400", of="before")
def takes_any_version(asked: Asked) -> None:
    if asked.headers.get("mcp-protocol-version") in ("1999-12-31", "accord-check"):
        asked.headers["mcp-protocol-version"] = "2025-06-18"


@web_mutant("http.version-header.default-2025-03-26", of="before")
def insists_on_a_version(asked: Asked) -> tuple[int, Headers, bytes] | None:
    is_named = "mcp-protocol-version" in asked.headers
    is_asked = asked.verb == "POST" and asked.method not in OPENING
    return (400, JSON, ERROR) if is_asked and not is_named else None


@web_mutant("http.origin.validated")
def welcomes_every_origin(web: Web) -> None:
    def before(asked: Asked) -> None:
        asked.headers.pop("origin", None)

    web.before = before


@web_mutant("http.origin.validated", revision="2024-11-05", form="sse")
def welcomes_every_origin_to_its_stream(web: Web) -> None:
    welcomes_every_origin(web)


@web_mutant("http.origin.invalid-403", revision="2025-11-25")
def calls_a_foreign_origin_a_bad_request(web: Web) -> None:
    web.head = lambda asked, status, headers: (400 if status == 403 else status, headers)


if own_addresses() or listening_addresses(0) is not None:

    @web_mutant("http.server.bind-localhost", host="0.0.0.0")
    def listens_everywhere(web: Web) -> None:
        pass

else:
    unbreakable("this machine has no address but loopback", "http.server.bind-localhost")


@web_mutant("lifecycle.shutdown.http-close", only=["lifecycle.shutdown.http-close"])
def needs_a_farewell(web: Web) -> None:
    """Has room for two sessions, and keeps what was only closed."""

    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        kept = web.shared.get("kept", 0)
        if asked.method == "initialize" and kept == 2:
            return 503, JSON, ERROR
        web.shared["kept"] = kept + (asked.method == "initialize") - (asked.verb == "DELETE")
        return None

    web.before = before


# -- sessions


def renamed(web: Web, name: Any) -> None:
    """Give sessions other ids than the server does."""
    given: dict[str, str] = {}

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if "mcp-session-id" in headers:
            own = headers["mcp-session-id"]
            shown = next((key for key, value in given.items() if value == own), None) or name(own)
            given[shown] = own
            headers["mcp-session-id"] = shown
        return status, headers

    def before(asked: Asked) -> None:
        shown = asked.headers.get("mcp-session-id")
        if shown in given:
            asked.headers["mcp-session-id"] = given[shown]

    web.head = head
    web.before = before


@web_mutant("session.id.secure")
def counts_sessions(web: Web) -> None:
    numbers = count(1)
    renamed(web, lambda own: f"session-{next(numbers):08}")


@web_mutant("session.id.visible-ascii")
def puts_spaces_into_session_ids(web: Web) -> None:
    renamed(web, lambda own: f"{own[:8]} {own[8:]}")


@web_mutant("session.id.missing-400", of="head")
def calls_a_missing_session_not_found(asked: Asked, status: int, headers: Headers) -> Head:
    is_nameless = "mcp-session-id" not in asked.headers and asked.method == "ping"
    return (404 if is_nameless else status), headers


@web_mutant("session.end.terminated-404", of="head")
def calls_an_ended_session_a_bad_request(asked: Asked, status: int, headers: Headers) -> Head:
    return (400 if status == 404 and asked.verb == "POST" else status), headers


# -- HTTP with SSE


@web_mutant("sse.connect.endpoint-event", revision="2024-11-05", form="sse")
def says_hello_first(web: Web) -> None:
    web.event = lambda asked, event: (
        [Event(b"hello", "hello"), event] if event.name == "endpoint" else [event]
    )


@web_mutant("sse.endpoint.post", revision="2024-11-05", form="sse")
def frowns_at_pings(web: Web) -> None:
    web.head = lambda asked, status, headers: (500 if asked.method == "ping" else status, headers)


@web_mutant("sse.server.message-event", revision="2024-11-05", form="sse")
def names_events_after_methods(web: Web) -> None:
    notice = Event(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}', "notice")
    web.event = lambda asked, event: [notice, event] if event.data.startswith(b"{") else [event]


@web_mutant("sse.server.event-data-json", revision="2024-11-05", form="sse")
def sends_messages_that_are_no_json(web: Web) -> None:
    web.event = lambda asked, event: (
        [Event(b"hello"), event] if event.name == "message" else [event]
    )


unbreakable(
    "a permission",
    "http.post.stream-messages-before-response",
    "http.get.server-messages",
    "http.server.sse-optional",
    "session.id.assigned-at-initialize",
    "session.end.server-may-terminate",
)
