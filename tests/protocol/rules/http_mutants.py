"""Recorded sessions with one fault each: the requirement that is broken, and how."""

from collections.abc import Callable
from typing import Any

import msgspec

from protocol.rules.http_sessions import (
    CALLED,
    EVENTS,
    JSON,
    PROGRESS,
    STATELESS,
    Session,
    add,
    all_of,
    drop,
    error,
    header,
    initialize,
    notice,
    put,
    request,
    result,
    resumed,
    stateless,
    streamable,
)

SIXTH, ELEVENTH, THIRD = "2025-06-18", "2025-11-25", "2025-03-26"
ACCEPT = f"{JSON}, {EVENTS}"


class Mutant(msgspec.Struct, frozen=True):
    """One fault of a session, and the requirement under which it is found."""

    requirement: str
    name: str
    revision: str
    session: Callable[[], Session]
    spoil: Callable[[Session], None]
    also: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.requirement}-{self.name}-{self.revision}"


MUTANTS: list[Mutant] = []


def mutants(
    requirement: str,
    revision: str,
    ways: dict[str, Callable[[Session], None]],
    session: Callable[[str], Session] = streamable,
    *also: str,
) -> None:
    """Register the ways to break one requirement in one session."""

    def make() -> Session:
        return session(revision)

    for name, spoil in ways.items():
        MUTANTS.append(Mutant(requirement, name, revision, make, spoil, frozenset(also)))


def _stateless(_: str) -> Session:
    return stateless()


def _without_session(revision: str) -> Session:
    return streamable(revision, session=None)


def silent_get(revision: str) -> Callable[[Session], None]:
    """Take the events of the GET stream away."""
    return drop("get-change", *(["get-prime"] if revision == ELEVENTH else []))


def rename_session(id: str) -> Callable[[Session], None]:
    """Give the session another id, in both directions."""

    def spoil(session: Session) -> None:
        for label, record in session.items():
            if record.http is not None and "mcp-session-id" in record.http.headers:
                header(label, "mcp-session-id", id)(session)

    return spoil


# -- what clients send

for _revision in (THIRD, SIXTH, ELEVENTH):
    mutants(
        "http.client.accept-both",
        _revision,
        {
            "missing": header("list", "accept", None),
            "json alone": header("call", "accept", JSON),
            "any": header("ping", "accept", "*/*"),
            "only of a notification": header("ready", "accept", EVENTS),
        },
    )
    mutants(
        "http.get.accept-event-stream",
        _revision,
        {
            "missing": header("get", "accept", None),
            "json": header("get", "accept", JSON),
            "any": header("get", "accept", "*/*"),
        },
    )
    mutants(
        "session.id.client-echo",
        _revision,
        {
            "missing": header("list", "mcp-session-id", None),
            "missing in a notification": header("ready", "mcp-session-id", None),
            "missing in the GET": header("get", "mcp-session-id", None),
            "missing in the DELETE": all_of(
                header("delete", "mcp-session-id", None), drop("late", "late-answer")
            ),
            "another": header("call", "mcp-session-id", "s-2"),
            "empty": header("ping", "mcp-session-id", ""),
        },
    )
    mutants(
        "http.client.post-messages",
        _revision,
        {
            "put": put("list", method="PUT"),
            "get with a body": put("ping", method="GET"),
            "another path": put("call", path="/mcp/call"),
            "a notification": put("ready", method="PATCH"),
        },
    )

for _revision in (SIXTH, ELEVENTH):
    mutants(
        "http.client.protocol-version-header",
        _revision,
        {
            "missing": header("list", "mcp-protocol-version", None),
            "missing at first": header("ready", "mcp-protocol-version", None),
            "missing in the GET": header("get", "mcp-protocol-version", None),
            "missing in the DELETE": header("delete", "mcp-protocol-version", None),
            "another revision": header("ping", "mcp-protocol-version", "2024-11-05"),
            "empty": all_of(
                header("call", "mcp-protocol-version", ""),
                put("call-answer", status=400, headers={}, size=0),
                drop("call-progress", "call-result", "call-end"),
                *([drop("call-prime")] if _revision == ELEVENTH else []),
            ),
        },
    )

