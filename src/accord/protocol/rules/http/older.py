"""HTTP with SSE, the older form: one stream for all answers, and the place to post to."""

from typing import Final

import msgspec

from accord.protocol.rules._rule import Outcome
from accord.protocol.rules.http._rule import EVENTS, LINK, METHOD, OLDER, PATH, STATUS, rule
from accord.protocol.rules.http.exchanges import HttpState, Moment

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
