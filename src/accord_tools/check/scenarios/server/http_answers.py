"""Streamable HTTP: statuses, content types, streams, the version header."""

from collections import Counter
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Final

import msgspec

from accord.errors import AccordError, ConnectFailed
from accord.http.rules.gate import UNNAMED
from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.jsonrpc import METHOD_NOT_FOUND
from accord.protocol.party import META_LOG_LEVEL
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import (
    CONTENT_JSON,
    RawResponse,
    exchange,
    post_message,
)
from accord_tools.check.probing.messages import new_notification, new_request, objects_in, params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord_tools.check.scenarios._scenario import (
    INITIALIZED,
    PERMISSION,
    UNINITIALIZED_UNJUDGED,
    bare_scenario,
    calls,
    complete_request,
    harmless_method,
    open_unjudged,
    scenario,
)

_ACCEPTED: Final = "http.post.accepted-202"
# How many resources are watched.
_WATCHED: Final = 3
_REFUSED: Final = "http.post.refused-status"
_DEFAULT: Final = "http.version-header.default-2025-03-26"
# Which message belongs on which stream.
_PLACED: Final = (
    "http.post.related-requests-on-stream",
    "http.get.unrelated-messages",
    "http.sse.notifications-related",
    "http.sse.listen-excludes-request-scoped",
    "http.sse.no-requests",
)
EVERY_CHANGE: Final = {
    "toolsListChanged": True,
    "promptsListChanged": True,
    "resourcesListChanged": True,
}
"""A filter that lets a stream carry all changes of lists."""
_UNKNOWN_VERSION: Final = "1999-12-31"
# That the answer ends its stream, as revisions say it.
_ENDS: Final = (
    "http.sse.closed-after-response",
    "http.sse.terminate-after-response",
    "http.sse.response-ends-stream",
)


# -- accepted messages


@scenario(_ACCEPTED, _REFUSED, opens=UNINITIALIZED_UNJUDGED, on=("http",), era="handshake")
async def posts_messages_without_an_answer(probe: Probe, connection: RawConnection) -> None:
    nothing = {"jsonrpc": "2.0", "id": "accord-check-nobody-asked", "result": {}}
    late = new_notification("notifications/cancelled", {"requestId": "accord-check-nobody"})
    malformed = new_notification("notifications/cancelled", {"requestId": {}})
    await connection.initialize(probe.revision, is_confirmed=False)
    for message, what in [
        (INITIALIZED, "notifications/initialized"),
        (late, "notifications/cancelled"),
        (nothing, "a response"),
        (malformed, "a malformed notification"),
    ]:
        _judge_acceptance(probe, await post_message(connection, message), what)


@scenario(_ACCEPTED, _REFUSED, opens=open_unjudged, on=("http",), era="stateless")
async def posts_notifications(probe: Probe, connection: RawConnection) -> None:
    for message, what in [
        (new_notification("notifications/cancelled", {"requestId": "accord-check"}), "a late one"),
        (new_notification("notifications/accord-check"), "an unknown one"),
        (new_notification("notifications/cancelled", {"requestId": {}}), "a malformed one"),
    ]:
        heard = await post_message(connection, message)
        _judge_acceptance(probe, heard, f"{message['method']}, {what}")
    message = new_notification("notifications/cancelled", {"requestId": "accord-check"})
    heard = await post_message(connection, message, mcp_protocol_version=_UNKNOWN_VERSION)
    _judge_acceptance(probe, heard, f"a notification under version {_UNKNOWN_VERSION}")


def _judge_acceptance(probe: Probe, heard: RawResponse, what: str) -> None:
    if heard.code is not None and heard.status < 400:
        probe.fail(_REFUSED, f"refuses {what} with status {heard.status}, expected an error's")
    elif heard.status < 400:
        is_right = heard.status == 202 and not heard.body and not heard.is_stream
        extra = " and a body" if heard.body else ""
        why = f"answers {what} with status {heard.status}{extra}, expected 202 without a body"
        probe.holds(_ACCEPTED, is_right, why)
    else:
        probe.passes(_REFUSED)


# -- streams