mutants(
    "http.post.body-message-or-batch",
    THIRD,
    {
        "nothing": put("ping", message=None, size=0),
        "text": put("ping", message=None, raw="ping!"),
        "a figure": put("ping", message=7),
        "no messages": put("ping", message=[]),
    },
    streamable,
)
mutants(
    "http.post.each-message",
    STATELESS,
    {
        "nothing": put("again", message=None, size=0),
        "put": put("again", method="PUT"),
        "get with a body": put("list", method="GET"),
    },
    _stateless,
)


def _lost(revision: str) -> Session:
    session = streamable(revision)
    drop("delete", "delete-answer", "late", "late-answer")(session)
    for label, message in (("a", request(5, "ping")), ("b", request(6, "ping"))):
        last = list(session)[-1]
        add(last, "ping", label, exchange=label, stream=label, message=message)(session)
        lost: dict[str, Any] = {"exchange": label, "stream": label, "status": 404, "headers": {}}
        add(label, "ping-answer", f"{label}-answer", **lost, message=None, size=0)(session)
    return session


mutants(
    "http.session.client-restarts-on-404",
    SIXTH,
    {
        "goes on": add("b-answer", "ping", exchange="c", stream="c", message=request(7, "ping")),
        "goes on without the id": all_of(
            add("b-answer", "ping", exchange="c", stream="c", message=request(7, "ping")),
            header("added", "mcp-session-id", None),
        ),
        "begins with the old id": add(
            "b-answer",
            "ping",
            exchange="c",
            stream="c",
            message={**initialize(SIXTH), "id": 8},
        ),
        "listens": add("b-answer", "get", exchange="c", stream="c"),
    },
    _lost,
)

# -- resumption


def _with_foreign_event(revision: str) -> Session:
    """A resumed session in which another request was answered on a stream of its own."""
    session = resumed(revision)
    add("other-answer", "call-progress", "other-event", message=result(5), exchange="other")(
        session
    )
    put("other-answer", message=None, headers={"content-type": EVENTS}, size=None)(session)
    put("other-event", id="x-1", stream="other-stream", retry=None)(session)
    if revision == ELEVENTH:
        add("other-answer", "call-prime", "other-prime", exchange="other")(session)
        put("other-prime", id="x-0", stream="other-stream")(session)
    return session


for _revision in (THIRD, SIXTH, ELEVENTH):
    mutants(
        "http.sse.resume-header",
        _revision,
        {
            "in a POST": header("ping", "last-event-id", "c-1"),
            "never sent": header("get", "last-event-id", "c-77"),
            "empty": header("get", "last-event-id", ""),
        },
        resumed,
    )
    mutants(
        "http.sse.event-id-unique",
        _revision,
        {
            "twice on a stream": put("call-result", id="c-1"),
            "on two streams": put("call-progress", id="g-1"),
            "all alike": all_of(
                put("get-change", id="0"), put("call-progress", id="0"), put("call-result", id="0")
            ),
        },
    )
    mutants(
        "http.sse.no-foreign-replay",
        _revision,
        {
            "another answer": put("get-result", message=result(5)),
            "another event": put("get-result", id="x-1"),
            "an answer after its own": add("get-result", "get-result", message=result(5), id="c-9"),
        },
        _with_foreign_event,
    )


mutants(
    "http.sse.client-honours-retry",
    ELEVENTH,
    {
        "asked for longer": put("call-progress", retry=60_000),
        "at once": put("get", t=0.13),
        "by the last field": add("call-progress", "call-prime", "late-retry", id="c-1", retry=9000),
    },
    resumed,
    "http.sse.event-id-unique",
)

# -- what servers answer

