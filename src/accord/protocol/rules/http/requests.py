"""What clients send over Streamable HTTP: methods, headers, session ids, resumed streams."""

from typing import Any, Final

import msgspec

from accord.protocol.codec import parse
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION, meta_of
from accord.protocol.jsonrpc import REQUEST
from accord.protocol.mirroring import (
    METHOD_HEADER,
    NAME_HEADER,
    decode_header,
    find_mismatch,
    mirrored_arguments,
    name_to_mirror,
)
from accord.protocol.rules._rule import Breach, Outcome
from accord.protocol.rules.http._rule import END, EVENTS, METHOD, asks, rule
from accord.protocol.rules.http.exchanges import (
    EVENT_STREAM,
    JSON,
    KEPT,
    LAST_EVENT,
    SESSION,
    VERSION,
    HttpState,
    Moment,
    RecordedExchange,
    as_object,
)
from accord.protocol.violation import WARN
from accord.trace import HttpFacts, is_masked

_INITIALIZE: Final = "initialize"
# Clocks are rounded.
_TOLERANCE: Final = 0.02
# Requests may be under way when the server says that it does not know the session.
_ON_THE_WAY: Final = 2


def opens(exchange: RecordedExchange) -> bool:
    """Return whether a request opens a session."""
    return _INITIALIZE in exchange.posted.requests.values()


# -- headers of every request


def _names(accept: str, *types: str) -> bool:
    """Return whether an Accept header names types; a range such as `*/*` names none."""
    named = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    return named.issuperset(types)


def _judge_accept(moment: Moment, *types: str) -> Outcome:
    if not moment.facts.knows("accept"):
        return None
    accept = moment.facts.header("accept")
    if accept is None:
        return f"sends {moment.exchange.title} without Accept"
    return _names(accept, *types) or f"sends {moment.exchange.title} with Accept: {accept[:100]}"


@rule("http.client.accept-both", "request", needs=(METHOD, asks("Accept")))
def post_accepts_both(moment: Moment, state: HttpState) -> Outcome:
    if moment.exchange.method != "POST" or not state.is_at_endpoint(moment.exchange):
        return None
    return _judge_accept(moment, JSON, EVENT_STREAM)


@rule("http.get.accept-event-stream", "request", needs=(METHOD, asks("Accept")))
def get_accepts_events(moment: Moment, state: HttpState) -> Outcome:
    if moment.exchange.method != "GET" or not _is_to_server(moment, state):
        return None
    return _judge_accept(moment, EVENT_STREAM)


def _is_to_server(moment: Moment, state: HttpState) -> bool:
    """Return whether a request without a message is meant for the server, as far as is known."""
    path = moment.exchange.path
    return state.is_initialized if path is None else bool(state.is_at_endpoint(moment.exchange))


