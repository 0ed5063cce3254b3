"""Event streams over Streamable HTTP and HTTP with SSE: what they carry, ends, ids, resumption."""

from typing import Any, Final

import msgspec

from accord.protocol.codec import parse
from accord.protocol.jsonrpc import NOTIFICATION, REQUEST, Frame
from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http._rule import (
    END,
    EVENTS,
    LINK,
    METHOD,
    OLDER,
    PATH,
    STATUS,
    STREAM,
    asks,
    rule,
    says,
)
from accord.protocol.rules.http.exchanges import HttpState, Moment, RecordedExchange, as_object

_PROGRESS: Final = "notifications/progress"


def _is_post_stream(exchange: RecordedExchange) -> bool:
    return exchange.method == "POST" and exchange.request is not None and exchange.is_stream


# -- responses


@rule("http.post.stream-one-response-per-request", "message", needs=(LINK,))
def answer_is_on_the_stream_of_its_request(moment: Moment, state: HttpState) -> Outcome:
    exchange, id = moment.exchange, moment.answered_id
    if exchange.method != "POST" or not exchange.posted.requests or id is None:
        return None
    if id in exchange.posted.requests:
        is_first = id not in exchange.answered
        return is_first or f"answers id {id!r} twice on the stream of its request"
    if state.requests.get(id) is None:
        return None
    return f"answers id {id!r} on the stream of {exchange.title}, which is another request"


@rule("http.post.stream-one-response-per-request", "end", needs=(LINK, END))
def stream_ends_with_an_answer(moment: Moment, state: HttpState) -> Outcome:
    # Before 2025-11-25 this is http.sse.not-closed-before-response, and there it may be resumed.
    if state.revision.handshake or not _ends_early(moment, state):
        return None
    why = f"ends the stream of {moment.exchange.title} without an answer"
    state.suspects.append(("http.post.stream-one-response-per-request", why))
    return None


def _ends_early(moment: Moment, state: HttpState) -> bool:
    """Return whether the server ends a stream while a request waits that the client still wants."""
    exchange = moment.exchange
    if moment.facts.ended != "server" or not _is_post_stream(exchange):
        return False
    return any(id not in state.cancelled for id in exchange.open)


@rule("http.sse.not-closed-before-response", "end", needs=(LINK, END))
def stream_is_not_closed_before_the_answer(moment: Moment, state: HttpState) -> Outcome:
    if not _is_post_stream(moment.exchange):
        return None
    if not _ends_early(moment, state):
        return None if moment.exchange.open else True
    why = f"closes the stream of {moment.exchange.title} before the answer"
    state.suspects.append(("http.sse.not-closed-before-response", why))
    return None


