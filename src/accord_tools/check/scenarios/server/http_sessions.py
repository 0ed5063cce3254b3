"""Sessions over Streamable HTTP, and streams that break and are resumed."""

from contextlib import AsyncExitStack
from itertools import combinations
from typing import Final

from accord.http.rules.sse import CONTENT_TYPE
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import RawResponse, exchange, post_message
from accord_tools.check.probing.messages import (
    new_request,
    next_id,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios._scenario import (
    PERMISSION,
    bare_scenario,
    calls,
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
