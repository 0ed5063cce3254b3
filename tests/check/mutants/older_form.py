"""Servers that are wrong over HTTP with SSE, many so that no conversation can begin."""

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable
from typing import Any

from accord.http.rules.sse import Event
from check.faults import faults, hook, hook_maker
from check.mutants.between_http import Asked, Head, Headers, Hook, Send, Web, web_mutant

OLDEST = "2024-11-05"


def older(id: str, **settings: Any) -> Callable[[Hook], Hook]:
    """Register a server of the older form with a hook into all that passes."""
    return web_mutant(id, revision=OLDEST, form="sse", patience=1.0, **settings)


@hook_maker
def typed(web: Web, content_type: str | None) -> None:
    """Let the stream have another content type."""

    def head(asked: Asked, status: int, headers: Headers) -> Head:
        if asked.verb == "GET":
            del headers["content-type"]
            if content_type is not None:
                headers["content-type"] = content_type
        return status, headers

    web.head = head


faults(
    older("sse.endpoint.stream"),
    calls_its_stream_text=typed("text/plain; charset=utf-8"),
    does_not_name_the_type_of_its_stream=typed(None),
    calls_its_stream_json=typed("application/json"),
)


# -- the endpoint event


@hook_maker
def endpoint(web: Web, change: Callable[[Event], list[Event]]) -> None:
    """Let other events come in place of the one that names the endpoint."""
    web.event = lambda asked, event: change(event) if event.name == "endpoint" else [event]


faults(
    older("sse.connect.endpoint-event"),
    never_names_its_endpoint=endpoint(lambda event: []),
    names_the_event_after_its_content=endpoint(lambda event: [Event(event.data, "url")]),
    names_the_endpoint_in_a_message=endpoint(lambda event: [Event(event.data)]),
)


@older("sse.connect.endpoint-event")
def names_the_endpoint_in_an_object(web: Web) -> None:
    def change(event: Event) -> list[Event]:
        return [Event(json.dumps({"uri": event.data.decode()}).encode(), "endpoint")]

    endpoint(change)(web)


@older("sse.connect.endpoint-event")
def puts_the_endpoint_in_quotes(web: Web) -> None:
    endpoint(lambda event: [Event(b'"' + event.data + b'"', "endpoint")])(web)


@older("sse.connect.endpoint-event")
def greets_before_it_names_its_endpoint(web: Web) -> None:
    greeting = Event(b'{"jsonrpc":"2.0","method":"notifications/hello"}')
    endpoint(lambda event: [greeting, event])(web)


# -- posting


faults(
    older("sse.endpoint.post"),
    has_nothing_at_its_endpoint=hook(
        before=lambda asked: (404, {}, b"") if asked.verb == "POST" else None
    ),
    takes_no_post=hook(
        before=lambda asked: (405, {"allow": "PUT"}, b"") if asked.verb == "POST" else None
    ),
    refuses_what_needs_no_answer=hook(
        before=lambda asked: (400, {}, b"") if asked.method == "notifications/initialized" else None
    ),
)


# -- messages


@older("sse.server.message-event")
def names_all_its_events_response(web: Web) -> None:
    web.event = lambda asked, event: (
        [Event(event.data, "response")] if event.name == "message" else [event]
    )


@hook_maker
def in_the_body(web: Web, is_meant: Callable[[Asked], bool]) -> None:
    """Let answers come in the body of the POST, not on the stream."""
    answers: dict[Any, asyncio.Future[bytes]] = {}

    def before(asked: Asked) -> None:
        if isinstance(asked.message, dict) and "id" in asked.message and is_meant(asked):
            answers[asked.message["id"]] = asyncio.get_running_loop().create_future()

    def event(asked: Asked, event: Event) -> list[Event]:
        id = json.loads(event.data).get("id") if event.name == "message" else None
        if id not in answers:
            return [event]
        if not answers[id].done():
            answers[id].set_result(event.data)
        return []

    async def last(asked: Asked, send: Send) -> None:
        message = asked.message if isinstance(asked.message, dict) else {}
        answer = answers.get(message.get("id"))
        if answer is not None:
            with contextlib.suppress(TimeoutError):
                body = await asyncio.wait_for(answer, 1)
                await send({"type": "http.response.body", "body": body, "more_body": True})

    web.before = before
    web.event = event
    web.last = last


faults(older("sse.server.message-event"), answers_where_it_is_asked=in_the_body(lambda asked: True))


@older("sse.server.message-event", only=["sse"])
def answers_pings_where_it_is_asked(web: Web) -> None:
    in_the_body(lambda asked: asked.method == "ping")(web)


@hook_maker
def encoded(web: Web, change: Callable[[bytes], bytes], is_meant: Callable[[bytes], bool]) -> None:
    """Encode the data of messages in another way than JSON."""
    web.event = lambda asked, event: (
        [Event(change(event.data))] if event.name == "message" and is_meant(event.data) else [event]
    )


faults(
    older("sse.server.event-data-json"),
    encodes_messages_in_base64=encoded(base64.b64encode, lambda data: True),
    prints_messages_as_python_does=encoded(
        lambda data: str(json.loads(data)).encode(), lambda data: True
    ),
)


@older("sse.server.event-data-json", only=["sse"])
def cuts_long_messages_off(web: Web) -> None:
    encoded(lambda data: data[:100], lambda data: b'"tools"' in data and len(data) > 600)(web)
