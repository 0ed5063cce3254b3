"""Requests that stand on their own over HTTP: versions, statuses, older traffic, closed streams."""

from contextlib import AsyncExitStack
from typing import Final

from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.revisions import HANDSHAKE
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import RawResponse, exchange, post_message
from accord_tools.check.probing.messages import (
    EVERYTHING_STATELESS,
    Reply,
    answer_round,
    new_request,
    params_of,
    stamp,
)
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.scenarios._scenario import (
    LISTS,
    bare_scenario,
    calls,
    complete_request,
    harmless_method,
    initialize,
    open_unjudged,
    scenario,
)
from accord_tools.check.scenarios.server.http import EVERY_CHANGE
from accord_tools.check.scenarios.server.http_headers import judge_refusal

_ENDPOINT: Final = "http.endpoint.single-post"
_DIFFERS: Final = "http.version-header.mismatch-rejected"
_UNSUPPORTED: Final = "http.version-header.unsupported-400"
_MISSING: Final = "http.version-header.missing-rejected"
_BODY: Final = "http.headers.mismatch-jsonrpc-body"
_NOT_FOUND: Final = "http.method-not-found.404"
_META: Final = "meta.request.missing-field-http-400"
_CAPABILITY: Final = "capability.missing-error-http-400"
_NO_GET: Final = "http.legacy-traffic.get-delete-405"
_NO_SESSION: Final = "http.legacy-traffic.session-header-ignored"
_NO_RESUMING: Final = "http.legacy-traffic.last-event-id-ignored"
_OLDER: Final = (_NO_GET, _NO_SESSION, _NO_RESUMING)
_AFFINITY: Final = "stateless.no-connection-affinity"
_ON: Final = ("http",)
_UNKNOWN_VERSION: Final = "1999-12-31"
_HEADER_MISMATCH: Final = -32020
_MISSING_CAPABILITY: Final = -32021
_UNSUPPORTED_VERSION: Final = -32022
_METHOD_NOT_FOUND: Final = -32601
# The first revision with the version header.
_WITH_HEADER: Final = next(id for id, row in HANDSHAKE.items() if row.version_header)


async def _speaks(connection: RawConnection, revision: str) -> bool:
    """Return whether the server agrees to a revision with a handshake; the session is ended."""
    message = initialize(revision)
    sent = connection.carrier.heads()
    sent.pop("mcp-protocol-version", None)
    heard = await post_message(connection, message, headers=sent)
    given = heard.headers.get("mcp-session-id")
    if given is not None:
        ending = sent | {"mcp-session-id": given}
        async with exchange(connection, method="DELETE", headers=ending):
            pass
    return any(each.get("protocolVersion") == revision for each in _results(heard, message))


# -- the endpoint and the version


@scenario(_ENDPOINT, opens=open_unjudged, on=_ON, era="stateless")
async def posts_requests_of_all_kinds(probe: Probe, connection: RawConnection) -> None:
    wanted = [complete_request(probe, "server/discover")]
    for name, method in LISTS.items():
        if probe.facts.declares(name):
            wanted.append(complete_request(probe, method))
    for message in [*wanted, *calls(probe)[:1]]:
        heard = await post_message(connection, message)
        is_lost = heard.status in (404, 405) or 300 <= heard.status < 400
        why = f"answers {message['method']} at its endpoint with {heard}, expected a response"
        probe.holds(_ENDPOINT, not is_lost or bool(heard.answers()), why)


@scenario(_DIFFERS, _UNSUPPORTED, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def names_versions_wrongly(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_protocol_version=[*HANDSHAKE][-1])
        # A server may take a request for an older one by its header, and serve or refuse it so.
        if heard.status == 400 or any("resultType" in each for each in _results(heard, message)):
            why = f"answers {method} with {heard}, where header and _meta name different versions,"
            probe.holds(_DIFFERS, heard.status == 400, f"{why} expected status 400")
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_protocol_version=_UNKNOWN_VERSION)
        what = f"{method} with MCP-Protocol-Version {_UNKNOWN_VERSION} and another one in _meta"
        if heard.status == 400 and heard.code == _UNSUPPORTED_VERSION:
            probe.passes(_DIFFERS)  # the header names a version that it does not support
        else:
            judge_refusal(probe, _DIFFERS, heard, what)
        params = stamp(probe.revision, {"_meta": {META_VERSION: _UNKNOWN_VERSION}}, {})
        heard = await post_message(connection, new_request(method, params))
        is_right = heard.status == 400 and heard.code == _UNSUPPORTED_VERSION
        why = f"answers {method} under version {_UNKNOWN_VERSION} with {heard}"
        why += f" and error {heard.code}, expected 400 and {_UNSUPPORTED_VERSION}"
        probe.holds(_UNSUPPORTED, is_right, why)