@rule("http.sse.retry-before-close", "end", needs=(LINK, EVENTS, END))
def retry_is_sent_before_an_early_close(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    if not _ends_early(moment, state) or not exchange.events:
        return None
    if exchange.retry is not None:
        return True
    why = f"closes the stream of {exchange.title} before the answer, without a retry field"
    state.suspects.append(("http.sse.retry-before-close", why))
    return None


@rule("http.sse.closed-after-response", "message", needs=(LINK,))
@rule("http.sse.terminate-after-response", "message", needs=(LINK,))
@rule("http.sse.response-ends-stream", "message", needs=(LINK,))
def nothing_follows_the_answer(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    is_over = bool(exchange.answered) and not exchange.open
    if not _is_post_stream(exchange) or not is_over:
        return None
    if moment.answered_id in exchange.answered or moment.answered_id in state.requests:
        return None  # http.post.stream-one-response-per-request
    return f"goes on with the stream of {exchange.title} after the answer"


@rule("http.sse.closed-after-response", "end", needs=(LINK, END))
@rule("http.sse.terminate-after-response", "end", needs=(LINK, END))
@rule("http.sse.response-ends-stream", "end", needs=(LINK, END))
def stream_ends_after_the_answer(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    is_over = bool(exchange.answered) and not exchange.open
    return (
        True if is_over and _is_post_stream(exchange) and moment.facts.ended == "server" else None
    )


@rule("http.get.no-responses", "message", needs=(LINK, METHOD, asks("Last-Event-ID")))
def get_stream_has_no_responses(moment: Moment, state: HttpState) -> Outcome:
    exchange, id = moment.exchange, moment.answered_id
    if exchange.method != "GET" or not exchange.is_stream or exchange.is_resumed is not False:
        return None
    return id is None or f"answers id {id!r} on a GET stream that resumes nothing"


# -- one message, one stream


@rule("http.streams.no-broadcast", "message", needs=(STREAM,))
def message_is_on_one_stream_only(moment: Moment, state: HttpState) -> Outcome:
    exchange, frame = moment.exchange, moment.frame
    key = None if frame is None else _key(frame)
    is_plain = exchange.request is not None and exchange.is_resumed is False
    if key is None or exchange.stream is None or not exchange.is_stream or not is_plain:
        return None  # a resumed stream may repeat messages
    sent = state.progress if key[0] == "progress" else state.sent
    before = sent.get(key)
    if before is None:
        sent[key] = exchange.stream
        return True
    return before == exchange.stream or f"sends the {key[0]} {key[1]!r:.60} on two streams"


def _key(frame: Frame) -> tuple[Any, ...] | None:
    """Return what tells a message from all others; None where two may be alike."""
    # Answers belong on the stream of their request, which other rules judge.
    if frame.kind == REQUEST:
        return "request", frame.id
    if frame.kind == NOTIFICATION and frame.method == _PROGRESS:
        has_params = isinstance(frame.params, msgspec.Raw)
        params = as_object(parse(bytes(frame.params)) if has_params else None)  # type: ignore[arg-type]
        token, progress = params.get("progressToken"), params.get("progress")
        if isinstance(token, str | int) and isinstance(progress, int | float):
            return "progress", token, progress
    return None


# -- event ids


@rule("http.sse.event-id-unique", "event", needs=(EVENTS,))
def event_id_is_unique(moment: Moment, state: HttpState) -> Outcome:
    id, exchange = moment.facts.id, moment.exchange
    if id is None or exchange.request is None:
        return None
    known = state.event_ids.get(id)
    if known is None:
        return True
    is_same = known == (exchange.stream or "", hash(bytes(moment.record.message or b"")))
    if exchange.is_resumed is None or (exchange.is_resumed and is_same):
        return None  # a replay
    if exchange.is_resumed and known[0] != exchange.stream:
        return None  # http.sse.no-foreign-replay
    return f"gives the id {id[:60]!r} to two events"


@rule("http.sse.no-foreign-replay", "event", needs=(LINK, EVENTS, asks("Last-Event-ID")))
def replay_has_no_events_of_other_streams(moment: Moment, state: HttpState) -> Outcome:
    origin, id = _origin(moment, state), moment.facts.id
    if origin is None or id is None:
        return None
    known = state.event_ids.get(id)
    if known is None:
        return None
    return known[0] == origin or f"replays event {id[:60]!r}, which belongs to another stream"


@rule("http.sse.no-foreign-replay", "message", needs=(LINK, EVENTS, asks("Last-Event-ID")))
def replay_has_no_answers_of_other_streams(moment: Moment, state: HttpState) -> Outcome:
    origin = _origin(moment, state)
    if origin is None or (
        moment.facts.id is not None and moment.facts.id in _earlier(moment, state)
    ):
        return None
    asked = _exchange_of(moment, state)
    if asked is None or asked.stream is None:
        return None
    if asked.stream == origin:
        return True
    return f"replays a message of {asked.title}, which belongs to another stream"


def _earlier(moment: Moment, state: HttpState) -> set[str]:
    """Return the id of an event that was judged by its id already."""
    id = moment.facts.id
    known = None if id is None else state.event_ids.get(id)
    return set() if known is None or known[0] == moment.exchange.stream else {str(id)}


def _origin(moment: Moment, state: HttpState) -> str | None:
    """Return the stream that a response resumes; None if it resumes none that is known."""
    last = moment.exchange.resumed
    known = None if last is None else state.event_ids.get(last)
    return known[0] if known else None


def _exchange_of(moment: Moment, state: HttpState) -> RecordedExchange | None:
    """Return the exchange whose request a message answers, or reports progress of."""
    id = moment.answered_id
    if id is not None:
        return state.requests.get(id)
    return None


@rule("http.sse.priming-event", "event", needs=(EVENTS, STATUS))
def stream_begins_with_an_id(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if not exchange.is_stream or exchange.is_resumed is not False:
        return None
    # The text asks for it where a POST is answered, once the revision is agreed on.
    if exchange.method != "POST" or "initialize" in exchange.posted.requests.values():
        return None
    # Without event ids nothing can be resumed.
    if facts.id is None or exchange.last is not None:
        return None
    has_text = moment.record.message is not None or moment.record.raw or facts.data
    is_primed = not exchange.events and not has_text
    return is_primed or f"begins the stream of {exchange.title} without an event id and empty data"


@rule("http.sse.no-event-ids", "event", needs=(EVENTS,))
def events_have_no_ids(moment: Moment, state: HttpState) -> Outcome:
    id = moment.facts.id
    return id is None or f"gives the id {id[:60]!r} to an event"


@rule("http.sse.accel-buffering-off", "head", needs=(STATUS, says("X-Accel-Buffering")))
def buffering_is_off(moment: Moment, state: HttpState) -> Outcome:
    facts = moment.facts
    kind = (facts.header("content-type") or "").partition(";")[0].strip().lower()
    if kind != "text/event-stream" or not facts.knows("x-accel-buffering"):
        return None
    given = facts.header("x-accel-buffering")
    if given is None:
        return "opens an event stream without X-Accel-Buffering: no"
    return given.strip().lower() == "no" or f"opens a stream with X-Accel-Buffering: {given[:40]}"


# -- HTTP with SSE, the older form: one stream for all answers, and the place to post to

# Nothing is there, or nothing that takes a POST.
_NO_SUCH_PLACE: Final = frozenset({404, 405, 410, 501})
_NO_URI: Final = frozenset(' {}[]<>"\\^`|\t\r\n')


@rule("sse.connect.endpoint-event", "event", needs=(EVENTS,), forms=OLDER)
def first_event_names_the_endpoint(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if exchange.events or exchange.method != "GET":
        return None
    if facts.event != "endpoint":
        return f"begins its stream with an event named {facts.event!r:.60}, expected 'endpoint'"
    place = facts.data or ""
    if not place.strip():
        return "names no place in its endpoint event"
    is_uri = _NO_URI.isdisjoint(place)
    return is_uri or f"sends an endpoint event whose data is not a URI: {place[:60]!r}"


@rule("sse.client.posts-to-endpoint", "request", needs=(METHOD, PATH, EVENTS), forms=OLDER)
def message_goes_to_the_endpoint(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if not exchange.posted.frames or state.place is None:
        return None
    if exchange.method and exchange.method != "POST":
        return f"sends a message with {exchange.title}, expected POST"
    if facts.path is None:
        return None
    path, query = state.place
    is_there = facts.path == path
    if not is_there:
        return f"sends {exchange.title} to {facts.path}, expected {path}"
    if facts.query is None or facts.query == query:
        return True
    return (
        f"sends {exchange.title} to {facts.path} with another query than the endpoint event names"
    )


@rule("sse.endpoint.post", "head", needs=(LINK, STATUS, PATH, EVENTS), forms=OLDER)
def endpoint_takes_messages(moment: Moment, state: HttpState) -> Outcome:
    exchange, status = moment.exchange, moment.facts.status
    request = exchange.request
    if request is None or not exchange.posted.frames or state.place is None or status is None:
        return None
    is_closed = any(each.method == "GET" and each.ended for each in state.exchanges.values())
    if (request.path, request.query) != state.place or exchange.method != "POST" or is_closed:
        return None
    if status in _NO_SUCH_PLACE:
        return f"answers a message to its own endpoint {request.path} with status {status}"
    return True if status < 300 else None


@rule("sse.server.message-event", "event", needs=(EVENTS,), forms=OLDER)
def message_is_in_an_event_named_message(moment: Moment, state: HttpState) -> Outcome:
    facts = moment.facts
    if moment.record.message is not None:
        is_named = facts.event == "message"
        return is_named or f"sends a message in an event named {facts.event!r:.60}"
    if facts.event in ("endpoint", "message") or not _is_message(facts.data):
        return None
    return f"sends a message in an event named {facts.event!r:.60}, expected 'message'"


@rule("sse.server.message-event", "message", needs=(LINK,), forms=OLDER)
def answer_is_on_the_stream(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    if exchange.method != "POST" or exchange.request is None or not exchange.is_ok:
        return None
    return "sends a message as the body of a response to a POST, expected an event of its stream"


@rule("sse.server.event-data-json", "event", needs=(EVENTS,), forms=OLDER)
def data_of_a_message_is_json(moment: Moment, state: HttpState) -> Outcome:
    facts, record = moment.facts, moment.record
    if facts.event != "message":
        return None
    if record.message is not None:
        return True
    if record.raw is None and not facts.data:
        return None  # an event without data
    return "sends an event named 'message' whose data is not JSON"


def _is_message(data: str | None) -> bool:
    if data is None or '"jsonrpc"' not in data:
        return False
    try:
        return isinstance(msgspec.json.decode(data), dict | list)
    except (ValueError, RecursionError):
        return False
