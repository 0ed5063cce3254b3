"""Servers that are wrong over Streamable HTTP in further ways: statuses, types, streams."""

import asyncio
import json
from itertools import count
from typing import Any

from accord.http.rules.sse import Event
from check.faults import faults, hook_maker
from check.mutants.between_http import OPENING, Asked, Head, Headers, Send, Web, web_mutant
from check.mutants.foundation import few
from check.mutants.over_http import (
    ERROR,
    JSON,
    WIRE,
    also_says,
    closes_streams_early,
    is_answer,
    is_stream,
)

NEWER = "2025-11-25"
MIDDLE = "2025-03-26"


# -- what needs no answer


@web_mutant("http.post.accepted-202", revision=MIDDLE, of="head")
def has_no_content_for_cancellations(asked: Asked, status: int, headers: Headers) -> Head:
    is_meant = asked.method == "notifications/cancelled" and status == 202
    return (204 if is_meant else status), headers


@web_mutant("http.post.accepted-202", revision=NEWER, of="head")
def opens_a_stream_for_notifications(asked: Asked, status: int, headers: Headers) -> Head:
    if status == 202 and asked.method.startswith("notifications/"):
        return 200, {**headers, "content-type": "text/event-stream"}
    return status, headers


@web_mutant("http.post.refused-status", revision=MIDDLE, of="before")
def refuses_responses_with_ok(asked: Asked) -> tuple[int, Headers, bytes] | None:
    is_response = isinstance(asked.message, dict) and "result" in asked.message
    return (200, JSON, ERROR) if is_response else None


@web_mutant("http.post.refused-status", revision=NEWER)
def accepts_and_refuses(web: Web) -> None:
    web.before = lambda asked: (
        (202, JSON, ERROR) if asked.method == "notifications/cancelled" else None
    )


# -- requests


def typed(web: Web, method: str, content_type: str | None) -> None:
    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if asked.method == method and status == 200 and not is_stream(headers):
            headers.pop("content-type", None)
            if content_type is not None:
                headers["content-type"] = content_type
        return status, headers

    web.head = head


@web_mutant("http.post.response-content-type", revision=MIDDLE)
def names_no_content_type(web: Web) -> None:
    typed(web, "ping", None)


@web_mutant("http.post.response-content-type", revision=NEWER)
def calls_lists_lines_of_json(web: Web) -> None:
    typed(web, "tools/list", "application/x-ndjson")


@web_mutant("http.post.stream-one-response-per-request", revision=NEWER, of="event")
def answers_a_request_that_nobody_made(asked: Asked, event: Event) -> list[Event]:
    if asked.tool == "count" and is_answer(event):
        stray = json.loads(event.data) | {"id": "nobody"}
        return [Event(json.dumps(stray).encode(), id=f"{event.id}-0"), event]
    return [event]


@web_mutant("http.post.stream-one-response-per-request", revision=MIDDLE)
def answers_a_call_on_the_stream_of_another(web: Web) -> None:
    """The answer to one call comes once more at the end of the next stream."""

    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.verb != "POST" or not is_answer(event):
            return [event]
        before = web.shared.get("answer")
        web.shared["answer"] = event
        return [event] if before is None else [Event(before.data, id=f"{event.id}-0"), event]

    web.event = event


def held_open(web: Web, is_meant: Any) -> None:
    async def last(asked: Asked, send: Send) -> None:
        if is_meant(asked):
            await asyncio.sleep(0.6)

    web.last = last


@web_mutant("http.sse.closed-after-response", revision=MIDDLE)
def keeps_the_streams_of_slow_calls(web: Web) -> None:
    held_open(web, lambda asked: asked.tool == "look")


@web_mutant("http.sse.closed-after-response", revision=MIDDLE)
def leaves_a_stream_open_the_second_time(web: Web) -> None:
    numbers = count(1)
    held_open(web, lambda asked: asked.tool == "count" and next(numbers) > 1)


@web_mutant("http.sse.terminate-after-response", revision=NEWER)
def keeps_streams_of_slow_calls(web: Web) -> None:
    held_open(web, lambda asked: asked.tool == "look")


@web_mutant("http.sse.terminate-after-response", revision=NEWER, of="last")
async def goes_on_with_comments_after_the_response(asked: Asked, send: Send) -> None:
    for _ in range(6 if asked.tool == "count" else 0):
        await asyncio.sleep(0.1)
        await send({"type": "http.response.body", "body": b": still here\n\n", "more_body": True})