@scenario(_MISSING, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def omits_the_version_header(probe: Probe, connection: RawConnection) -> None:
    older = [id for id in HANDSHAKE if not HANDSHAKE[id].version_header]
    serves_older = [each for each in older if await _speaks(connection, each)]
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_protocol_version=None)
        if not serves_older:
            judge_refusal(probe, _MISSING, heard, f"{method} without MCP-Protocol-Version")
        elif heard.status == 400 and heard.code == _HEADER_MISMATCH:
            probe.passes(_MISSING)
    why = f"the server also serves {', '.join(serves_older)}, which have no such header"
    probe.not_applicable(_MISSING, why)


# -- statuses of errors


@scenario(_NOT_FOUND, opens=open_unjudged, on=_ON, era="stateless")
async def asks_for_unknown_methods(probe: Probe, connection: RawConnection) -> None:
    for method in ("accord-check/unknown", "tools/unknown"):
        heard = await post_message(connection, complete_request(probe, method))
        is_right = heard.status == 404 and heard.code == _METHOD_NOT_FOUND
        why = f"answers an unknown method with {heard} and error {heard.code},"
        probe.holds(_NOT_FOUND, is_right, f"{why} expected 404 and {_METHOD_NOT_FOUND}")


@scenario(_META, opens=open_unjudged, on=_ON, era="stateless")
async def omits_parts_of_meta(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        del message["params"]["_meta"][META_CAPABILITIES]
        heard = await post_message(connection, message)
        if heard.code is not None:
            why = f"refuses {method} without {META_CAPABILITIES} with {heard}, expected status 400"
            probe.holds(_META, heard.status == 400, why)


@scenario(_CAPABILITY, opens=open_unjudged, on=_ON, era="stateless", sends=("tools/call",))
async def calls_tools_without_capabilities(probe: Probe, connection: RawConnection) -> None:
    for message in calls(probe):
        heard = await post_message(connection, message)
        if heard.code == _MISSING_CAPABILITY and not heard.is_stream:
            name = params_of(message).get("name")
            why = f"refuses {name} for a missing capability with {heard}, expected status 400"
            probe.holds(_CAPABILITY, heard.status == 400, why)


# -- traffic of older revisions


@scenario(*_OLDER, opens=open_unjudged, on=_ON, era="stateless")
async def sends_traffic_of_older_revisions(probe: Probe, connection: RawConnection) -> None:
    for revision in (_WITH_HEADER, [*HANDSHAKE][-1]):
        if await _speaks(connection, revision):
            probe.not_applicable(_OLDER, f"the server speaks {revision} as well")
            return
    for method in ("GET", "DELETE"):
        async with exchange(connection, method=method, accept=CONTENT_TYPE) as heard:
            pass
        probe.holds(_NO_GET, heard.status == 405, f"answers {method} with {heard}, expected 405")
    await _send_session_id(probe, connection)
    for last in ("1", "accord-check"):
        message = complete_request(probe, harmless_method(probe.facts))
        heard = await post_message(connection, message, last_event_id=last)
        why = f"answers a request with Last-Event-ID with {heard}, expected that it is ignored"
        probe.holds(_NO_RESUMING, _is_served(heard, message), why)


async def _send_session_id(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        for session in (None, "accord-check"):
            message = complete_request(probe, method)
            heard = await post_message(connection, message, mcp_session_id=session)
            why = f"answers {method} with Mcp-Session-Id with {heard}, expected that it is ignored"
            probe.holds(_NO_SESSION, _is_served(heard, message), why)
            given = "mcp-session-id" in heard.headers
            why = f"gives a session id in the response to {method}"
            probe.holds(_NO_SESSION, not given, why)


def _results(heard: RawResponse, message: JsonObject) -> list[JsonObject]:
    return [Reply(each).result for each in heard.answers_to(message["id"]) if "result" in each]


def _is_served(heard: RawResponse, message: JsonObject) -> bool:
    return bool(_results(heard, message))


# -- related requests on several connections


@bare_scenario(_AFFINITY, on=_ON, era="stateless", sends=("tools/call",))
async def goes_on_over_another_connection(probe: Probe) -> None:
    async with AsyncExitStack() as stack:
        one = await stack.enter_async_context(open_unjudged(probe))
        other = await stack.enter_async_context(open_unjudged(probe))
        await _turn_a_page(probe, one, other)
        if probe.facts.is_asking:
            await _finish_a_round(probe, one, other)
    probe.skip(_AFFINITY, "no request of the server's needs a second one")


async def _turn_a_page(probe: Probe, one: RawConnection, other: RawConnection) -> None:
    for name, method in LISTS.items():
        if not probe.facts.declares(name):
            continue
        message = complete_request(probe, method)
        first = await post_message(one, message)
        cursor = next((each.get("nextCursor") for each in _results(first, message)), None)
        if cursor is None:
            continue
        next_page = complete_request(probe, method, {"cursor": cursor})
        if not _is_served(await post_message(one, next_page), next_page):
            continue  # it refuses the cursor on every connection
        next_page = complete_request(probe, method, {"cursor": cursor})
        heard = await post_message(other, next_page)
        why = f"takes a cursor of {method} only on the connection that it was given on: {heard}"
        probe.holds(_AFFINITY, _is_served(heard, next_page), why)
        return


async def _finish_a_round(probe: Probe, one: RawConnection, other: RawConnection) -> None:
    for tool in probe.facts.callable_tools():
        if not await _answer_round_on(probe, one, one, tool.params):
            continue  # the tool asks nothing, or takes more than one answer
        heard = await _answer_round_on(probe, one, other, tool.params)
        why = f"goes on with {tool.name} only on the connection on which it asked"
        probe.holds(_AFFINITY, heard, why)
        return


async def _answer_round_on(
    probe: Probe, asking: RawConnection, answering: RawConnection, params: JsonObject
) -> bool:
    """Call a tool, answer its questions on a connection, and return whether that is accepted."""
    stamped = stamp(probe.revision, params, EVERYTHING_STATELESS)
    message = new_request("tools/call", stamped)
    heard = await post_message(asking, message)
    for each in heard.answers_to(message["id"]):
        repeat = answer_round(message, Reply(each), EVERYTHING_STATELESS)
        if repeat is not None:
            return _is_served(await post_message(answering, repeat), repeat)
    return False


# -- streams that stay open, and streams that the client closes

_COMMENTS: Final = "http.sse.keepalive-comments"
_CANCELS: Final = "http.cancel.disconnect-is-cancel"
_STOPS: Final = "http.cancel.stop-work"
_SILENT: Final = "http.cancel.no-further-messages"


@bare_scenario(_COMMENTS, _CANCELS, _STOPS, _SILENT, on=_ON, era="stateless", sends=("tools/call",))
async def closes_the_stream_of_a_call(probe: Probe) -> None:
    why = "what a server does once its client left cannot be seen from outside"
    probe.skip((_CANCELS, _STOPS), why)
    async with AsyncExitStack() as stack:
        listening = await stack.enter_async_context(open_unjudged(probe))
        calling = await stack.enter_async_context(open_unjudged(probe))
        listen = complete_request(probe, "subscriptions/listen", {"notifications": EVERY_CHANGE})
        heard = await stack.enter_async_context(exchange(listening, listen))
        for call in calls(probe):
            if await _leave(calling, call):
                await heard.rest(max(probe.target.settling, _QUIET))
                stray = _messages_of(heard, call)
                why = f"sends messages of a call whose stream was closed: {stray[:1]}"
                probe.holds(_SILENT, not stray, why)
                break
        else:
            probe.skip(_SILENT, "no call takes long enough to disconnect during it")
            await heard.rest(probe.target.settling)
    if heard.comments:
        probe.passes(_COMMENTS)
    probe.skip(_COMMENTS, "a check does not wait until a stream counts as quiet")


# A call that goes on after its client left says so within this time.
_QUIET: Final = 0.3


async def _leave(connection: RawConnection, call: JsonObject) -> bool:
    """Close the stream of a call after its first message; return whether it still went on."""
    async with exchange(connection, call) as heard:
        if not heard.is_stream:
            return False
        await heard.until(lambda heard: bool(heard.messages), connection.patience)
        return bool(heard.messages) and not heard.answers_to(call["id"])


def _messages_of(heard: RawResponse, call: JsonObject) -> list[JsonObject]:
    token = call["params"]["_meta"]["progressToken"]
    messages = [each for each in heard.messages if isinstance(each, dict)]
    progress = [each for each in messages if params_of(each).get("progressToken") == token]
    return heard.answers_to(call["id"]) + progress
