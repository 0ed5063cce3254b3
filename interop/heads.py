"""What HTTP itself shows of the rules: heads, statuses and streams, judged without our bindings.

A monitor judges messages; this judges what carried them, for the requirements that only a look at
whole HTTP exchanges can settle.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urljoin

from tap import Exchange

from accord.protocol.violation import Violation

SESSION: Final = "mcp-session-id"
VERSION: Final = "mcp-protocol-version"
JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
MODERN: Final = "2026-07-28"
# What the head of a request names: the name of a tool or prompt, the URI of a resource.
NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# What an error means for the status.
STATUSES: Final = {
    -32601: (404, "http.method-not-found.404"),
    -32020: (400, "http.headers.mismatch-rejected"),
    -32022: (400, "http.version-header.unsupported-400"),
}


def judge_heads(exchanges: list[Exchange], agreed: str) -> list[Violation]:
    """Return every breach, of either party."""
    if any(each.transport == "sse" for each in exchanges):
        return list(_older(exchanges))
    if agreed == MODERN:
        return [breach for each in exchanges for breach in _alone(each)]
    ours = [each for each in exchanges if each.method in ("POST", "GET", "DELETE")]
    cancelled = {
        repr(each["params"]["requestId"])
        for exchange in ours
        for each in messages(exchange.sent)
        if each.get("method") == "notifications/cancelled"
    }
    found = [breach for each in ours for breach in _judge(each, agreed, cancelled)]
    return [*found, *_sessions(ours), *_streams(ours)]


def _alone(exchange: Exchange) -> Iterator[Violation]:
    """Judge a request that stands on its own: its head repeats what its body says."""
    if exchange.method != "POST":
        return
    what = f"POST {_names(exchange)}".strip()
    if not (_accepts(exchange, JSON) and _accepts(exchange, EVENTS)):
        yield _client("http.client.accept-both", f"sends {what} without both in Accept")
    for message in requests(exchange.sent):
        params = message.get("params") or {}
        named = params.get("_meta", {}).get("io.modelcontextprotocol/protocolVersion")
        if message["method"] == "initialize" or named is None:
            continue  # an attempt to open a conversation
        if exchange.headers.get(VERSION) != named:
            yield _client("http.version-header.matches-meta", f"sends {what} with another version")
        if exchange.headers.get("mcp-method") != message["method"]:
            yield _client("http.headers.mcp-method", f"sends {what} without its method in the head")
        name = params.get(NAMED.get(message["method"], ""))
        if name is not None and exchange.headers.get("mcp-name") != name:
            yield _client("http.headers.mcp-name", f"sends {what} without its name in the head")
    for answer in responses(exchange.answer):
        code = answer.get("error", {}).get("code")
        status, requirement = STATUSES.get(code, (exchange.status, ""))
        if exchange.status != status:
            yield _server(requirement, f"answers {what} with {exchange.status} for {code}")


def messages(told: Any) -> list[dict[str, Any]]:
    """Return the messages of a body: one, a batch, or none."""
    return told if isinstance(told, list) else [] if told is None else [told]


def requests(told: Any) -> list[dict[str, Any]]:
    """Return the requests of a body."""
    return [each for each in messages(told) if "method" in each and "id" in each]


def responses(told: Any) -> list[dict[str, Any]]:
    """Return the responses of a body."""
    return [each for each in messages(told) if "method" not in each]


def is_opening(exchange: Exchange) -> bool:
    """Whether a request opens a conversation, or asks how that is done."""
    names = {each.get("method") for each in messages(exchange.sent)}
    return bool(names & {"initialize", "server/discover"})


def _accepts(exchange: Exchange, kind: str) -> bool:
    return kind in exchange.headers.get("accept", "")


def _client(requirement: str, why: str) -> Violation:
    return Violation(requirement, "client", why)


def _server(requirement: str, why: str) -> Violation:
    return Violation(requirement, "server", why)


def _judge(exchange: Exchange, agreed: str, cancelled: set[str]) -> Iterator[Violation]:
    what = f"{exchange.method} {_names(exchange)}".strip()
    if exchange.method == "POST":
        if not (_accepts(exchange, JSON) and _accepts(exchange, EVENTS)):
            yield _client("http.client.accept-both", f"sends {what} without both in Accept")
        yield from _judge_answer(exchange, what, cancelled)
    elif exchange.method == "GET":
        if not _accepts(exchange, EVENTS):
            yield _client("http.get.accept-event-stream", f"sends {what} without it in Accept")
        # A session that has ended, or a head that is refused, is another matter.
        if exchange.status in (200, 405) and (exchange.status == 200) is not exchange.is_stream:
            yield _server("http.get.stream-or-405", f"answers {what} with {exchange.status}")
        is_resumed = "last-event-id" in exchange.headers
        answers = [each for event in exchange.events for each in responses(_data(event))]
        if answers and not is_resumed:
            yield _server("http.get.no-responses", "sends a response on a GET stream")
    if agreed >= "2025-06-18" and not is_opening(exchange):
        named = exchange.headers.get(VERSION)
        if named != agreed:
            why = f"sends {what} with {VERSION}: {named} under {agreed}"
            yield _client("http.client.protocol-version-header", why)


def _judge_answer(exchange: Exchange, what: str, cancelled: set[str]) -> Iterator[Violation]:
    status = exchange.status
    if status is None or status >= 400:
        return
    asked = requests(exchange.sent)
    owed = {repr(each["id"]) for each in asked} - cancelled
    kind = exchange.answer_headers.get("content-type", "").partition(";")[0]
    if not asked:
        if status != 202 or exchange.answer is not None or exchange.is_stream:
            yield _server("http.post.accepted-202", f"answers {what} with {status} {kind}")
        return
    if owed and kind not in (JSON, EVENTS):
        yield _server("http.post.response-content-type", f"answers {what} with {kind or 'none'}")
    if not exchange.is_stream:
        return
    given = [repr(each.get("id")) for event in exchange.events for each in responses(_data(event))]
    if exchange.is_complete and not exchange.was_cut and owed - set(given):
        yield _server("http.sse.not-closed-before-response", f"ends the stream of {what} early")


def _sessions(exchanges: list[Exchange]) -> Iterator[Violation]:
    given: str | None = None
    for exchange in exchanges:
        is_within = given is not None and not is_opening(exchange)
        if is_within and exchange.headers.get(SESSION) != given:
            what = f"{exchange.method} {_names(exchange)}"
            yield _client("session.id.client-echo", f"sends {what} without the session's id")
        named = exchange.answer_headers.get(SESSION)
        if named is not None and is_opening(exchange):
            given = named
            if not named or not all("\x21" <= letter <= "\x7e" for letter in named):
                yield _server("session.id.visible-ascii", "gives an id that is not visible ASCII")
    if given is not None and not any(each.method == "DELETE" for each in exchanges):
        yield _client("session.end.client-delete", "ends without a DELETE")


def _streams(exchanges: list[Exchange]) -> Iterator[Violation]:
    streams = [each for each in exchanges if each.is_stream]
    ids = Counter(
        event.id
        for stream in streams
        if "last-event-id" not in stream.headers
        for event in stream.events
        if event.id is not None
    )
    for id, times in ids.items():
        if times > 1:
            yield _server("http.sse.event-id-unique", f"gives the event id {id} {times} times")
    seen: dict[str, int] = {}
    for stream in streams:
        for event in stream.events:
            for each in messages(_data(event)):
                if "method" in each and "id" in each:
                    key = f"{each['id']!r}"
                    if seen.setdefault(key, stream.number) != stream.number:
                        yield _server("http.streams.no-broadcast", f"asks {key} on two streams")


def _older(exchanges: list[Exchange]) -> Iterator[Violation]:
    """Judge the form with two endpoints."""
    place: str | None = None
    for exchange in exchanges:
        if exchange.method == "GET" and exchange.is_stream:
            first = exchange.events[0] if exchange.events else None
            if first is None or first.name != "endpoint":
                yield _server("sse.connect.endpoint-event", "does not begin with it")
                continue
            place = urljoin(exchange.target, str(first.data))
            if any(event.name not in ("endpoint", "message") for event in exchange.events):
                yield _server("sse.server.message-event", "sends events of another name")
        elif exchange.method == "POST" and place not in (None, exchange.target):
            why = f"posts to {exchange.target}, not to {place}"
            yield _client("sse.client.posts-to-endpoint", why)


def _data(event: Any) -> Any:
    return event.data if event.name == "message" else None


def _names(exchange: Exchange) -> str:
    return ", ".join(str(each.get("method", "a response")) for each in messages(exchange.sent))
