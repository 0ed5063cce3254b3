"""Connections over HTTP: sessions, broken streams, addresses, and the older form with SSE.

Access to a server on this machine is tried from foreign origins, at each address it listens at. The
older form is a stream that names an endpoint, and POSTs to it.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Final
from urllib.parse import urljoin, urlsplit

from accord.errors import ConnectFailed
from accord.http.rules.addresses import is_loopback
from accord.http.rules.sse import CONTENT_TYPE, Event
from accord.protocol.revisions import HANDSHAKE, REVISIONS
from accord.protocol.verdict import Evidence
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import (
    ACCEPT,
    CONTENT_JSON,
    RawResponse,
    SseCarrier,
    exchange,
    is_own_place,
    post_message,
)
from accord_tools.check.probing.messages import (
    decode_json,
    new_request,
    next_id,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.scenarios._scenario import (
    PERMISSION,
    bare_scenario,
    calls,
    complete_request,
    end_session,
    harmless_method,
    initialize,
    messages_of,
    open_unjudged,
    scenario,
)

_ASSIGNED: Final = "session.id.assigned-at-initialize"
_HEADER: Final = "session.id.header-name"
_VISIBLE: Final = "session.id.visible-ascii"
_SECURE: Final = "session.id.secure"
_MISSING: Final = "session.id.missing-400"
_TERMINATED: Final = "session.end.terminated-404"
_MAY_TERMINATE: Final = "session.end.server-may-terminate"
_SESSIONS: Final = 3
# Two unguessable ids differ in nearly all characters; counters and clocks in a few.
_DIFFERENT: Final = 8
_STATELESS: Final = "the server gives no session ids"


@bare_scenario(_ASSIGNED, _HEADER, _VISIBLE, _SECURE, on=("http",))
async def opens_several_sessions(probe: Probe) -> None:
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(open_unjudged(probe)) for _ in range(_SESSIONS)]
        sessions = [connection.carrier.session for connection in opened]
        ids = [session for session in sessions if session is not None]
    if not ids:
        await _judge_header_name(probe)
        probe.not_applicable(_ASSIGNED, PERMISSION)
        probe.not_applicable((_HEADER, _VISIBLE, _SECURE), _STATELESS)
        return
    probe.passes(_ASSIGNED, _HEADER)
    odd = [each for each in ids if not each or any(not "!" <= mark <= "~" for mark in each)]
    why = f"gives the session id {odd[:1]}, expected only visible ASCII characters"
    probe.holds(_VISIBLE, not odd, why)
    if len(ids) < _SESSIONS:
        probe.skip(_SECURE, "the server gave few session ids")
        return
    least = min(_differences(one, other) for one, other in combinations(ids, 2))
    why = f"gives session ids that differ in {least} characters from one session to another,"
    why += " expected unguessable ones"
    # Reports do not show the ids: some sessions may still be open.
    probe.holds(_SECURE, least >= _DIFFERENT, why, evidence=())


async def _judge_header_name(probe: Probe) -> None:
    """Find sessions that the server names in another header than the protocol's."""
    async with probe.open(is_judged=False, begins=False) as connection:
        opened = await post_message(connection, initialize(probe.revision))
        if not opened.is_ok:
            return
        connection.carrier.agree(probe.revision)
        unnamed = await post_message(connection, new_request("ping"))
        for name, value in opened.headers.items():
            if unnamed.is_ok or "session" not in name:
                continue
            given = {name.replace("-", "_"): value}
            named = await post_message(connection, new_request("ping"), **given)
            why = f"names its sessions in {name}, expected Mcp-Session-Id"
            probe.holds(_HEADER, not named.is_ok, why)


