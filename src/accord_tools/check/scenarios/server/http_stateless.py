"""Stateless requests over HTTP: versions, statuses, older traffic, closed streams.

Also headers that repeat the body, right and wrong.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

import msgspec

from accord.http.rules.sse import CONTENT_TYPE
from accord.protocol.exchange import META_CAPABILITIES, META_VERSION
from accord.protocol.mirroring import NAME_MEMBERS, MirroredArgument, encode_header, plain_text
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
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    LISTS,
    bare_scenario,
    calls,
    complete_request,
    harmless_method,
    initialize,
    messages_of,
    open_unjudged,
    scenario,
)
from accord_tools.check.scenarios.server.http_answers import EVERY_CHANGE

_NO_HEADER: Final = "http.headers.required-missing-rejected"
_WRONG_HEADER: Final = "http.headers.mismatch-rejected"
_BODY: Final = "http.headers.mismatch-jsonrpc-body"
_CASE: Final = "http.headers.names-case-insensitive"
_DECODED: Final = "http.headers.decode-before-compare"
_MARKERS: Final = "http.param-headers.value.markers-exact"
_CHARACTERS: Final = "http.headers.invalid-characters-rejected"
_NUMBERS: Final = "http.headers.integers-compared-numerically"
_ABSENT: Final = "http.param-headers.server-not-expected-without-value"
_UNREPEATED: Final = "http.param-headers.missing-with-value-rejected"
_MATCHED: Final = "http.param-headers.match-validated"
_PARAMS: Final = (_CHARACTERS, _NUMBERS, _ABSENT, _UNREPEATED, _MATCHED)
_HEADER_MISMATCH: Final = -32020
_ON: Final = ("http",)


# -- requests


def _named_requests(probe: Probe) -> Iterator[JsonObject]:
    """Yield requests that a header repeats the name of, one of each method that may be sent."""
    facts = probe.facts
    for uri in _texts(facts.resources, "uri"):
        yield complete_request(probe, "resources/read", {"uri": uri})
    for name in _texts(facts.prompts, "name"):
        yield complete_request(probe, "prompts/get", {"name": name})
    for tool in facts.callable_tools()[:1]:
        yield complete_request(probe, "tools/call", tool.params)


def _texts(entries: list[JsonObject], member: str) -> list[str]:
    found = [each.get(member) for each in entries]
    return [each for each in found if isinstance(each, str)][:1]


def _name_in(message: JsonObject) -> str:
    return str(params_of(message)[NAME_MEMBERS[message["method"]]])


def _encode(text: str, prefix: str = "=?base64?") -> str:
    return f"{prefix}{base64.b64encode(text.encode()).decode()}?="


# -- judging


def judge_refusal(probe: Probe, id: str, heard: RawResponse, what: str) -> None:
    """Judge whether a request is refused for its headers: by a status, and by a JSON-RPC error."""
    why = f"answers {what} with {heard}, expected status 400"
    if probe.holds(id, heard.status == 400, why):
        found = "no JSON-RPC error" if heard.code is None else f"error {heard.code}"
        why = f"refuses {what} with {found} in the body, expected error {_HEADER_MISMATCH}"
        probe.holds(_BODY, heard.code == _HEADER_MISMATCH, why)


def _judge_service(probe: Probe, id: str, heard: RawResponse, what: str) -> None:
    """Judge whether headers are found right; the request may fail for other reasons."""
    why = f"refuses {what} with error {_HEADER_MISMATCH}"
    probe.holds(id, heard.code != _HEADER_MISMATCH, why)


# -- method and name


@scenario(_NO_HEADER, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def omits_headers(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_method=None)
        judge_refusal(probe, _NO_HEADER, heard, f"{method} without Mcp-Method")
    for message in _named_requests(probe):
        heard = await post_message(connection, message, mcp_name=None)
        judge_refusal(probe, _NO_HEADER, heard, f"{message['method']} without Mcp-Name")


@scenario(_WRONG_HEADER, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def names_something_else_in_headers(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_method="completion/complete")
        judge_refusal(probe, _WRONG_HEADER, heard, f"{method} with Mcp-Method completion/complete")
    for message in _named_requests(probe):
        other = f"{_name_in(message)}-accord-check"
        heard = await post_message(connection, message, mcp_name=encode_header(other))
        judge_refusal(probe, _WRONG_HEADER, heard, f"{message['method']} with another Mcp-Name")


@scenario(_CASE, opens=open_unjudged, on=_ON, era="stateless")
async def writes_headers_in_another_case(probe: Probe, connection: RawConnection) -> None:
    method = harmless_method(probe.facts)
    message = complete_request(probe, method)
    if (await post_message(connection, message)).code == _HEADER_MISMATCH:
        probe.skip(_CASE, f"the server refuses {method} whatever its headers are")
        return
    headers = connection.carrier.heads(msgspec.json.encode(message))
    loud = {name.upper(): value for name, value in headers.items()}
    heard = await post_message(connection, message, headers=loud)
    _judge_service(probe, _CASE, heard, f"{method} with the names of headers in capitals")
    heard = await post_message(connection, message, mcp_method=method.upper())
    why = f"answers {method} with Mcp-Method {method.upper()} with {heard}, expected status 400"
    probe.holds(_CASE, heard.status == 400, why)
    for message in _named_requests(probe):
        name = _name_in(message)
        if name.swapcase() != name:
            heard = await post_message(connection, message, mcp_name=encode_header(name.swapcase()))
            why = f"answers {message['method']} with Mcp-Name in another case with {heard}"
            probe.holds(_CASE, heard.status == 400, f"{why}, expected status 400")


@scenario(_DECODED, _MARKERS, opens=open_unjudged, on=_ON, era="stateless")
async def encodes_names_in_headers(probe: Probe, connection: RawConnection) -> None:
    for message in _named_requests(probe):
        what, name = message["method"], _name_in(message)
        if (await post_message(connection, message)).code == _HEADER_MISMATCH:
            continue  # it is refused in any case, for another reason
        heard = await post_message(connection, message, mcp_name=_encode(name))
        _judge_service(probe, _DECODED, heard, f"{what} with Mcp-Name in base64")
        for prefix in ("=?BASE64?", "=?base64url?"):
            heard = await post_message(connection, message, mcp_name=_encode(name, prefix))
            why = f"answers {what} with Mcp-Name {prefix}...?= with {heard}, expected status 400"
            probe.holds(_MARKERS, heard.status == 400, why)
    probe.skip((_DECODED, _MARKERS), "the server has nothing that a request can name")


# -- arguments


@scenario(*_PARAMS, _DECODED, _MARKERS, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def repeats_arguments_in_headers(probe: Probe, connection: RawConnection) -> None:
    tried = set()
    for tool, argument in _find_mirrored(probe):
        kind = _type_of(tool, argument)
        if kind is None or kind in tried:
            continue
        tried.add(kind)
        await _repeat(probe, connection, tool, argument, kind)
    if not tried:
        why = "no tool that may be called has an argument that a header repeats"
        probe.not_applicable(_PARAMS, why)


def _find_mirrored(probe: Probe) -> Iterator[tuple[ToolCall, MirroredArgument]]:
    for tool in probe.facts.callable_tools():
        for argument in probe.facts.mirrored.get(tool.name, ()):
            yield tool, argument


_OTHERS: Final[Mapping[str, Any]] = {"string": "accord-check", "integer": 42, "boolean": True}


def _type_of(tool: ToolCall, argument: MirroredArgument) -> str | None:
    schema: Any = tool.tool.get("inputSchema")
    for name in argument.names:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(name) if isinstance(properties, dict) else None
    given = schema.get("type") if isinstance(schema, dict) else None
    types = given if isinstance(given, list) else [given]
    return next((each for each in types if each in _OTHERS), None)


def _call(probe: Probe, tool: ToolCall, argument: MirroredArgument, value: object) -> JsonObject:
    """Return a call with a value for one argument; `...` leaves it out."""
    arguments: Any = msgspec.json.decode(msgspec.json.encode(tool.arguments))
    *path, last = argument.names
    inner = arguments
    for name in path:
        inner = inner.setdefault(name, {})
    inner.pop(last, None)
    if value is not ...:
        inner[last] = value
    return complete_request(probe, "tools/call", {"name": tool.name, "arguments": arguments})


async def _repeat(
    probe: Probe,
    connection: RawConnection,
    tool: ToolCall,
    argument: MirroredArgument,
    kind: str,
) -> None:
    given = argument.value(tool.arguments)
    value = _OTHERS[kind] if given is None else given
    text, header = plain_text(value), argument.header

    async def post(value: object, sent: str | None) -> RawResponse:
        message = _call(probe, tool, argument, value)
        headers = connection.carrier.heads(msgspec.json.encode(message))
        headers.pop(header.lower(), None)
        if sent is not None:
            headers[header.lower()] = sent
        return await post_message(connection, message, headers=headers)

    what = f"a call of {tool.name}"
    heard = await post(value, None)
    judge_refusal(probe, _UNREPEATED, heard, f"{what} without {header}")
    heard = await post(value, _other_text(value))
    judge_refusal(probe, _MATCHED, heard, f"{what} with another value in {header}")
    # What is refused in any case proves nothing about other ways to say the same.
    is_served = (await post(value, encode_header(value))).code != _HEADER_MISMATCH
    if is_served:
        heard = await post(value, _encode(text))
        _judge_service(probe, _DECODED, heard, f"{what} with {header} in base64")
    heard = await post(value, _encode(text, "=?BASE64?"))
    judge_refusal(probe, _MARKERS, heard, f"{what} with =?BASE64?...?= in {header}")
    for absent in (..., None):
        heard = await post(absent, None)
        said = "null" if absent is None else "left out"
        why = f"{what} without {header}, where the argument is {said},"
        _judge_service(probe, _ABSENT, heard, why)
    if kind == "integer" and is_served:
        heard = await post(value, f"{value}.0")
        _judge_service(probe, _NUMBERS, heard, f"{what} with {value}.0 in {header}")
    elif kind == "string":
        heard = await post("zoë", "zoë")
        judge_refusal(
            probe, _CHARACTERS, heard, f"{what} with a character beyond ASCII in {header}"
        )


def _other_text(value: object) -> str:
    if isinstance(value, bool):
        return "false" if value else "true"
    return str(value + 1) if isinstance(value, int) else "accord-check-other"


_ENDPOINT: Final = "http.endpoint.single-post"
_DIFFERS: Final = "http.version-header.mismatch-rejected"
_UNSUPPORTED: Final = "http.version-header.unsupported-400"
_MISSING: Final = "http.version-header.missing-rejected"

_NOT_FOUND: Final = "http.method-not-found.404"
_META: Final = "meta.request.missing-field-http-400"
_CAPABILITY: Final = "capability.missing-error-http-400"
_NO_GET: Final = "http.legacy-traffic.get-delete-405"
_NO_SESSION: Final = "http.legacy-traffic.session-header-ignored"
_NO_RESUMING: Final = "http.legacy-traffic.last-event-id-ignored"
_OLDER: Final = (_NO_GET, _NO_SESSION, _NO_RESUMING)
_AFFINITY: Final = "stateless.no-connection-affinity"

_UNKNOWN_VERSION: Final = "1999-12-31"

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
                stray = messages_of(heard, call)
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