def early(web: Web, tool: str) -> None:
    """Let the stream of a tool end without its answer."""

    def is_odd(asked: Asked) -> bool:
        return asked.tool == tool and "_meta" in asked.message["params"]

    web.event = lambda asked, event: [] if is_odd(asked) and is_answer(event) else [event]


@web_mutant("http.sse.not-closed-before-response", revision=MIDDLE, only=["http.sse"])
def ends_streams_after_progress(web: Web) -> None:
    early(web, "count")


@web_mutant("http.sse.not-closed-before-response", only=["http.sse"])
def ends_slow_streams_after_progress(web: Web) -> None:
    early(web, "look")


@web_mutant("http.sse.retry-before-close", revision=NEWER, only=["http.sse"])
def ends_streams_after_progress_without_a_word(web: Web) -> None:
    early(web, "count")
    web.body = lambda asked, body: body.replace(b"retry: ", b"later: ")


@web_mutant("http.sse.retry-before-close", revision=NEWER, only=["http.sse"])
def says_later_in_words(web: Web) -> None:
    closes_streams_early(web)
    web.body = lambda asked, body: body.replace(b"retry: ", b"retry: soon ")


@hook_maker
def primed(web: Web, change: Any) -> None:
    """Change the first event of streams, which has an id and no data."""

    def body(asked: Asked, body: bytes) -> bytes:
        first, end, rest = body.partition(b"\n\n")
        is_priming = asked.verb == "POST" and b"id: " in first and first.endswith(b"data: ")
        return change(first) + end + rest if is_priming and end else body

    web.body = body


faults(
    web_mutant("http.sse.priming-event", revision=NEWER),
    primes_without_an_id=primed(lambda first: b": hello"),
    primes_with_a_retry_alone=primed(lambda first: b"retry: 1000"),
)


# -- listening


@web_mutant(
    "http.endpoint.single-post-get",
    revision=MIDDLE,
    also={"http.get.stream-or-405": "404 is neither a stream nor 405"},
    of="before",
)
def sends_listeners_to_another_path(asked: Asked) -> tuple[int, Headers, bytes] | None:
    if asked.verb == "GET":
        return 404, {"content-type": "text/plain"}, b"listen at /events"
    return None


@web_mutant("http.get.stream-or-405", revision=MIDDLE)
def calls_get_a_bad_request(web: Web) -> None:
    web.before = lambda asked: (400, JSON, ERROR) if asked.verb == "GET" else None


@web_mutant("http.get.stream-or-405", revision=NEWER)
def shows_a_page_to_listeners(web: Web) -> None:
    page = {"content-type": "text/html"}
    web.before = lambda asked: (200, page, b"<h1>MCP</h1>") if asked.verb == "GET" else None


@web_mutant("http.get.stream-or-405")
def falls_over_when_somebody_listens(web: Web) -> None:
    web.before = lambda asked: (500, {}, b"") if asked.verb == "GET" else None


@web_mutant("http.get.no-responses", revision=MIDDLE)
def refuses_something_on_the_get_stream(web: Web) -> None:
    also_says(web, ERROR)


