"""Requests that stand on their own over HTTP: headers that repeat the body, right and wrong."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from accord.protocol.mirroring import NAME_MEMBERS, MirroredArgument, encode_header, plain_text
from accord.types import JsonObject
from accord_tools.check.probing.http_exchange import RawResponse, post_message
from accord_tools.check.probing.messages import params_of
from accord_tools.check.probing.probe import Probe
from accord_tools.check.probing.raw_connection import RawConnection
from accord_tools.check.probing.tool_calls import ToolCall
from accord_tools.check.scenarios._scenario import (
    complete_request,
    harmless_method,
    open_unjudged,
    scenario,
)

_MISSING: Final = "http.headers.required-missing-rejected"
_DIFFERS: Final = "http.headers.mismatch-rejected"
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
_NOTHING_NAMED: Final = "the server has nothing that a request can name"
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


@scenario(_MISSING, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def omits_headers(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_method=None)
        judge_refusal(probe, _MISSING, heard, f"{method} without Mcp-Method")
    for message in _named_requests(probe):
        heard = await post_message(connection, message, mcp_name=None)
        judge_refusal(probe, _MISSING, heard, f"{message['method']} without Mcp-Name")


@scenario(_DIFFERS, _BODY, opens=open_unjudged, on=_ON, era="stateless")
async def names_something_else_in_headers(probe: Probe, connection: RawConnection) -> None:
    for method in ("server/discover", harmless_method(probe.facts)):
        message = complete_request(probe, method)
        heard = await post_message(connection, message, mcp_method="completion/complete")
        judge_refusal(probe, _DIFFERS, heard, f"{method} with Mcp-Method completion/complete")
    for message in _named_requests(probe):
        other = f"{_name_in(message)}-accord-check"
        heard = await post_message(connection, message, mcp_name=encode_header(other))
        judge_refusal(probe, _DIFFERS, heard, f"{message['method']} with another Mcp-Name")


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
    probe.skip((_DECODED, _MARKERS), _NOTHING_NAMED)


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
