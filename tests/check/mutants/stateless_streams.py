"""Servers that put messages on the wrong stream, over HTTP without a handshake."""

import json
from typing import Any

from accord.http.rules.sse import Event
from check.faults import faults, hook_maker
from check.mutants.between_http import Asked, Web
from check.mutants.everything import server as everything
from check.mutants.foundation import few, unbreakable
from check.mutants.over_http import is_answer
from check.mutants.stateless_http import is_streamed, meta, stateless

REQUESTS = "http.sse.no-requests"
RELATED = "http.sse.notifications-related"
LISTEN = "http.sse.listen-excludes-request-scoped"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LEVEL = "io.modelcontextprotocol/logLevel"


def message(method: str, params: dict[str, Any] | None = None, **members: Any) -> Event:
    made = {"jsonrpc": "2.0", "method": method} | members
    return Event(json.dumps(made if params is None else made | {"params": params}).encode())


@hook_maker
def before_answers(web: Web, extra: Any) -> None:
    """Let something else come on the stream of a call, before its answer."""

    def event(asked: Asked, event: Event) -> list[Event]:
        if not is_streamed(asked) or not is_answer(event):
            return [event]
        return [*extra(asked), event]

    web.event = event


faults(
    stateless(REQUESTS, only=[REQUESTS]),
    asks_for_roots_on_a_stream=before_answers(lambda asked: [message("roots/list", id="r-1")]),
    pings_on_a_stream=before_answers(lambda asked: [message("ping", id=1)]),
)


@stateless(REQUESTS, only=[REQUESTS])
def samples_on_a_stream(web: Web) -> None:
    params = {"messages": [], "maxTokens": 5}
    before_answers(lambda asked: [message("sampling/createMessage", params, id="s-1")])(web)


@stateless(RELATED, only=[RELATED], server=everything)
def reports_progress_of_one_call_on_the_stream_of_another(web: Web) -> None:
    running: list[Any] = []

    def before(asked: Asked) -> None:
        if asked.tool == "look" and "progressToken" in meta(asked):
            running.append(meta(asked)["progressToken"])
        if asked.tool == "find_suitcase":
            asked.headers["accept"] = "text/event-stream"

    def event(asked: Asked, event: Event) -> list[Event]:
        if asked.tool != "find_suitcase":
            return [event]
        stray = [{"progressToken": each, "progress": 0.5} for each in running]
        return [*(message("notifications/progress", each) for each in stray), event]

    web.before = before
    web.event = event


def notice(asked: Asked, web: Web, method: str, **params: Any) -> list[Event]:
    """Return what belongs on the last listen stream."""
    listen = web.shared.get("listen")
    if listen is None:
        return []
    return [message(method, {**params, "_meta": {SUBSCRIPTION: listen}})]


def remembering(web: Web) -> None:
    def before(asked: Asked) -> None:
        if asked.method == "subscriptions/listen":
            web.shared["listen"] = asked.message["id"]

    web.before = before


@stateless(RELATED, only=[RELATED])
def says_that_lists_changed_on_the_stream_of_a_call(web: Web) -> None:
    remembering(web)
    before_answers(lambda asked: notice(asked, web, "notifications/tools/list_changed"))(web)


@stateless(RELATED, only=[RELATED])
def says_that_prompts_changed_on_the_stream_of_a_call(web: Web) -> None:
    remembering(web)
    before_answers(lambda asked: notice(asked, web, "notifications/prompts/list_changed"))(web)


def to_listeners(web: Web, change: Any) -> None:
    """Let listeners hear of calls."""

    def event(asked: Asked, event: Event) -> list[Event]:
        if is_streamed(asked) and "" in web.listening:
            for each in change(asked, event):
                web.listening[""](each.data)
        return [event]

    web.event = event


@stateless(LISTEN, only=[LISTEN])
def tells_listeners_of_progress(web: Web) -> None:
    to_listeners(web, lambda asked, event: [] if is_answer(event) else [event])


@stateless(LISTEN, only=[LISTEN])
def logs_to_listeners(web: Web) -> None:
    log = message("notifications/message", {"level": "info", "data": "called"})
    to_listeners(web, lambda asked, event: [log] if is_answer(event) else [])


@stateless(LISTEN, only=[LISTEN])
def logs_to_listeners_what_calls_ask_for(web: Web) -> None:
    log = message("notifications/message", {"level": "info", "data": "called"})

    def change(asked: Asked, event: Event) -> list[Event]:
        return [log] if LEVEL in meta(asked) and is_answer(event) else []

    to_listeners(web, change)


@stateless(LISTEN, only=[LISTEN])
def reports_progress_to_listeners_alone(web: Web) -> None:
    def event(asked: Asked, event: Event) -> list[Event]:
        if not is_streamed(asked) or is_answer(event) or "" not in web.listening:
            return [event]
        web.listening[""](event.data)
        return []

    web.event = event


unbreakable(
    "nothing that a client can see depends on it",
    "http.cancel.disconnect-is-cancel",
    "http.cancel.stop-work",
)
unbreakable("a check does not wait until a stream counts as quiet", "http.sse.keepalive-comments")
few(
    "numbers are refused or not where they are equal",
    "http.headers.integers-compared-numerically",
)
few("only cursors and questions join two requests", "stateless.no-connection-affinity")
