"""Streamable HTTP: statuses, content types, streams, the version header, origins and addresses."""

import asyncio
import socket
from collections import Counter
from contextlib import AsyncExitStack
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from accord.bindings.addresses import is_loopback
from accord.bindings.sse import CONTENT_TYPE
from accord.check.probing.exchange import RawResponse, exchange, post_message
from accord.check.probing.http import CONTENT_JSON
from accord.check.probing.messages import new_request
from accord.check.probing.probe import Probe
from accord.check.probing.raw_connection import ConnectionEnded, MessageTimeout, RawConnection
from accord.check.scenarios._scenario import scenario
from accord.check.scenarios.server._requests import (
    INITIALIZED,
    PERMISSION,
    calls,
    end_session,
    harmless_method,
    initialize,
    open_unjudged,
)
from accord.errors import AccordError, ConnectFailed
from accord.protocol.revisions import REVISIONS
from accord.types import JsonObject

_FOREIGN: Final = "http://accord-check.example"
_UNKNOWN_VERSION: Final = "1999-12-31"
# Without the header a request counts as of the first revision with Streamable HTTP.
_UNNAMED: Final = next(row.id for row in REVISIONS.values() if row.streamable_http)
_ANY_ADDRESS: Final = ("192.0.2.1", 9)
_DIALLING: Final = 1.0


# -- accepted messages


@scenario("http.post.accepted-202", "http.post.refused-status", on=("http",))
async def posts_messages_without_an_answer(probe: Probe) -> None:
    nothing = {"jsonrpc": "2.0", "id": "accord-check-nobody-asked", "result": {}}
    malformed = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}
    async with probe.open(is_judged=False, begins=False) as connection:
        await connection.initialize(probe.revision, is_confirmed=False)
        for message, what in [
            (INITIALIZED, "notifications/initialized"),
            (nothing, "a response"),
            (malformed, "a malformed notification"),
        ]:
            _judge_acceptance(probe, await post_message(connection, message), what)


def _judge_acceptance(probe: Probe, heard: RawResponse, what: str) -> None:
    accepted, refused = "http.post.accepted-202", "http.post.refused-status"
    if heard.code is not None and heard.status < 400:
        probe.fail(refused, f"refuses {what} with status {heard.status}, expected an error's")
    elif heard.status < 400:
        is_right = heard.status == 202 and not heard.body and not heard.is_stream
        extra = " and a body" if heard.body else ""
        probe.holds(
            accepted,
            is_right,
            f"answers {what} with status {heard.status}{extra}, expected 202 without a body",
        )
    else:
        probe.holds(refused, condition=True, why="")


# -- streams


class _Traffic(msgspec.Struct):
    """The responses of one session, to POST and to GET."""

    posts: list[tuple[Any, RawResponse]] = []
    listening: list[RawResponse] = []

    @property
    def streams(self) -> list[tuple[Any, RawResponse]]:
        return [(message, heard) for message, heard in self.posts if heard.is_stream]


@scenario(
    "http.endpoint.single-post-get",
    "http.get.stream-or-405",
    "http.get.no-responses",
    "http.get.server-messages",
    "http.post.response-content-type",
    "http.post.stream-one-response-per-request",
    "http.post.stream-messages-before-response",
    "http.server.sse-optional",
    "http.sse.closed-after-response",
    "http.sse.event-id-unique",
    "http.sse.not-closed-before-response",
    "http.sse.retry-before-close",
    "http.sse.terminate-after-response",
    "http.streams.no-broadcast",
    on=("http",),
)
async def reads_all_streams_of_a_session(probe: Probe) -> None:
    traffic = _Traffic()
    async with open_unjudged(probe) as connection, AsyncExitStack() as stack:
        await _listen(probe, connection, stack, traffic)
        if probe.facts.declares("logging"):
            await post_message(connection, new_request("logging/setLevel", {"level": "debug"}))
        for message in [
            new_request("ping"),
            new_request(harmless_method(probe.facts)),
            *calls(probe),
        ]:
            await _post(probe, connection, message, traffic)
        if REVISIONS[probe.revision].batching:
            await _post(probe, connection, [new_request("ping"), new_request("ping")], traffic)
        for heard in traffic.listening:
            await heard.rest(probe.target.settling)
    _judge_answers(probe, traffic)
    _judge_listening(probe, traffic)
    _judge_broadcast(probe, traffic)
    _judge_event_ids(probe, traffic)