class _Traffic(msgspec.Struct):
    """The responses of one session, to POST and to GET."""

    posts: list[tuple[Any, RawResponse]] = []
    listening: list[RawResponse] = []

    @property
    def streams(self) -> list[tuple[Any, RawResponse]]:
        return [(message, heard) for message, heard in self.posts if heard.is_stream]


@bare_scenario(
    "http.endpoint.single-post-get",
    "http.get.stream-or-405",
    "http.get.no-responses",
    "http.get.server-messages",
    "http.post.response-content-type",
    "http.post.stream-one-response-per-request",
    "http.post.stream-messages-before-response",
    "http.server.sse-optional",
    "http.sse.accel-buffering-off",
    "http.sse.closed-after-response",
    "http.sse.event-id-unique",
    "http.sse.no-event-ids",
    "http.sse.not-closed-before-response",
    "http.sse.response-ends-stream",
    "http.sse.retry-before-close",
    "http.sse.terminate-after-response",
    "http.streams.no-broadcast",
    on=("http",),
)
async def reads_all_streams_of_a_session(probe: Probe) -> None:
    traffic = _Traffic()
    messages: list[Any] = [complete_request(probe, harmless_method(probe.facts))]
    messages += calls(probe)
    row = REVISIONS[probe.revision]
    if row.handshake:
        messages.insert(0, new_request("ping"))
    if row.batching:
        messages.append([new_request("ping"), new_request("ping")])
    async with open_unjudged(probe) as connection, AsyncExitStack() as stack:
        if row.handshake:
            await _listen(probe, connection, stack, traffic)
        if row.handshake and probe.facts.declares("logging"):
            await post_message(connection, new_request("logging/setLevel", {"level": "debug"}))
        if row.handshake and probe.facts.declares("resources.subscribe"):
            for uri in _uris(probe):
                await post_message(connection, new_request("resources/subscribe", {"uri": uri}))
        for message in messages:
            await _post(probe, connection, message, traffic)
        for heard in traffic.listening:
            await heard.rest(probe.target.settling)
    _judge_answers(probe, traffic)
    _judge_listening(probe, traffic)
    _judge_broadcast(probe, traffic)
    _judge_event_ids(probe, traffic)
    _judge_heads(probe, traffic)


def _uris(probe: Probe) -> list[str]:
    """Return a few resources: one whose updates come while tools are called may be among them."""
    uris = [each.get("uri") for each in probe.facts.resources]
    return [each for each in uris if isinstance(each, str)][:_WATCHED]


async def _listen(
    probe: Probe, connection: RawConnection, stack: AsyncExitStack, traffic: _Traffic
) -> None:
    heard = await stack.enter_async_context(exchange(connection, method="GET", accept=CONTENT_TYPE))
    is_right = heard.is_stream or heard.status == 405
    why = f"answers GET with {heard}, expected {CONTENT_TYPE} or status 405"
    probe.holds("http.get.stream-or-405", is_right, why)
    why = "has nothing at the endpoint for GET (status 404)"
    probe.holds("http.endpoint.single-post-get", heard.status != 404, why)
    if not heard.is_stream:
        return
    traffic.listening.append(heard)
    # Some servers allow one GET stream per session.
    other = await stack.enter_async_context(exchange(connection, method="GET", accept=CONTENT_TYPE))
    if other.is_stream:
        traffic.listening.append(other)


async def _post(probe: Probe, connection: RawConnection, message: Any, traffic: _Traffic) -> None:
    ids = _ids_of(message)
    async with exchange(connection, message) as heard:
        await heard.until(
            lambda heard: all(heard.answers_to(id) for id in ids), connection.patience
        )
        await heard.rest(probe.target.settling if heard.is_stream else connection.patience)
    traffic.posts.append((message, heard))


def _ids_of(message: JsonObject | list[JsonObject]) -> list[object]:
    return [each["id"] for each in objects_in(message)]