def _differences(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


@scenario(_MISSING, _TERMINATED, opens=open_unjudged, on=("http",))
async def omits_the_session_id(probe: Probe, connection: RawConnection) -> None:
    if connection.carrier.session is None:
        probe.not_applicable(_MISSING, _STATELESS)
        return
    served = 0
    for message in (new_request("ping"), new_request(harmless_method(probe.facts))):
        heard = await post_message(connection, message, mcp_session_id=None)
        served += heard.is_ok
        if not heard.is_ok:
            why = f"answers {message['method']} without session id with {heard}, expected 400"
            probe.holds(_MISSING, heard.status == 400, why)
    if served:
        probe.not_applicable(_MISSING, "the server does not require session ids")
        return
    # A server that needs the id has to know it as well.
    given = f"accord-check-{next_id()}"
    heard = await post_message(connection, new_request("ping"), mcp_session_id=given)
    why = f"serves a request with a session id that it never gave: {heard}"
    probe.holds(_TERMINATED, not heard.is_ok, why)


@scenario(_TERMINATED, _MAY_TERMINATE, opens=open_unjudged, on=("http",))
async def uses_a_session_that_was_ended(probe: Probe, connection: RawConnection) -> None:
    probe.not_applicable(_MAY_TERMINATE, PERMISSION)
    if connection.carrier.session is None:
        probe.not_applicable(_TERMINATED, _STATELESS)
        return
    async with exchange(connection, method="DELETE") as ended:
        pass
    if not ended.is_ok:
        probe.skip(_TERMINATED, f"the server lets no client end a session: {ended}")
        return
    for method in ("ping", harmless_method(probe.facts)):
        heard = await post_message(connection, new_request(method))
        why = f"answers {method} in a session that was ended with {heard}, expected status 404"
        probe.holds(_TERMINATED, heard.status == 404, why)
    async with exchange(connection, method="GET", accept=CONTENT_TYPE) as heard:
        pass
    why = f"answers GET in a session that was ended with a stream: {heard}"
    probe.holds(_TERMINATED, not heard.is_stream, why)


# -- streams that break and are resumed

_REPLAY: Final = "http.sse.no-foreign-replay"
_NAMES: Final = "http.sse.event-id-names-stream"
_CANCEL: Final = "http.disconnect.not-cancel"
_PRIMING: Final = "http.sse.priming-event"
_IDS: Final = (_REPLAY, _NAMES, _CANCEL, _PRIMING)
# The server may not have noticed the disconnection yet.
_BUSY: Final = 409
_TRIES: Final = 3


@scenario(*_IDS, opens=open_unjudged, on=("http",))
async def resumes_streams(probe: Probe, connection: RawConnection) -> None:
    call, first = await _find_streaming_call(probe, connection)
    if call is None or first is None:
        return
    why = "starts a stream without an event id before the first data"
    probe.holds(_PRIMING, first.is_primed, why)
    again = _repeat_call(call)
    await post_message(connection, again)
    resumed = await _resume(connection, first.ids[0], call["id"], probe.target.settling)
    if not resumed.is_stream:
        probe.not_applicable((_REPLAY, _NAMES, _CANCEL), f"the server replays nothing: {resumed}")
        return
    # After the only event, everything that follows belongs to other streams.
    stray = messages_of(resumed, again)
    probe.holds(_REPLAY, not stray, f"replays messages of another stream: {stray[:1]}")
    if stray and not resumed.answers_to(call["id"]):
        probe.fail(_NAMES, "takes the event id of one stream for one of another")
        return
    if not resumed.answers_to(call["id"]):
        probe.not_applicable((_NAMES, _CANCEL), "the server replays nothing")
        return
    probe.passes(_NAMES)
    await _judge_strangers(probe, call, first)
    await _judge_disconnect(probe, connection)


async def _find_streaming_call(
    probe: Probe, connection: RawConnection
) -> tuple[JsonObject | None, RawResponse | None]:
    """Find a call that is answered by a stream of events with ids, several if possible."""
    has_streamed = False
    single: tuple[JsonObject, RawResponse] | None = None
    for call in calls(probe):
        heard = await post_message(connection, call)
        has_streamed = has_streamed or heard.is_stream
        if heard.is_stream and len(heard.ids) > 1:
            return call, heard
        if heard.is_stream and heard.ids:
            single = single or (call, heard)
    if single is not None:
        return single
    if has_streamed:
        probe.not_applicable(_IDS, "the server gives its events no ids")
    else:
        probe.skip(_IDS, "no tool that may be called is answered with a stream")
    return None, None


def _repeat_call(call: JsonObject) -> JsonObject:
    """Return the same call with another id and progress token."""
    token = f"accord-check-{next_id()}"
    params = call["params"] | {"_meta": {"progressToken": token}}
    return call | {"id": next_id(), "params": params}


async def _resume(connection: RawConnection, last: str, id: object, patience: float) -> RawResponse:
    """Resume a stream after an event and read until the answer, or for this time."""
    for _ in range(_TRIES):
        async with exchange(
            connection, method="GET", accept=CONTENT_TYPE, last_event_id=last
        ) as heard:
            if heard.status == _BUSY:
                await heard.rest(patience)
                continue
            if heard.is_stream:
                await heard.until(lambda heard: bool(heard.answers_to(id)), patience)
                await heard.rest(min(patience, 0.1))
            return heard
    return heard


async def _judge_strangers(probe: Probe, call: JsonObject, first: RawResponse) -> None:
    async with open_unjudged(probe) as connection:
        if connection.carrier.session is None:
            return
        heard = await _resume(connection, first.ids[0], call["id"], probe.target.settling)
        stray = messages_of(heard, call)
        probe.holds(_REPLAY, not stray, f"replays messages of another session: {stray[:1]}")


async def _judge_disconnect(probe: Probe, connection: RawConnection) -> None:
    streamed: list[JsonObject] = []
    # On a busy machine a call is over before its client disconnects, unless it takes long.
    for first in (*calls(probe), *calls(probe, are_prolonged=True)):
        # Some tools ask the client something, and never answer without a reply.
        heard = await post_message(connection, first)
        if heard.is_stream and heard.answers_to(first["id"]):
            if await _disconnect(probe, connection, first):
                return
            if len(heard.ids) > 1:
                streamed.append(first)
    # It may have answered after it began to stream, and only this process was late.
    for again in streamed * _TRIES:
        if await _disconnect(probe, connection, again):
            return
    probe.skip(_CANCEL, "no call takes long enough to disconnect during it")


async def _disconnect(probe: Probe, connection: RawConnection, first: JsonObject) -> bool:
    """Disconnect during a call and judge what becomes of it; False if it was over too soon."""
    call = _repeat_call(first)
    async with exchange(connection, call) as heard:
        if not heard.is_stream:
            return False
        await heard.until(lambda heard: bool(heard.ids), connection.patience)
        if not heard.ids or heard.answers_to(call["id"]):
            return False
    resumed = await _resume(connection, heard.ids[-1], call["id"], connection.patience)
    why = f"never answers {call['params']['name']} once its client disconnected"
    probe.holds(_CANCEL, resumed.answers_to(call["id"]), why)
    return True


# -- addresses

# Where the kernel of Linux lists its sockets; a socket that listens has this state.
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"
_WORD: Final = 8
# Addresses of documentation (RFC 5737, RFC 3849): nothing is sent to them.
_ELSEWHERE: Final = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
_DIALLING: Final = 1.0


def listening_addresses(port: int) -> set[str] | None:
    """Return the addresses at which this machine listens; None if they cannot be found."""
    tables = [table for table in _TABLES if table.exists()]
    if not tables:
        return None
    try:
        lines = [line for table in tables for line in table.read_text().splitlines()[1:]]
    except OSError:
        return None
    return {
        _address(place.partition(":")[0])
        for _, place, _, state, *_ in (line.split() for line in lines)
        if state == _LISTENS and int(place.partition(":")[2], 16) == port
    }


def _address(digits: str) -> str:
    # Words of four bytes, each in the byte order of the machine, which is little-endian here.
    words = [digits[each : each + _WORD] for each in range(0, len(digits), _WORD)]
    packed = b"".join(bytes.fromhex(word)[::-1] for word in words)
    address = ipaddress.ip_address(packed)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)