@web_mutant("http.get.no-responses", revision=NEWER)
def answers_calls_to_listeners_too(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        listener = web.listening.get(asked.headers.get("mcp-session-id", ""))
        if asked.verb == "POST" and is_answer(event) and listener is not None:
            listener(event.data)
        return [event]

    web.event = event


def to_listeners(web: Web, is_meant: Any) -> None:
    """Let what comes on the stream of a call come on the GET stream as well."""

    def event(asked: Asked, event: Event) -> list[Event]:
        listener = web.listening.get(asked.headers.get("mcp-session-id", ""))
        if asked.verb == "POST" and is_meant(event.data) and listener is not None:
            listener(event.data)
        return [event]

    web.event = event


@web_mutant("http.streams.no-broadcast", revision=MIDDLE)
def reports_progress_to_listeners_too(web: Web) -> None:
    to_listeners(web, lambda data: b"notifications/progress" in data)


@web_mutant("http.streams.no-broadcast", revision=NEWER)
def logs_to_listeners_too(web: Web) -> None:
    to_listeners(web, lambda data: b"notifications/message" in data)


@web_mutant("http.get.unrelated-messages", only=WIRE, revision=MIDDLE)
def reports_later_progress_to_listeners(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        listener = web.listening.get(asked.headers.get("mcp-session-id", ""))
        is_meant = b'"progress":4,' in event.data and asked.tool == "look"
        if asked.verb == "GET" or listener is None or not is_meant:
            return [event]
        listener(event.data)
        return []

    web.event = event


# -- events and their ids


@web_mutant("http.sse.event-id-unique", revision=MIDDLE)
def numbers_events_on_each_stream(web: Web) -> None:
    numbers: dict[int, Any] = {}

    def event(asked: Asked, event: Event) -> list[Event]:
        if event.id is None:
            return [event]
        number = next(numbers.setdefault(id(asked), count(1)))
        web.shared.setdefault("kept", []).append(asked)
        return [Event(event.data, event.name, str(number))]

    web.event = event


@web_mutant("http.sse.event-id-unique", revision=NEWER)
def uses_an_event_id_twice_on_one_stream(web: Web) -> None:
    web.event = lambda asked, event: (
        [Event(event.data, id=f"call-{asked.message['id']}")]
        if event.id and asked.tool == "count"
        else [event]
    )


@web_mutant("http.sse.no-foreign-replay", revision=MIDDLE)
def replays_all_that_it_ever_said(web: Web) -> None:
    said: list[Event] = []

    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.verb == "POST" and is_answer(event):
            said.append(Event(event.data))
        elif "last-event-id" in asked.headers and said:
            return [event, *said[-4:]]
        return [event]

    web.event = event


@web_mutant("http.sse.no-foreign-replay", revision=NEWER)
def replays_progress_of_other_calls(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.verb == "POST" and b"notifications/progress" in event.data:
            web.shared["last"] = Event(event.data)
        elif "last-event-id" in asked.headers and "last" in web.shared:
            return [event, web.shared["last"]]
        return [event]

    web.event = event


@web_mutant("http.disconnect.not-cancel", revision=MIDDLE)
def forgets_calls_that_are_left(web: Web) -> None:
    def left(asked: Asked) -> None:
        if asked.method == "tools/call":
            web.shared["left"] = asked.message["id"]

    def event(asked: Asked, event: Event) -> list[Event]:
        id = json.loads(event.data).get("id")
        is_lost = asked.verb == "GET" and is_answer(event) and id == web.shared.get("left")
        return [] if is_lost and web.shared.get("done") != id else [event]

    def body(asked: Asked, body: bytes) -> bytes:
        if asked.method == "tools/call" and b'"result"' in body:
            web.shared["done"] = asked.message["id"]
        return body

    web.left = left
    web.event = event
    web.body = body


# -- the version header


def versions(web: Web, is_taken: Any) -> None:
    def before(asked: Asked) -> None:
        version = asked.headers.get("mcp-protocol-version")
        if version in ("1999-12-31", "accord-check") and is_taken(asked, version):
            asked.headers["mcp-protocol-version"] = "2025-06-18"

    web.before = before


@web_mutant("http.version-header.bad-400")
def takes_any_version_that_looks_like_a_date(web: Web) -> None:
    versions(web, lambda asked, version: version[:1].isdigit())


@web_mutant("http.version-header.bad-400", revision=NEWER)
def takes_any_version_of_listeners(web: Web) -> None:
    versions(web, lambda asked, version: asked.verb == "GET")


@web_mutant("http.version-header.bad-400", revision=NEWER, of="head")
def calls_a_bad_version_unprocessable(asked: Asked, status: int, headers: Headers) -> Head:
    is_bad = asked.headers.get("mcp-protocol-version") == "accord-check"
    return (422 if is_bad and status == 400 else status), headers


@hook_maker
def unnamed(web: Web, status: int) -> None:
    def before(asked: Asked) -> tuple[int, Headers, bytes] | None:
        is_named = "mcp-protocol-version" in asked.headers
        is_asked = asked.verb == "POST" and asked.method not in OPENING
        return (status, JSON, ERROR) if is_asked and not is_named else None

    web.before = before


faults(
    web_mutant("http.version-header.default-2025-03-26", revision=NEWER),
    demands_a_version=unnamed(426),
    falls_over_without_a_version=unnamed(500),
)


@web_mutant(
    "http.sse.event-id-names-stream",
    revision=NEWER,
    also={"http.sse.no-foreign-replay": "what it replays belongs to the other stream"},
)
def replays_the_stream_that_was_last(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.verb == "POST" and is_answer(event):
            web.shared["last"] = Event(event.data)
        elif "last-event-id" in asked.headers and "last" in web.shared:
            return [web.shared["last"]] if is_answer(event) else []
        return [event]

    web.event = event


few(
    "a server that cannot tell replays another stream, or nothing",
    "http.sse.event-id-names-stream",
)
few("a path takes GET or does not", "http.endpoint.single-post-get")
few("what a client left is lost, at once or later", "http.disconnect.not-cancel")
few(
    "only progress names the request that it belongs to",
    "http.get.unrelated-messages",
    "http.post.related-requests-on-stream",
)