def _judge_answers(probe: Probe, traffic: _Traffic) -> None:
    for message, heard in traffic.posts:
        if heard.is_ok:
            kind = heard.content_type
            why = f"answers {_what(message)} with Content-Type {kind or 'missing'!r},"
            why += f" expected {CONTENT_TYPE} or {CONTENT_JSON}"
            is_right = kind in (CONTENT_TYPE, CONTENT_JSON)
            probe.holds("http.post.response-content-type", is_right, why)
    if not traffic.streams:
        ids = ("http.server.sse-optional", "http.post.stream-messages-before-response")
        probe.not_applicable(ids, PERMISSION)
    for message, heard in traffic.streams:
        probe.passes("http.server.sse-optional")
        _judge_stream(probe, message, heard)


def _judge_stream(probe: Probe, message: JsonObject | list[JsonObject], heard: RawResponse) -> None:
    ids, what = _ids_of(message), _what(message)
    counts = {id: len(heard.answers_to(id)) for id in ids}
    if not all(counts.values()):
        if not heard.has_ended:
            return  # no answer: other scenarios report that
        why = f"ends the stream of {what} before its response"
        probe.fail("http.sse.not-closed-before-response", why)
        probe.holds("http.sse.retry-before-close", heard.retry, f"{why} and sends no retry field")
        return
    responses = len(heard.answers())
    is_right = max(counts.values()) == 1 and responses == sum(counts.values())
    why = f"sends {responses} responses on the stream of {what}, expected {len(ids)}"
    probe.holds("http.post.stream-one-response-per-request", is_right, why)
    probe.passes("http.sse.not-closed-before-response")
    probe.not_applicable("http.sse.retry-before-close", "the server ends no stream early")
    for id in _ENDS:
        why = f"leaves the stream of {what} open after the response"
        probe.holds(id, heard.has_ended, why)
    if len(heard.messages) > responses:
        probe.passes("http.post.stream-messages-before-response")


def _judge_listening(probe: Probe, traffic: _Traffic) -> None:
    if not traffic.listening:
        ids = ("http.get.no-responses", "http.get.server-messages")
        probe.not_applicable(ids, "the server offers no stream by GET")
        return
    answers = [answer for heard in traffic.listening for answer in heard.answers()]
    why = f"sends responses on a GET stream: {answers[:1]}"
    probe.holds("http.get.no-responses", not answers, why)
    if any(heard.messages for heard in traffic.listening):
        probe.passes("http.get.server-messages")
    probe.not_applicable("http.get.server-messages", PERMISSION)


def _judge_broadcast(probe: Probe, traffic: _Traffic) -> None:
    id = "http.streams.no-broadcast"
    if not traffic.listening:
        probe.not_applicable(id, "the server never has two streams open")
        return
    told = [_tally(heard, is_unique=False) for heard in traffic.listening]
    if not any(told):
        probe.skip(id, "the server sent nothing on its GET streams")
        return
    common = set.intersection(*(set(each) for each in told)) if len(told) > 1 else set()
    # Equal messages may be one per stream; as many of each kind on both are not a coincidence.
    twice = [text for text in common if all(each[text] == told[0][text] for each in told)]
    for _, heard in traffic.streams:
        own = _tally(heard, is_unique=True)
        twice += [text for text in own for each in told if text in each]
    posted = sum((_tally(heard, is_unique=False) for _, heard in traffic.streams), Counter[str]())
    for each in told:
        kinds = set(posted) & set(each)
        # One message may be said here and there by chance, but not each as often.
        if len(kinds) > 1 and all(posted[text] == each[text] for text in kinds):
            twice += kinds
    probe.holds(id, not twice, f"sends a message on several streams: {twice[:1]}")


def _tally(heard: RawResponse, *, is_unique: bool) -> Counter[str]:
    """Count the messages of a stream apart from answers, or only those that are unique."""
    return Counter(
        msgspec.json.encode(each).decode()
        for each in heard.messages
        if isinstance(each, dict)
        and "method" in each
        and (not is_unique or "id" in each or each["method"] == "notifications/progress")
    )


def _judge_event_ids(probe: Probe, traffic: _Traffic) -> None:
    streams = [heard for _, heard in traffic.streams] + traffic.listening
    ids = Counter(id for heard in streams for id in heard.ids)
    if not ids:
        probe.not_applicable("http.sse.event-id-unique", "the server gives its events no ids")
        return
    twice = [id for id, count in ids.items() if count > 1]
    why = f"uses event ids twice in a session: {twice[:3]}"
    probe.holds("http.sse.event-id-unique", not twice, why)