for _revision in (THIRD, SIXTH, ELEVENTH):
    mutants(
        "http.post.accepted-202",
        _revision,
        {
            "200": put("ready-answer", status=200),
            "204": put("ready-answer", status=204),
            "a body": put("ready-answer", size=2),
            "a stated length": header("ready-answer", "content-length", "17"),
            "for a response": all_of(
                put("ready", message=result("x")), put("ready-answer", status=200)
            ),
        },
        streamable,
    )
    mutants(
        "http.post.refused-status",
        _revision,
        {
            "200": put("ready-answer", status=200, message=error(None, -32600), size=9),
            "202": put("ready-answer", message=error(None, -32600), size=9),
            "a stream": all_of(
                put("ready-answer", status=200, headers={"content-type": EVENTS}),
                add("ready-answer", "get-change", exchange="ready", message=error(None, -32600)),
                put("added", method="POST", stream="ready-stream", id=None),
            ),
        },
        streamable,
        "http.post.accepted-202",
        "http.sse.priming-event",
    )
    mutants(
        "http.post.response-content-type",
        _revision,
        {
            "text": header("list-answer", "content-type", "text/plain"),
            "none": header("ping-answer", "content-type", None),
            "accepted": put("ping-answer", status=202, headers={}, message=None, size=0),
            "of another name": header("init-answer", "content-type", "application/json-rpc"),
        },
    )
    mutants(
        "http.get.stream-or-405",
        _revision,
        {
            "json": all_of(
                put("get-answer", headers={"content-type": JSON}),
                silent_get(_revision),
            ),
            "no content": all_of(
                put("get-answer", status=204, headers={}),
                silent_get(_revision),
            ),
            "accepted": all_of(
                put("get-answer", status=202, headers={}),
                silent_get(_revision),
            ),
        },
        _without_session,
    )
    mutants(
        "http.endpoint.single-post-get",
        _revision,
        {
            name: all_of(put("get-answer", status=status, headers={}), silent_get(_revision))
            for name, status in (("not found", 404), ("gone", 410), ("not implemented", 501))
        },
    )
    mutants(
        "http.get.no-responses",
        _revision,
        {
            "an answer": put("get-change", message=result(9)),
            "an error": put("get-change", message=error(9, -32603)),
            "the answer to a call": all_of(
                drop("call-result", "call-end"),
                add("call-progress", "get-change", message=CALLED, id="g-9"),
            ),
        },
        streamable,
        "http.post.stream-one-response-per-request",
    )
    mutants(
        "http.post.stream-one-response-per-request",
        _revision,
        {
            "on another stream": all_of(
                drop("list-answer"),
                add("call-progress", "call-progress", message=result(1, tools=[]), id="c-7"),
            ),
            "twice": add("call-progress", "call-result", id="c-8"),
            "in the body of another": all_of(
                drop("list-answer"),
                put("ping-answer", message=result(1, tools=[])),
            ),
        },
        streamable,
        "http.sse.closed-after-response",
        "http.sse.terminate-after-response",
    )
    mutants(
        "http.streams.no-broadcast",
        _revision,
        {
            "a request first heard by GET": all_of(
                add("get-change", "get-change", "one", message=request("q", "ping"), id="g-8"),
                add("call-progress", "call-progress", message=request("q", "ping"), id="c-9"),
            ),
            "a request": all_of(
                add(
                    "call-progress", "call-progress", "one", message=request("q", "ping"), id="c-9"
                ),
                add("one", "get-change", message=request("q", "ping"), id="g-9"),
            ),
            "progress": add("call-progress", "get-change", message=PROGRESS, id="g-9"),
        },
        streamable,
        "http.get.no-responses",
        "http.get.unrelated-messages",
    )
    mutants(
        "session.id.visible-ascii",
        _revision,
        {
            "a blank": rename_session("s 1"),
            "another script": rename_session("sé"),
            "a control character": rename_session("s\x07"),
            "masked": rename_session("masked-1 (not visible ASCII)"),
        },
    )
    mutants(
        "session.end.terminated-404",
        _revision,
        {
            "served": put(
                "late-answer", status=200, headers={"content-type": JSON}, message=result(4)
            ),
            "bad request": put("late-answer", status=400),
            "a notification": all_of(
                put("late", message=notice("roots/list_changed")), put("late-answer", status=202)
            ),
            "a stream": all_of(
                put("late", method="GET", message=None),
                header("late", "accept", EVENTS),
                put("late-answer", status=200, method="GET", headers={"content-type": EVENTS}),
            ),
        },
        streamable,
    )
    mutants(
        "session.id.missing-400",
        _revision,
        {
            name: all_of(
                header("ping", "mcp-session-id", None),
                put("ping-answer", status=status, headers={}, message=None, size=0),
            )
            for name, status in (("not found", 404), ("failed", 500), ("conflict", 409))
        },
        streamable,
        "session.id.client-echo",
    )