@rule("http.client.protocol-version-header", "request", needs=(asks("MCP-Protocol-Version"),))
def request_has_the_version(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if not state.is_initialized or opens(exchange) or not _is_to_server(moment, state):
        return None
    if facts.lacks(VERSION):
        return f"sends {exchange.title} without MCP-Protocol-Version"
    given = facts.header(VERSION)
    if given is None or {each.strip() for each in given.split(",")} == {state.negotiated}:
        return None if given is None else True
    why = f"sends {exchange.title} with MCP-Protocol-Version: {given[:40]}, not {state.negotiated}"
    # The header is a MUST, its value a SHOULD.
    return Breach(why, severity=WARN) if given.strip() else why


@rule("session.id.client-echo", "request", needs=(asks("Mcp-Session-Id"),))
def request_has_the_session(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    alive = [each for each in state.sessions if each not in state.ended]
    if not alive or state.losses or opens(exchange) or not _is_to_server(moment, state):
        return None
    if facts.lacks(SESSION):
        return f"sends {exchange.title} without Mcp-Session-Id"
    given = facts.header(SESSION)
    if given is None:
        return None
    return given in state.sessions or (
        f"sends {exchange.title} with a Mcp-Session-Id that the server did not assign"
    )


# -- messages


@rule("http.client.post-messages", "request", needs=(METHOD,))
def message_is_posted_to_the_endpoint(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    if not exchange.posted.frames or not exchange.method:
        return None
    if exchange.method != "POST":
        return f"sends a message with {exchange.title}"
    at_endpoint = opens(exchange) or state.is_at_endpoint(exchange) is not False
    return at_endpoint or f"sends {exchange.title} to {exchange.path}, not to {state.endpoint}"


@rule("http.post.body-message-or-batch", "request", needs=(METHOD,))
def body_is_a_message_or_batch(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    if exchange.method != "POST":
        return None
    if exchange.posted.is_empty:
        return _judge_bare(moment, state)
    return not exchange.posted.is_malformed or "sends a POST whose body is not a message or batch"


@rule("http.post.each-message", "request", needs=(METHOD,))
def post_has_a_body(moment: Moment, state: HttpState) -> Outcome:
    is_bare = moment.exchange.method == "POST" and moment.exchange.posted.is_empty
    return _judge_bare(moment, state) if is_bare else None


def _judge_bare(moment: Moment, state: HttpState) -> Outcome:
    # A recording may leave out the body of a request to another path.
    is_at_endpoint = moment.exchange.path is not None and state.is_at_endpoint(moment.exchange)
    is_bare = moment.facts.size == 0 and is_at_endpoint
    return "sends a POST without a message" if is_bare else None


# -- sessions that are lost, streams that are resumed


@rule(
    "http.session.client-restarts-on-404",
    "request",
    needs=(METHOD, asks("Mcp-Session-Id")),
)
def lost_session_is_left(moment: Moment, state: HttpState) -> Outcome:
    exchange, facts = moment.exchange, moment.facts
    if not state.losses or not _is_to_server(moment, state) or exchange.method == "DELETE":
        return None
    if opens(exchange):
        has_old = facts.header(SESSION) in state.sessions
        return not has_old or "sends initialize with the session id that the server does not know"
    if state.losses < _ON_THE_WAY or not facts.knows(SESSION):
        return None
    return f"sends {exchange.title} after status 404, without a new initialize"


@rule("http.sse.resume-header", "request", needs=(METHOD, asks("Last-Event-ID"), EVENTS))
def stream_is_resumed_by_get(moment: Moment, state: HttpState) -> Outcome:
    exchange, last = moment.exchange, moment.facts.header(LAST_EVENT)
    if last is None:
        return None
    if exchange.method in ("POST", "DELETE"):
        return f"sends {exchange.title} with Last-Event-ID, expected a GET"
    if not last:
        return "resumes a stream with an empty Last-Event-ID"
    if last in state.event_ids:
        return True
    # Without any event id the recording may not have them.
    is_whole = 0 < len(state.event_ids) < 4 * KEPT
    return f"resumes after event {last[:60]}, which the server never sent" if is_whole else None


@rule("http.sse.client-honours-retry", "request", needs=(asks("Last-Event-ID"), EVENTS, END))
def client_waits_before_it_resumes(moment: Moment, state: HttpState) -> Outcome:
    last, now = moment.exchange.resumed, moment.record.t
    if last is None or now is None:
        return None
    for exchange in reversed(state.exchanges.values()):
        # A client that leaves a stream by itself need not wait.
        if exchange.last == last and exchange.ended == "server":
            if exchange.retry is None or exchange.ended_at is None:
                return None
            waited = now - exchange.ended_at
            return waited >= exchange.retry / 1000 - _TOLERANCE or (
                f"resumes a stream after {waited * 1000:.0f} ms, "
                f"the server asked for {exchange.retry} ms"
            )
    return None


@rule("http.sse.client-reissues-lost-request", "request", needs=(END,))
def lost_request_is_sent_anew(moment: Moment, state: HttpState) -> Outcome:
    exchange = moment.exchange
    if exchange.resumed and any(each.ended and each.open for each in state.exchanges.values()):
        return "tries to resume the stream of a request, expected a new request"
    found: Outcome = None
    for id, name in exchange.posted.requests.items():
        before = state.requests.get(id)
        if before is not None and before.ended == "server" and id in before.open:
            return f"sends {name[:60]} under the id {id!r} again, whose stream broke"
        for other in state.exchanges.values():
            lost = {other.posted.requests[each] for each in other.open if other.ended == "server"}
            found = True if name in lost else found
    return found


# -- headers that repeat the body


def find_fault(exchange: RecordedExchange, state: HttpState) -> tuple[str, str] | None:
    """Return how the headers of a request that stands on its own differ from its body.

    Returns:
        the requirement on the server that gets it, and the fault in words.
    """
    facts, frames = exchange.request, exchange.posted.frames
    if facts is None or exchange.method != "POST" or len(frames) != 1 or frames[0].kind != REQUEST:
        return None
    method = str(frames[0].method)
    params = parse(bytes(frames[0].params)) if isinstance(frames[0].params, msgspec.Raw) else None
    meta = meta_of(params)
    if not isinstance(meta.get(META_VERSION), str) or META_CAPABILITIES not in meta:
        return "meta.request.missing-field-http-400", "without the required members of _meta"
    version = facts.header(VERSION)
    if version is not None and version.strip() != meta[META_VERSION]:
        return "http.version-header.mismatch-rejected", "whose version header is not that of _meta"
    return _repeat_fault(facts, method, params) or _argument_fault(facts, method, params, state)


def _repeat_fault(facts: HttpFacts, method: str, params: object) -> tuple[str, str] | None:
    given = facts.header(METHOD_HEADER)
    if given is not None and given.strip() != method:
        return "http.headers.mismatch-rejected", "whose Mcp-Method is not its method"
    name, header = name_to_mirror(method, params), facts.header(NAME_HEADER)
    can_compare = name is not None and header is not None and not is_masked(header, name)
    if can_compare and decode_header(header or "") != name:
        return "http.headers.mismatch-rejected", "whose Mcp-Name differs from the body"
    lacking = [METHOD_HEADER] if facts.lacks(METHOD_HEADER) else []
    if name is not None and not method.startswith("tasks/") and facts.lacks(NAME_HEADER):
        lacking.append(NAME_HEADER)
    if lacking:
        return "http.headers.required-missing-rejected", f"without {lacking[0]}"
    return None


def _argument_fault(
    facts: HttpFacts, method: str, params: object, state: HttpState
) -> tuple[str, str] | None:
    call: dict[str, Any] = as_object(params)
    name = call.get("name")
    if method != "tools/call" or not isinstance(name, str):
        return None
    try:
        mirrored = mirrored_arguments(state.memory.tools.get(name, {}).get("inputSchema"))
    except ValueError:
        return None
    arguments = call.get("arguments")
    for each in mirrored:
        value, header = each.value(arguments), facts.header(each.header)
        if not isinstance(value, str | int | float) or is_masked(value, header):
            continue
        if facts.lacks(each.header):
            return "http.param-headers.missing-with-value-rejected", f"without {each.header}"
        if header is not None and find_mismatch((each,), arguments, facts.headers):
            return "http.param-headers.match-validated", f"whose {each.header} differs"
    return None