def _judge_heads(probe: Probe, traffic: _Traffic) -> None:
    """Judge what the streams of stateless requests look like."""
    for message, heard in traffic.streams:
        why = f"answers {_what(message)} with a stream without X-Accel-Buffering: no"
        value = heard.headers.get("x-accel-buffering", "")
        probe.holds("http.sse.accel-buffering-off", value.strip().lower() == "no", why)
        why = f"gives events ids although no stream can be resumed: {heard.ids[:1]}"
        probe.holds("http.sse.no-event-ids", not heard.ids, why)


def _what(message: JsonObject | list[JsonObject]) -> str:
    if isinstance(message, list):
        return "a batch"
    name = params_of(message).get("name")
    return f"{message['method']} of {name}" if name else str(message["method"])


@bare_scenario(
    *_PLACED,
    on=("http",),
    sends=("tools/call",),
)
async def calls_several_tools_at_once(probe: Probe) -> None:
    wanted = calls(probe)
    if not wanted:
        probe.skip(_PLACED, "no tool may be called")
        return
    # The monitor judges which message belongs on which stream.
    async with probe.open(capabilities={}) as connection:
        if connection.is_stateless:
            await connection.start("subscriptions/listen", {"notifications": EVERY_CHANGE})
            for message in wanted:
                # Log messages belong on the stream of the call that asks for them.
                message["params"]["_meta"][META_LOG_LEVEL] = "debug"
        for message in wanted:
            await connection.send(message)
        for message in wanted:
            await connection.reply_to(message["id"], what=_what(message))
        if connection.is_stateless:
            await connection.collect(probe.target.settling)


# -- the version header


@scenario("http.version-header.bad-400", opens=open_unjudged, on=("http",))
async def sends_an_unknown_version_header(probe: Probe, connection: RawConnection) -> None:
    for version in (_UNKNOWN_VERSION, "accord-check"):
        message = new_request("ping")
        heard = await post_message(connection, message, mcp_protocol_version=version)
        why = f"answers MCP-Protocol-Version {version!r} with {heard}, expected 400"
        probe.holds("http.version-header.bad-400", heard.status == 400, why)
    async with exchange(
        connection, method="GET", accept=CONTENT_TYPE, mcp_protocol_version=_UNKNOWN_VERSION
    ) as heard:
        pass
    why = f"answers GET with MCP-Protocol-Version {_UNKNOWN_VERSION!r} with a stream, expected 400"
    probe.holds("http.version-header.bad-400", not heard.is_stream, why)


@scenario(_DEFAULT, opens=partial(open_unjudged, revision=UNNAMED.id), on=("http",))
async def sends_no_version_header(probe: Probe, connection: RawConnection) -> None:
    if connection.revision != UNNAMED.id:
        probe.not_applicable(_DEFAULT, f"the server does not speak {UNNAMED.id}")
        return
    heard = await post_message(connection, new_request("ping"), mcp_protocol_version=None)
    why = f"answers a request without MCP-Protocol-Version with {heard}"
    probe.holds(_DEFAULT, heard.is_ok, why)


# -- the end


@bare_scenario("lifecycle.shutdown.http-close", on=("http", "sse"))
async def reconnects_after_closing_all_connections(probe: Probe) -> None:
    id = "lifecycle.shutdown.http-close"
    async with probe.open(is_judged=False) as connection:
        left = getattr(connection.carrier, "session", None)
        # Close without any message: over HTTP that ends a session.
        connection.carrier.session = None
    try:
        async with probe.open(is_judged=False) as connection:
            reply = await connection.ask("ping")
            if left is not None:
                async with exchange(connection, method="DELETE", mcp_session_id=left):
                    pass
    except (ConnectionEnded, MessageTimeout, ConnectFailed) as error:
        probe.fail(id, f"serves no request once connections were closed: {error}")
        return
    except AccordError as error:
        probe.skip(id, str(error))
        return
    # That ping is unknown is reported as ping.response.prompt.
    is_served = not reply.is_error or reply.code == METHOD_NOT_FOUND
    probe.holds(id, is_served, f"answers {reply} once connections were closed")
