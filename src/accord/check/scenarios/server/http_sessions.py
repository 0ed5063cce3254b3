"""Sessions over HTTP, resumed streams, and the two endpoints of HTTP with SSE."""

import contextlib
from contextlib import AsyncExitStack
from itertools import combinations
from typing import Final
from urllib.parse import urlsplit

import msgspec

from accord.bindings.sse import CONTENT_TYPE
from accord.check.probing.exchange import RawResponse, exchange, post_message
from accord.check.probing.http import SseCarrier
from accord.check.probing.messages import new_request, next_id
from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import RawConnection
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import (
    PERMISSION,
    calls,
    harmless_method,
    open_unjudged,
)
from accord.types import JsonObject

_SESSIONS: Final = 3
# Two unguessable ids differ in nearly all characters; counters and clocks in a few.
_DIFFERENT: Final = 8
_STATELESS: Final = "the server gives no session ids"


@scenario(
    "session.id.assigned-at-initialize",
    "session.id.header-name",
    "session.id.visible-ascii",
    "session.id.secure",
    on=("http",),
)
async def opens_several_sessions(probe: Probe) -> None:
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(open_unjudged(probe)) for _ in range(_SESSIONS)
        ]
        ids = [
            connection.carrier.session
            for connection in connections
            if connection.carrier.session is not None
        ]
    if not ids:
        probe.not_applicable("session.id.assigned-at-initialize", PERMISSION)
        for id in ("header-name", "visible-ascii", "secure"):
            probe.not_applicable(f"session.id.{id}", _STATELESS)
        return
    probe.holds("session.id.assigned-at-initialize", condition=True, why="")
    probe.holds("session.id.header-name", condition=True, why="")
    odd = [each for each in ids if not each or any(not "!" <= mark <= "~" for mark in each)]
    probe.holds(
        "session.id.visible-ascii",
        not odd,
        f"gives the session id {odd[:1]}, expected only visible ASCII characters",
    )
    if len(ids) < _SESSIONS:
        probe.skip("session.id.secure", "the server gave few session ids")
        return
    least = min(_differences(one, other) for one, other in combinations(ids, 2))
    # Reports do not show the ids: some sessions may still be open.
    probe.holds(
        "session.id.secure",
        least >= _DIFFERENT,
        f"gives session ids that differ in {least} characters from one session to another,"
        " expected unguessable ones",
        evidence=(),
    )