def own_addresses() -> list[str]:
    """Return the addresses of this machine in its networks, at most one of each family."""
    found = []
    for family, elsewhere in _ELSEWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probing:
                probing.connect((elsewhere, 9))
                address = str(probing.getsockname()[0])
        except OSError:
            continue
        if not ipaddress.ip_address(address).is_loopback:
            found.append(address)
    return found


async def open_addresses(port: int) -> list[str]:
    """Return the addresses of this machine in its networks at which a port takes connections."""
    found = []
    for address in own_addresses():
        try:
            async with asyncio.timeout(_DIALLING):
                _, writer = await asyncio.open_connection(address, port)
        except (OSError, TimeoutError):
            continue
        writer.close()
        found.append(address)
    return found


_ORIGIN: Final = "http.origin.validated"
_ORIGIN_403: Final = "http.origin.invalid-403"
_BIND: Final = "http.server.bind-localhost"
_FOREIGN: Final = "http://accord-check.example"
# What a comparison of prefixes, of suffixes or of parts takes for an origin of this machine. Any
# page can send null, from a frame without an origin. Another port of this machine may be a friend.
_HOSTILE: Final = (
    _FOREIGN,
    "null",
    "http://localhost.accord-check.example",
    "http://127.0.0.1.accord-check.example",
    "http://accord-check-localhost",
)
_NOT_OFFERED: Final = 405


