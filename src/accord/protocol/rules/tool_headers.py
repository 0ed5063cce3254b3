"""Tool arguments that travel as HTTP headers too: `x-mcp-header` in input schemas."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.items import Finding, each, is_a, listed, object_of, shown
from accord.protocol.syntax import is_http_token
from accord.protocol.violation import CLIENT, SERVER

if TYPE_CHECKING:
    from accord.protocol.conversation import Conversation

_LIST: Final = "tools/list"
_KEY: Final = "x-mcp-header"
_LARGEST: Final = 2**53 - 1
_DEEPEST: Final = 64
_PRIMITIVE: Final = frozenset({"string", "integer", "boolean"})

_SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_DATA: Final = frozenset({"const", "default", "enum", "examples", _KEY})


class _Mirrored(msgspec.Struct, frozen=True):
    """One annotation; `names` lead to it through `properties` alone, None where nothing does."""

    place: str
    header: Any
    schema: dict[str, Any]
    names: tuple[str, ...] | None


def _walk(node: Any, place: str, names: tuple[str, ...] | None, depth: int) -> Iterator[_Mirrored]:
    if depth > _DEEPEST:
        return
    if isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk(inner, f"{place}[{index}]", None, depth + 1)
    if not isinstance(node, dict):
        return
    if _KEY in node:
        yield _Mirrored(place, node[_KEY], node, names)
    for key, inner in node.items():
        if key in _SCHEMAS_BY_NAME and isinstance(inner, dict):
            is_static = key == "properties" and names is not None
            for name, schema in inner.items():
                reached = (*names, name) if is_static and names is not None else None
                yield from _walk(schema, f"{place}.{key}.{shown(name)}", reached, depth + 2)
        elif key not in _DATA:
            yield from _walk(inner, f"{place}.{shown(key)}", None, depth + 1)


def _mirrored(schema: Any, place: str) -> list[_Mirrored]:
    return list(_walk(schema, place, (), 0)) if isinstance(schema, dict) else []


def _by_tool(step: Step) -> Iterator[list[_Mirrored]]:
    for place, tool in listed(step, "tools"):
        yield _mirrored(tool.get("inputSchema"), f"{place}.inputSchema")


def _all(step: Step) -> Iterator[_Mirrored]:
    for annotations in _by_tool(step):
        yield from annotations


@check("tools.x-mcp-header.not-empty", by=SERVER, kind=RESULT, on=_LIST)
def header_is_not_empty(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        found.header != "" or f"sends {found.place} with an empty {_KEY}" for found in _all(step)
    )


@check("tools.x-mcp-header.token-syntax", by=SERVER, kind=RESULT, on=_LIST)
def header_is_a_token(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        (isinstance(found.header, str) and is_http_token(found.header))
        or f"sends {found.place} with {_KEY} {shown(found.header)}, which is no HTTP token"
        for found in _all(step)
        if found.header != ""
    )


@check("tools.x-mcp-header.unique", by=SERVER, kind=RESULT, on=_LIST)
def header_is_used_once(step: Step, conversation: "Conversation") -> Outcome:
    return each(finding for annotations in _by_tool(step) for finding in _used_once(annotations))


def _used_once(annotations: list[_Mirrored]) -> Iterator[Finding]:
    uses = Counter(found.header.lower() for found in annotations if isinstance(found.header, str))
    for found in annotations:
        if isinstance(found.header, str):
            count = uses.pop(found.header.lower(), 1)
            yield count == 1 or (
                f"sends {found.place} with {_KEY} {shown(found.header)}, which the schema has "
                f"{count} times"
            )


@check("tools.x-mcp-header.primitive-only", by=SERVER, kind=RESULT, on=_LIST)
def header_is_for_a_primitive(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_primitive(found.schema)
        or f"sends {found.place} with {_KEY} and type {shown(found.schema.get('type'))}"
        for found in _all(step)
        if found.names is not None
    )


def _is_primitive(schema: dict[str, Any]) -> bool:
    type_ = schema.get("type")
    if isinstance(type_, list):
        # A null is never mirrored, so a type that also allows null mirrors as the other one.
        named = [found for found in type_ if found != "null"]
        return bool(named) and all(
            isinstance(found, str) and found in _PRIMITIVE for found in named
        )
    return isinstance(type_, str) and type_ in _PRIMITIVE


@check("tools.x-mcp-header.statically-reachable", by=SERVER, kind=RESULT, on=_LIST)
def header_is_reached_through_properties(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        found.names is not None
        or f"sends {found.place} with {_KEY}, which is not reached through properties alone"
        for found in _all(step)
    )


@check("tools.x-mcp-header.safe-integers", by=SERVER, kind=RESULT, on=_LIST)
def integers_in_the_schema_are_safe(step: Step, conversation: "Conversation") -> Outcome:
    return each(
        _is_safe(value, found.place)
        for found in _all(step)
        for value in _values_in(found.schema)
        if found.names is not None
    )


def _values_in(schema: dict[str, Any]) -> list[Any]:
    allowed = schema.get("enum")
    return [
        *(schema[key] for key in ("const", "default") if key in schema),
        *(allowed if isinstance(allowed, list) else ()),
    ]


@check("tools.x-mcp-header.safe-integers", by=CLIENT, kind=REQUEST, on="tools/call")
def mirrored_integers_are_safe(step: Step, conversation: "Conversation") -> Outcome:
    params = object_of(step.body)
    name = params.get("name")
    if conversation.memory is None or not isinstance(name, str):
        return None
    schema = conversation.memory.tools.get(name, {}).get("inputSchema")
    return each(
        _is_safe(_value_at(params.get("arguments"), found.names), ".".join(found.names))
        for found in _mirrored(schema, "inputSchema")
        if found.names
    )


def _value_at(arguments: Any, names: tuple[str, ...]) -> Any:
    for name in names:
        arguments = object_of(arguments).get(name)
    return arguments


def _is_safe(value: Any, place: str) -> Finding:
    if not is_a("integer", value):
        return None
    return abs(value) <= _LARGEST or f"sends {place} with {value}, beyond 2^53-1"
