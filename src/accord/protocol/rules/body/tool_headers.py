"""Tool arguments that are mirrored in HTTP headers: `x-mcp-header` in input schemas."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from accord.protocol.conversation import Conversation
from accord.protocol.exchange import Step
from accord.protocol.jsonrpc import REQUEST, RESULT
from accord.protocol.rules._rule import Outcome, check
from accord.protocol.rules.values import (
    Finding,
    as_object,
    combine,
    is_integer,
    quote,
    result_objects,
)
from accord.protocol.syntax import is_http_token
from accord.protocol.violation import CLIENT, SERVER
from accord.types._base import JsonObject

_LIST: Final = "tools/list"
_KEY: Final = "x-mcp-header"
_LARGEST_INTEGER: Final = 2**53 - 1
_DEEPEST: Final = 64
_PRIMITIVE: Final = frozenset({"string", "integer", "boolean"})

_SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_DATA: Final = frozenset({"const", "default", "enum", "examples", _KEY})


class _Annotation(msgspec.Struct, frozen=True):
    """One annotation; `names` lead to it through `properties`, None if that is not possible."""

    place: str
    header: object
    schema: JsonObject
    names: tuple[str, ...] | None


def _walk(
    node: object, place: str, names: tuple[str, ...] | None, depth: int
) -> Iterator[_Annotation]:
    if depth > _DEEPEST:
        return
    if isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk(inner, f"{place}[{index}]", None, depth + 1)
    if not isinstance(node, dict):
        return
    if _KEY in node:
        yield _Annotation(place, node[_KEY], node, names)
    for key, inner in node.items():
        if key in _SCHEMAS_BY_NAME and isinstance(inner, dict):
            is_static = key == "properties" and names is not None
            for name, schema in inner.items():
                reached = (*names, name) if is_static and names is not None else None
                yield from _walk(schema, f"{place}.{key}.{quote(name)}", reached, depth + 2)
        elif key not in _DATA:
            yield from _walk(inner, f"{place}.{quote(key)}", None, depth + 1)


def _annotations(schema: object, place: str) -> list[_Annotation]:
    return list(_walk(schema, place, (), 0)) if isinstance(schema, dict) else []


def _by_tool(step: Step) -> Iterator[list[_Annotation]]:
    for place, tool in result_objects(step, "tools"):
        yield _annotations(tool.get("inputSchema"), f"{place}.inputSchema")


def _all_annotations(step: Step) -> Iterator[_Annotation]:
    for annotations in _by_tool(step):
        yield from annotations


@check("tools.x-mcp-header.not-empty", by=SERVER, kind=RESULT, on=_LIST)
def header_is_not_empty(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        found.header != "" or f"sends {found.place} with an empty {_KEY}"
        for found in _all_annotations(step)
    )


@check("tools.x-mcp-header.token-syntax", by=SERVER, kind=RESULT, on=_LIST)
def header_is_a_token(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        (isinstance(found.header, str) and is_http_token(found.header))
        or f"sends {found.place} with {_KEY} {quote(found.header)}, which is not an HTTP token"
        for found in _all_annotations(step)
        if found.header != ""
    )


@check("tools.x-mcp-header.unique", by=SERVER, kind=RESULT, on=_LIST)
def header_is_unique(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        finding for annotations in _by_tool(step) for finding in _judge_repeats(annotations)
    )


def _judge_repeats(annotations: list[_Annotation]) -> Iterator[Finding]:
    uses = Counter(found.header.lower() for found in annotations if isinstance(found.header, str))
    for found in annotations:
        if isinstance(found.header, str):
            count = uses.pop(found.header.lower(), 1)
            yield count == 1 or (
                f"sends {found.place} with {_KEY} {quote(found.header)}, which the schema has "
                f"{count} times"
            )


@check("tools.x-mcp-header.primitive-only", by=SERVER, kind=RESULT, on=_LIST)
def header_is_for_a_primitive(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _is_primitive(found.schema)
        or f"sends {found.place} with {_KEY} and type {quote(found.schema.get('type'))}, expected "
        "string, integer or boolean"
        for found in _all_annotations(step)
        if found.names is not None
    )


def _is_primitive(schema: JsonObject) -> bool:
    type_ = schema.get("type")
    if isinstance(type_, list):
        # A null is never mirrored, so a type that also allows null is mirrored as the other one.
        named = [found for found in type_ if found != "null"]
        return bool(named) and all(
            isinstance(found, str) and found in _PRIMITIVE for found in named
        )
    return isinstance(type_, str) and type_ in _PRIMITIVE


@check("tools.x-mcp-header.statically-reachable", by=SERVER, kind=RESULT, on=_LIST)
def header_is_reached_through_properties(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        found.names is not None
        or f"sends {found.place} with {_KEY}, which is not reachable through properties alone"
        for found in _all_annotations(step)
    )


@check("tools.x-mcp-header.safe-integers", by=SERVER, kind=RESULT, on=_LIST)
def integers_in_the_schema_are_safe(step: Step, conversation: Conversation) -> Outcome:
    return combine(
        _judge_integer(value, found.place)
        for found in _all_annotations(step)
        for value in _fixed_values(found.schema)
        if found.names is not None
    )


def _fixed_values(schema: JsonObject) -> list[object]:
    allowed = schema.get("enum")
    return [
        *(schema[key] for key in ("const", "default") if key in schema),
        *(allowed if isinstance(allowed, list) else ()),
    ]


@check("tools.x-mcp-header.safe-integers", by=CLIENT, kind=REQUEST, on="tools/call")
def mirrored_integers_are_safe(step: Step, conversation: Conversation) -> Outcome:
    params = as_object(step.body)
    name = params.get("name")
    if conversation.memory is None or not isinstance(name, str):
        return None
    schema = conversation.memory.tools.get(name, {}).get("inputSchema")
    return combine(
        _judge_integer(
            _value_at(params.get("arguments"), found.names), ".".join(("arguments", *found.names))
        )
        for found in _annotations(schema, "inputSchema")
        if found.names
    )


def _value_at(arguments: object, names: tuple[str, ...]) -> object:
    for name in names:
        arguments = as_object(arguments).get(name)
    return arguments


def _judge_integer(value: object, place: str) -> Finding:
    if not isinstance(value, int | float) or not is_integer(value):
        return None
    return abs(value) <= _LARGEST_INTEGER or f"sends {place} with {value}, beyond 2^53-1"