@bare_scenario(_ORIGIN, _ORIGIN_403, on=("http", "sse"))
async def sends_foreign_origins(probe: Probe) -> None:
    if not is_loopback(urlsplit(probe.target.spec.url).hostname or ""):
        why = "foreign origins are known for servers on this machine only"
        probe.skip((_ORIGIN, _ORIGIN_403), why)
        return
    try:
        if not REVISIONS[probe.revision].handshake:
            await _send_requests(probe)
        elif probe.facts.transport == "http":
            await _open_sessions(probe)
            await _use_a_session(probe)
        else:
            await _post_beside_a_stream(probe)
            await _open_streams(probe)
    except ConnectionEnded as error:
        # It may be how a server refuses, or how it ends after a refusal.
        probe.skip((_ORIGIN, _ORIGIN_403), f"the server closes connections: {error}")


async def _open_sessions(probe: Probe) -> None:
    async with probe.open(is_judged=False, begins=False) as connection:
        for origin in _HOSTILE:
            heard = await post_message(connection, initialize(probe.revision), origin=origin)
            await end_session(connection, heard)
            if not _judge_origin(probe, heard, origin, "initialize"):
                return


async def _send_requests(probe: Probe) -> None:
    async with open_unjudged(probe) as connection:
        for method in ("server/discover", harmless_method(probe.facts)):
            for origin in _HOSTILE:
                message = complete_request(probe, method)
                heard = await post_message(connection, message, origin=origin)
                if not _judge_origin(probe, heard, origin, method):
                    return


async def _use_a_session(probe: Probe) -> None:
    """Try each method in a session: some servers look at the origin when one begins, or in POST."""
    async with open_unjudged(probe) as connection:
        heard = await post_message(connection, new_request("ping"), origin=_FOREIGN)
        _judge_origin(probe, heard, _FOREIGN, "a request in a session")
        for method in ("GET", "DELETE"):
            async with exchange(
                connection, method=method, origin=_FOREIGN, accept=CONTENT_TYPE
            ) as heard:
                pass
            # A page without a stream serves no request of MCP.
            if method == "DELETE" or heard.is_stream or not heard.is_ok:
                _judge_origin(probe, heard, _FOREIGN, method)


async def _open_streams(probe: Probe) -> None:
    async with probe.open(is_judged=False, begins=False) as connection:
        for origin in _HOSTILE:
            headers = {"accept": CONTENT_TYPE, **probe.target.spec.headers, "origin": origin}
            async with exchange(connection, method="GET", headers=headers) as heard:
                pass
            if not _judge_origin(probe, heard, origin, "GET"):
                return


async def _post_beside_a_stream(probe: Probe) -> None:
    headers = {"content-type": CONTENT_JSON, **probe.target.spec.headers, "origin": _FOREIGN}
    message = initialize(probe.revision)
    async with probe.open(is_judged=False, begins=False) as connection:
        place = connection.carrier.place
        async with exchange(connection, message, url=place, headers=headers) as heard:
            await heard.rest(probe.target.settling)
        _judge_origin(probe, heard, _FOREIGN, "a posted message")


def _judge_origin(probe: Probe, heard: RawResponse, origin: str, what: str) -> bool:
    if not probe.holds(_ORIGIN, not heard.is_ok, f"serves {what} with Origin {origin}"):
        return False
    if heard.status != _NOT_OFFERED:
        why = f"refuses {what} with Origin {origin} by {heard}, expected status 403"
        probe.holds(_ORIGIN_403, heard.status == 403, why)
    return True


# -- addresses


@bare_scenario(_BIND, on=("http", "sse"))
async def looks_where_the_server_listens(probe: Probe) -> None:
    url = urlsplit(probe.target.spec.url)
    if not is_loopback(url.hostname or ""):
        probe.skip(_BIND, "the server does not run on this machine")
        return
    port = url.port or (443 if url.scheme == "https" else 80)
    known = listening_addresses(port)
    if known:
        far = [each for each in known if not ipaddress.ip_address(each).is_loopback]
        has_own_socket = len(far) < len(known) and all(":" in each for each in far)
        if far and has_own_socket and not await _is_same_server(probe, port):
            # Another program has the port in the other family of addresses.
            far = []
    else:
        far = await open_addresses(port)
    why = f"listens at {', '.join(far)}, expected loopback alone"
    probe.holds(_BIND, not far, why, evidence=())