def _differences(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


@scenario("session.id.missing-400", on=("http",))
async def omits_the_session_id(probe: Probe) -> None:
    id = "session.id.missing-400"
    async with open_unjudged(probe) as connection:
        if connection.carrier.session is None:
            probe.not_applicable(id, _STATELESS)
            return
        heard = await post_message(connection, new_request("ping"), mcp_session_id=None)
        if heard.is_ok:
            probe.not_applicable(id, "the server does not require session ids")
            return
        probe.holds(
            id,
            heard.status == 400,
            f"answers a request without session id with {heard}, expected status 400",
        )


@scenario("session.end.terminated-404", "session.end.server-may-terminate", on=("http",))
async def uses_a_session_that_was_ended(probe: Probe) -> None:
    id = "session.end.terminated-404"
    probe.not_applicable("session.end.server-may-terminate", PERMISSION)
    async with open_unjudged(probe) as connection:
        if connection.carrier.session is None:
            probe.not_applicable(id, _STATELESS)
            return
        async with exchange(connection, method="DELETE") as ended:
            pass
        if not ended.is_ok:
            probe.skip(id, f"the server lets no client end a session: {ended}")
            return
        heard = await post_message(connection, new_request("ping"))
        probe.holds(
            id,
            heard.status == 404,
            f"answers a request in a session that was ended with {heard}, expected status 404",
        )


_REPLAY: Final = "http.sse.no-foreign-replay"
_NAMES: Final = "http.sse.event-id-names-stream"
_CANCEL: Final = "http.disconnect.not-cancel"
_PRIMING: Final = "http.sse.priming-event"
_IDS: Final = (_REPLAY, _NAMES, _CANCEL, _PRIMING)
# The server may not have noticed the disconnection yet.
_BUSY: Final = 409
_TRIES: Final = 3


@scenario(*_IDS, on=("http",))
async def resumes_streams(probe: Probe) -> None:
    async with open_unjudged(probe) as connection:
        call, first = await _find_streaming_call(probe, connection)
        if call is None or first is None:
            return
        probe.holds(
            _PRIMING, first.is_primed, "starts a stream without an event id before the first data"
        )
        again = _repeat_call(call)
        await post_message(connection, again)
        resumed = await _resume(connection, first.ids[0], call["id"], probe.target.settling)
        if not resumed.is_stream:
            for id in (_REPLAY, _NAMES, _CANCEL):
                probe.not_applicable(id, f"the server replays nothing: {resumed}")
            return
        # After the only event, everything that follows belongs to other streams.
        stray = _of(resumed, again)
        probe.holds(_REPLAY, not stray, f"replays messages of another stream: {stray[:1]}")
        if not resumed.answers_to(call["id"]):
            for id in (_NAMES, _CANCEL):
                probe.not_applicable(id, "the server replays nothing")
            return
        probe.holds(_NAMES, condition=True, why="")
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
    for id in _IDS:
        if has_streamed:
            probe.not_applicable(id, "the server gives its events no ids")
        else:
            probe.skip(id, "no tool that may be called is answered with a stream")
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


def _of(heard: RawResponse, call: JsonObject) -> list[JsonObject]:
    """Return the messages of a stream that belong to a call."""
    token = call["params"]["_meta"]["progressToken"]
    progress = [
        each
        for each in heard.messages
        if isinstance(each, dict)
        and isinstance(each.get("params"), dict)
        and each["params"].get("progressToken") == token
    ]
    return heard.answers_to(call["id"]) + progress


async def _judge_strangers(probe: Probe, call: JsonObject, first: RawResponse) -> None:
    async with open_unjudged(probe) as connection:
        if connection.carrier.session is None:
            return
        heard = await _resume(connection, first.ids[0], call["id"], probe.target.settling)
        stray = _of(heard, call)
        probe.holds(_REPLAY, not stray, f"replays messages of another session: {stray[:1]}")


async def _judge_disconnect(probe: Probe, connection: RawConnection) -> None:
    for call in calls(probe):
        async with exchange(connection, call) as heard:
            if not heard.is_stream:
                continue
            await heard.until(lambda heard: bool(heard.ids), connection.patience)
            if not heard.ids or heard.answers_to(call["id"]):
                continue
        resumed = await _resume(connection, heard.ids[-1], call["id"], connection.patience)
        probe.holds(
            _CANCEL,
            resumed.answers_to(call["id"]),
            f"never answers {call['params']['name']} once its client disconnected",
        )
        return
    probe.skip(_CANCEL, "no call takes long enough to disconnect during it")


@scenario(
    "sse.endpoint.stream",
    "sse.endpoint.post",
    "sse.connect.endpoint-event",
    "sse.server.message-event",
    "sse.server.event-data-json",
    on=("sse",),
)
async def speaks_over_two_endpoints(probe: Probe) -> None:
    async with probe.open(is_judged=False, capabilities={}) as connection:
        carrier: SseCarrier = connection.carrier
        probe.holds("sse.endpoint.stream", condition=True, why="")
        await connection.ask("ping")
        await connection.ask(harmless_method(probe.facts))
        for tool, arguments in probe.facts.callable_tools()[:3]:
            await connection.ask("tools/call", {"name": tool["name"], "arguments": arguments})
        _judge_endpoint(probe, carrier)
        odd = [status for status in carrier.statuses if not 200 <= status < 300]
        probe.holds("sse.endpoint.post", not odd, f"answers a posted message with status {odd[:1]}")
        unnamed = [each.name for each in carrier.odd if _is_message(each.data)]
        probe.holds(
            "sse.server.message-event",
            not unnamed,
            f"sends a message as an event named {unnamed[:1]}, expected 'message'",
        )
        broken = [record.raw for record in connection.log.records if record.raw is not None]
        probe.holds(
            "sse.server.event-data-json",
            not broken,
            f"sends a message event with data that is not JSON: {broken[:1]}",
        )


def _judge_endpoint(probe: Probe, carrier: SseCarrier) -> None:
    id = "sse.connect.endpoint-event"
    first = carrier.first
    assert first is not None
    if not probe.holds(
        id,
        first.name == "endpoint",
        f"sends an event {first.name!r} first, expected 'endpoint'",
    ):
        return
    text = first.data.decode(errors="replace")
    is_uri = False
    with contextlib.suppress(ValueError):
        parts = urlsplit(text)
        is_uri = bool(parts.path or parts.query) and text == text.strip() and " " not in text
    probe.holds(id, is_uri, f"names the endpoint {text[:80]!r}, expected a URI")


def _is_message(data: bytes) -> bool:
    try:
        message = msgspec.json.decode(data)
    except ValueError:
        return False
    return isinstance(message, dict) and "jsonrpc" in message