async def _listen(
    probe: Probe, connection: RawConnection, stack: AsyncExitStack, traffic: _Traffic
) -> None:
    heard = await stack.enter_async_context(exchange(connection, method="GET", accept=CONTENT_TYPE))
    is_missing = heard.status == 404
    probe.holds(
        "http.endpoint.single-post-get",
        not is_missing,
        "has nothing at the endpoint for GET (status 404), expected a stream or 405",
    )
    if not is_missing:
        probe.holds(
            "http.get.stream-or-405",
            heard.is_stream or heard.status == 405,
            f"answers GET with {heard}, expected {CONTENT_TYPE} or status 405",
        )
    if not heard.is_stream:
        return
    traffic.listening.append(heard)
    # Some servers allow one GET stream per session.
    other = await stack.enter_async_context(exchange(connection, method="GET", accept=CONTENT_TYPE))
    if other.is_stream:
        traffic.listening.append(other)


async def _post(
    probe: Probe,
    connection: RawConnection,
    message: JsonObject | list[JsonObject],
    traffic: _Traffic,
) -> None:
    ids = _ids_of(message)
    async with exchange(connection, message) as heard:
        await heard.until(
            lambda heard: all(heard.answers_to(id) for id in ids), connection.patience
        )
        await heard.rest(probe.target.settling if heard.is_stream else connection.patience)
    traffic.posts.append((message, heard))


def _ids_of(message: JsonObject | list[JsonObject]) -> list[object]:
    return [each["id"] for each in (message if isinstance(message, list) else [message])]


def _judge_answers(probe: Probe, traffic: _Traffic) -> None:
    for message, heard in traffic.posts:
        if heard.is_ok:
            probe.holds(
                "http.post.response-content-type",
                heard.content_type in (CONTENT_TYPE, CONTENT_JSON),
                f"answers {_what(message)} with Content-Type {heard.content_type or 'missing'!r},"
                f" expected {CONTENT_TYPE} or {CONTENT_JSON}",
            )
    if not traffic.streams:
        for id in ("http.server.sse-optional", "http.post.stream-messages-before-response"):
            probe.not_applicable(id, PERMISSION)
    for message, heard in traffic.streams:
        probe.holds("http.server.sse-optional", condition=True, why="")
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
    strangers = len(heard.answers()) - sum(counts.values())
    probe.holds(
        "http.post.stream-one-response-per-request",
        max(counts.values()) == 1 and not strangers,
        f"sends {len(heard.answers())} responses on the stream of {what}, expected {len(ids)}",
    )
    probe.holds("http.sse.not-closed-before-response", condition=True, why="")
    probe.not_applicable("http.sse.retry-before-close", "the server ends no stream early")
    for id in ("http.sse.closed-after-response", "http.sse.terminate-after-response"):
        why = f"leaves the stream of {what} open after the response"
        probe.holds(id, heard.has_ended, why)
    if len(heard.messages) > len(heard.answers()):
        probe.holds("http.post.stream-messages-before-response", condition=True, why="")


def _judge_listening(probe: Probe, traffic: _Traffic) -> None:
    if not traffic.listening:
        for id in ("http.get.no-responses", "http.get.server-messages"):
            probe.not_applicable(id, "the server offers no stream by GET")
        return
    answers = [answer for heard in traffic.listening for answer in heard.answers()]
    probe.holds(
        "http.get.no-responses", not answers, f"sends responses on a GET stream: {answers[:1]}"
    )
    if any(heard.messages for heard in traffic.listening):
        probe.holds("http.get.server-messages", condition=True, why="")
    probe.not_applicable("http.get.server-messages", PERMISSION)


def _judge_broadcast(probe: Probe, traffic: _Traffic) -> None:
    id = "http.streams.no-broadcast"
    if not traffic.listening:
        probe.not_applicable(id, "the server never has two streams open")
        return
    told = [_tally(heard, is_unique=False) for heard in traffic.listening]
    common = set.intersection(*(set(each) for each in told)) if len(told) > 1 else set()
    # Equal messages may be one per stream; as many of each kind on both are not a coincidence.
    twice = [text for text in common if all(each[text] == told[0][text] for each in told)]
    for _, heard in traffic.streams:
        own = _tally(heard, is_unique=True)
        twice += [text for text in own for each in told if text in each]
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
    probe.holds(
        "http.sse.event-id-unique", not twice, f"uses event ids twice in a session: {twice[:3]}"
    )