async def _is_same_server(probe: Probe, port: int) -> bool:
    """Return whether an MCP server listens at this port of IPv6; it gets no token."""
    url = urlsplit(probe.target.spec.url)
    other = f"{url.scheme}://[::1]:{port}{url.path}"
    if probe.facts.transport != "http":
        return False
    headers = {"content-type": CONTENT_JSON, "accept": ACCEPT}
    async with probe.open(is_judged=False, begins=False) as connection:
        try:
            heard = await post_message(
                connection, initialize([*HANDSHAKE][-1]), url=other, headers=headers
            )
        except (ConnectFailed, ConnectionEnded, MessageTimeout):
            return False
        await end_session(connection, heard)
    return bool(heard.answers())


# -- HTTP with SSE

_STREAM: Final = "sse.endpoint.stream"
_POST: Final = "sse.endpoint.post"
_ENDPOINT: Final = "sse.connect.endpoint-event"
_EVENT: Final = "sse.server.message-event"
_DATA: Final = "sse.server.event-data-json"
_ALL: Final = (_STREAM, _POST, _ENDPOINT, _EVENT, _DATA)
_LOCKED: Final = (401, 403)
_URI: Final = re.compile(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+")
_EVENT_LINE: Final = re.compile(rb"^(?:event|data):", re.MULTILINE)
FIRST_STEPS: Final = "takes the first steps by hand"
"""The name of the scenario that can run where no conversation begins."""


# -- by hand, since a fault here may keep a conversation from beginning


@bare_scenario(*_ALL, on=("sse",))
async def takes_the_first_steps_by_hand(probe: Probe) -> None:
    line = probe.target.reached_with(transport="http").connection(is_judged=False)
    headers = {"accept": CONTENT_TYPE, **probe.target.spec.headers}
    async with line, exchange(line, method="GET", headers=headers) as stream:
        await stream.until(lambda stream: bool(stream.names), line.longest)
        if not _judge_stream(probe, line, stream):
            return
        place = _judge_first_event(probe, line, stream)
        if place is None:
            probe.skip(_ALL, "the server names no endpoint that messages can be posted to")
            return
        message = initialize(probe.revision)
        posted = await _post(line, place, message, probe.target.spec.headers)
        if posted.status in _LOCKED:
            probe.skip(_ALL, f"the server asks for authorization: {posted}")
            return
        why = f"answers a posted message with {posted}"
        if probe.holds(_POST, posted.is_ok, why, evidence=_proof(line)):
            known = len(stream.events)
            await stream.until(lambda stream: len(stream.names) > known, line.patience)
            _judge_answer(probe, line, stream, posted, message)


def _proof(line: RawConnection) -> list[Evidence]:
    return line.proof() if line.proof is not None else []


def _judge_stream(probe: Probe, line: RawConnection, stream: RawResponse) -> bool:
    if stream.is_stream:
        probe.passes(_STREAM)
        return True
    if stream.is_ok and _EVENT_LINE.search(stream.body):
        why = f"sends its events with Content-Type {stream.content_type or 'missing'!r},"
        why = f"{why} expected {CONTENT_TYPE}"
        probe.holds(_STREAM, condition=None, why=why, evidence=_proof(line))
    probe.skip(_ALL, f"the server answers GET with {stream}, not with a stream of events")
    return False


def _judge_first_event(probe: Probe, line: RawConnection, stream: RawResponse) -> str | None:
    """Judge the endpoint event; return where messages go, None if the check posts nothing there."""
    if not stream.events:
        did = "ends its stream" if stream.has_ended else f"is silent for {line.longest:.3g} s"
        why = f"{did} where an event 'endpoint' is due first"
        probe.holds(_ENDPOINT, condition=None, why=why, evidence=_proof(line))
        return None
    judge_endpoint(probe, stream.events[0], probe.target.spec.url, _proof(line))
    named = next((each for each in stream.events if each.name == "endpoint"), None)
    text = "" if named is None else named.data.decode(errors="replace")
    if not _URI.fullmatch(text):
        return None
    place = urljoin(probe.target.spec.url, text)
    return place if is_own_place(probe.target.spec.url, place, probe.target.spec.headers) else None


async def _post(
    line: RawConnection, place: str, message: JsonObject, headers: Mapping[str, str]
) -> RawResponse:
    sent = {"content-type": CONTENT_JSON, **headers}
    async with exchange(line, message, url=place, headers=sent) as posted:
        await posted.rest(line.patience)
    return posted


def _judge_answer(
    probe: Probe,
    line: RawConnection,
    stream: RawResponse,
    posted: RawResponse,
    message: JsonObject,
) -> None:
    proof = line.log.evidence_of_exchange(message["id"]) or _proof(line)
    broken = [each for each in stream.events if each.name == "message" and not _is_json(each)]
    why = f"sends a message event with data that is not JSON: {_texts(broken)}"
    if broken:
        probe.holds(_DATA, not broken, why, evidence=proof)
        return
    if stream.answers_to(message["id"]):
        probe.passes(_DATA)
        named = [each.name for each in stream.events if _is_message(each.data)]
        odd = [name for name in named if name != "message"]
        why = f"sends a message as an event named {odd[:1]}, expected 'message'"
        probe.holds(_EVENT, not odd, why, evidence=proof)
    elif posted.answers_to(message["id"]):
        why = "answers initialize in the body of the POST, not by an event on the stream"
        probe.holds(_EVENT, condition=None, why=why, evidence=proof)


# -- in a conversation


@scenario(*_ALL, opens=partial(Probe.open, is_judged=False, capabilities={}), on=("sse",))
async def speaks_over_two_endpoints(probe: Probe, connection: RawConnection) -> None:
    carrier: SseCarrier = connection.carrier
    probe.passes(_STREAM)
    silence: MessageTimeout | None = None
    try:
        await connection.ask("ping")
        await connection.ask(harmless_method(probe.facts))
        for tool in probe.facts.callable_tools()[:3]:
            await connection.ask("tools/call", tool.params)
    except MessageTimeout as error:
        silence = error
    if silence is not None and carrier.in_bodies:
        text = carrier.in_bodies[-1][:80]
        probe.fail(_EVENT, f"answers in the body of a POST, not on the stream: {text!r}")
        silence = None
    is_explained = _judge_events(probe, connection, carrier)
    if silence is not None and not is_explained:
        raise silence


def _judge_events(probe: Probe, connection: RawConnection, carrier: SseCarrier) -> bool:
    """Judge what came, and where; return whether something went wrong."""
    assert carrier.first is not None
    judge_endpoint(probe, carrier.first, carrier.url)
    odd = [status for status in carrier.statuses if not 200 <= status < 300]
    unnamed = [each.name for each in carrier.odd if _is_message(each.data)]
    broken = [record.raw for record in connection.log.records if record.raw is not None]
    verdicts = [
        probe.holds(_POST, not odd, f"answers a posted message with status {odd[:1]}"),
        probe.holds(
            _EVENT,
            not unnamed,
            f"sends a message as an event named {unnamed[:1]}, expected 'message'",
        ),
        probe.holds(
            _DATA,
            not broken,
            f"sends a message event with data that is not JSON: {broken[:1]}",
        ),
    ]
    return not all(verdicts)


def judge_endpoint(
    probe: Probe, first: Event, url: str, evidence: list[Evidence] | None = None
) -> None:
    """Judge the first event of a stream, which names the endpoint."""
    why = f"sends an event {first.name!r} first, expected 'endpoint'"
    if not probe.holds(_ENDPOINT, first.name == "endpoint", why, evidence=evidence):
        return
    text = first.data.decode(errors="replace")
    why = f"names the endpoint {text[:80]!r}, expected a URI"
    if not probe.holds(_ENDPOINT, _is_uri(text), why, evidence=evidence):
        return
    place = urljoin(url, text)
    if not is_own_place(url, place, {}):
        why = f"names the endpoint {text[:80]!r}, which is this machine's own for every client"
        is_usable = is_loopback(urlsplit(url).hostname or "") or not _is_nobody_else(place)
        probe.holds(_ENDPOINT, is_usable, why, evidence=evidence)


def _is_uri(text: str) -> bool:
    if not _URI.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.path or parts.query)


def _is_nobody_else(place: str) -> bool:
    """Return whether an address means another machine for each client that uses it."""
    host = urlsplit(place).hostname or ""
    return is_loopback(host) or host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound


def _is_message(data: bytes) -> bool:
    message = decode_json(data)
    return isinstance(message, dict) and "jsonrpc" in message


def _is_json(event: Event) -> bool:
    return decode_json(event.data) is not None


def _texts(events: list[Event]) -> list[bytes]:
    return [each.data[:80] for each in events[:1]]
