"""Parts of a request that HTTP headers repeat, so that gateways can route without reading bodies.

`Mcp-Method` repeats the method and `Mcp-Name` the name or URI. `Mcp-Param-<name>` repeats a tool
argument whose property in the input schema has `x-mcp-header`.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from accord.protocol.syntax import is_http_token
from accord.types._base import JsonObject

METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"
PARAM_PREFIX: Final = "Mcp-Param-"
ANNOTATION: Final = "x-mcp-header"
NAME_MEMBERS: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""By method, the member of the params that `Mcp-Name` repeats."""
LARGEST_INTEGER: Final = 2**53 - 1

_PREFIX, _SUFFIX = "=?base64?", "?="
_DEEPEST: Final = 64
_PRIMITIVE: Final = ("string", "integer", "boolean")
_SCHEMAS_BY_NAME: Final = frozenset(
    {"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
)
_DATA: Final = frozenset({"const", "default", "enum", "examples", ANNOTATION})


# -- values


def encode_header(value: str | float) -> str:
    """Return a value as a header carries it; what a header cannot carry is put in base64.

    >>> encode_header("eu-1"), encode_header(True), encode_header("två"), encode_header(" x")
    ('eu-1', 'true', '=?base64?dHbDpQ==?=', '=?base64?IHg=?=')
    """
    text = plain_text(value)
    is_plain = text.isascii() and text.isprintable() and text.strip(" ") == text
    if is_plain and not _is_encoded(text):
        return text
    return f"{_PREFIX}{base64.b64encode(text.encode()).decode()}{_SUFFIX}"


def plain_text(value: str | float) -> str:
    """Return a value as text, as a header carries it before it is encoded."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else f"{int(value)}"


def decode_header(header: str) -> str | None:
    """Return the value that a header carries; None if it is malformed.

    >>> decode_header("=?base64?SGVsbG8=?="), decode_header("=?base64?SGVsbG8?=")
    ('Hello', None)
    """
    header = header.strip(" \t")
    if _is_encoded(header):
        try:
            return base64.b64decode(header[len(_PREFIX) : -len(_SUFFIX)], validate=True).decode()
        except (binascii.Error, ValueError):
            return None
    return header if header.isascii() and header.replace("\t", " ").isprintable() else None


def _is_encoded(text: str) -> bool:
    is_long_enough = len(text) >= len(_PREFIX) + len(_SUFFIX)
    return is_long_enough and text.startswith(_PREFIX) and text.endswith(_SUFFIX)


# -- annotations in schemas


class Annotation(msgspec.Struct, frozen=True):
    """One `x-mcp-header`; `names` lead to it through `properties`, None if that is not possible."""

    place: str
    header: object
    schema: JsonObject
    names: tuple[str, ...] | None

    @property
    def is_primitive(self) -> bool:
        """Whether the values of its property are strings, integers or booleans."""
        type_ = self.schema.get("type")
        # A null is never mirrored, so a type that also allows null is mirrored as the other one.
        types = [each for each in type_ if each != "null"] if isinstance(type_, list) else [type_]
        return bool(types) and all(each in _PRIMITIVE for each in types)


def find_annotations(schema: object, place: str = "inputSchema") -> list[Annotation]:
    """Return every `x-mcp-header` of an input schema, well formed or not."""
    return list(_walk(schema, place, (), 0)) if isinstance(schema, dict) else []


def _walk(
    node: object, place: str, names: tuple[str, ...] | None, depth: int
) -> Iterator[Annotation]:
    if depth > _DEEPEST:
        return
    if isinstance(node, list):
        for index, inner in enumerate(node):
            yield from _walk(inner, f"{place}[{index}]", None, depth + 1)
    if not isinstance(node, dict):
        return
    if ANNOTATION in node:
        yield Annotation(place, node[ANNOTATION], node, names)
    for key, inner in node.items():
        if key in _SCHEMAS_BY_NAME and isinstance(inner, dict):
            is_static = key == "properties" and names is not None
            for name, schema in inner.items():
                reached = (*names, name) if is_static and names is not None else None
                yield from _walk(schema, f"{place}.{key}.{name:.60}", reached, depth + 2)
        elif key not in _DATA:
            yield from _walk(inner, f"{place}.{key:.60}", None, depth + 1)


class MirroredArgument(msgspec.Struct, frozen=True):
    """A tool argument that a header repeats: the name of the header, and the path to the value."""

    header: str
    names: tuple[str, ...]

    def value(self, arguments: object) -> Any:
        """Return the value of the argument; None where it is absent."""
        found = arguments
        for name in self.names:
            found = found.get(name) if isinstance(found, dict) else None
        return found


def mirrored_arguments(schema: object) -> tuple[MirroredArgument, ...]:
    """Return the arguments that headers repeat, by the input schema of their tool.

    Raises:
        ValueError: an annotation breaks a rule; the message names its place.
    """
    found = find_annotations(schema)
    uses = Counter(each.header.lower() for each in found if isinstance(each.header, str))
    arguments = []
    for each in found:
        header = each.header
        if not isinstance(header, str) or not is_http_token(header):
            raise ValueError(f"{each.place}: {ANNOTATION} {header!r:.60} is not an HTTP token")
        if uses[header.lower()] > 1:
            raise ValueError(f"{each.place}: {ANNOTATION} {header!r:.60} is used twice")
        if each.names is None:
            raise ValueError(f"{each.place}: {ANNOTATION} is not reached through properties alone")
        if not each.is_primitive:
            type_ = each.schema.get("type")
            raise ValueError(
                f"{each.place}: {ANNOTATION} on type {type_!r:.60}, expected string, integer or "
                "boolean"
            )
        arguments.append(MirroredArgument(f"{PARAM_PREFIX}{header}", each.names))
    return tuple(arguments)


# -- both ends


def mirror_arguments(mirrored: tuple[MirroredArgument, ...], arguments: object) -> dict[str, str]:
    """Return the headers that repeat the arguments of a call; none for what is null or absent."""
    values = ((each.header, each.value(arguments)) for each in mirrored)
    return {
        header: encode_header(value)
        for header, value in values
        if isinstance(value, str | int | float)
    }


def find_mismatch(
    mirrored: tuple[MirroredArgument, ...], arguments: object, headers: Mapping[str, str]
) -> str | None:
    """Return how the headers of a call differ from its arguments; None if they agree.

    Args:
        mirrored: the arguments that headers repeat.
        arguments: those of the call.
        headers: those of the request, by lower-case name.
    """
    for each in mirrored:
        value, header = each.value(arguments), headers.get(each.header.lower())
        if not isinstance(value, str | int | float):
            continue  # http.param-headers.server-not-expected-without-value
        if header is None:
            return f"{each.header} is missing, but the argument {'.'.join(each.names)} is given"
        given = decode_header(header)
        if given is None:
            return f"{each.header} is malformed"
        if not _agrees(given, value):
            return f"{each.header} differs from the argument {'.'.join(each.names)}"
    return None


def _agrees(given: str, value: str | float) -> bool:
    if given == encode_header(value) or given == value:
        return True
    if isinstance(value, str | bool):
        return False
    try:  # http.headers.integers-compared-numerically
        return float(given) == value
    except ValueError:
        return False


def name_to_mirror(method: str, params: object) -> str | None:
    """Return what `Mcp-Name` repeats of a request, given as plain JSON; None if nothing."""
    member = NAME_MEMBERS.get(method)
    name = params.get(member) if member is not None and isinstance(params, dict) else None
    return name if isinstance(name, str) else None