def _what(message: JsonObject | list[JsonObject]) -> str:
    if isinstance(message, list):
        return "a batch"
    params = message.get("params")
    name = params.get("name") if isinstance(params, dict) else None
    return f"{message['method']} of {name}" if name else str(message["method"])


@scenario("http.post.related-requests-on-stream", "http.get.unrelated-messages", on=("http",))
async def calls_several_tools_at_once(probe: Probe) -> None:
    wanted = calls(probe)
    if not wanted:
        probe.skip("http.post.related-requests-on-stream", "no tool may be called")
        return
    # The monitor judges which message belongs on which stream.
    async with probe.open(capabilities={}) as connection:
        for message in wanted:
            await connection.send(message)
        for message in wanted:
            await connection.reply_to(message["id"], what=_what(message))


# -- the version header


@scenario("http.version-header.bad-400", on=("http",))
async def sends_an_unknown_version_header(probe: Probe) -> None:
    async with open_unjudged(probe) as connection:
        for version in (_UNKNOWN_VERSION, "accord-check"):
            heard = await post_message(
                connection, new_request("ping"), mcp_protocol_version=version
            )
            probe.holds(
                "http.version-header.bad-400",
                heard.status == 400,
                f"answers MCP-Protocol-Version {version!r} with {heard}, expected 400",
            )


@scenario("http.version-header.default-2025-03-26", on=("http",))
async def sends_no_version_header(probe: Probe) -> None:
    id = "http.version-header.default-2025-03-26"
    async with open_unjudged(probe, revision=_UNNAMED) as connection:
        if connection.revision != _UNNAMED:
            probe.not_applicable(id, f"the server does not speak {_UNNAMED}")
            return
        heard = await post_message(connection, new_request("ping"), mcp_protocol_version=None)
        probe.holds(id, heard.is_ok, f"answers a request without MCP-Protocol-Version with {heard}")


# -- origins and addresses


@scenario("http.origin.validated", "http.origin.invalid-403", on=("http", "sse"))
async def sends_a_foreign_origin(probe: Probe) -> None:
    ids = ("http.origin.validated", "http.origin.invalid-403")
    if not is_loopback(urlsplit(probe.target.url).hostname or ""):
        for id in ids:
            probe.skip(id, "foreign origins are known for servers on this machine only")
        return
    async with probe.open(is_judged=False, begins=False) as connection:
        if probe.facts.transport == "http":
            heard = await post_message(connection, initialize(probe.revision), origin=_FOREIGN)
            await end_session(connection, heard)
        else:
            headers = {"accept": CONTENT_TYPE, **probe.target.headers, "origin": _FOREIGN}
            async with exchange(connection, method="GET", headers=headers) as heard:
                pass
    if probe.holds(ids[0], not heard.is_ok, f"serves a request with Origin {_FOREIGN}"):
        probe.holds(
            ids[1],
            heard.status == 403,
            f"refuses a foreign Origin with {heard}, expected status 403",
        )


@scenario("http.server.bind-localhost", on=("http", "sse"))
async def connects_to_the_address_of_this_machine(probe: Probe) -> None:
    id = "http.server.bind-localhost"
    if not probe.target.is_launched:
        probe.skip(id, "the check did not launch the server itself")
        return
    address = own_address()
    if address is None:
        probe.skip(id, "this machine has no address but loopback")
        return
    port = urlsplit(probe.target.url).port
    is_open = True
    try:
        async with asyncio.timeout(_DIALLING):
            _, writer = await asyncio.open_connection(address, port)
        writer.close()
    except (OSError, TimeoutError):
        is_open = False
    probe.holds(id, not is_open, f"listens at {address}, not only at loopback")


def own_address() -> str | None:
    """Return the address of this machine in its network; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probing:
        try:
            probing.connect(_ANY_ADDRESS)
        except OSError:
            return None
        address = str(probing.getsockname()[0])
    return None if address.startswith(("127.", "0.")) else address


# -- the end


@scenario("lifecycle.shutdown.http-close", on=("http", "sse"))
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
    probe.holds(id, not reply.is_error, f"answers {reply} once connections were closed")
