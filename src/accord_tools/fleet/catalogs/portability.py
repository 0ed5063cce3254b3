"""Keywords in the schemas of tools that some hosts reject, rewrite or ignore."""

import re
from collections.abc import Iterator
from typing import Any, Final

from accord.cli.terminal import escape_unprintable
from accord.json_schema.reader import find_by_pointer, properties_of
from accord.types import JsonObject
from accord_tools.check.rendering.wording import plural
from accord_tools.fleet.catalogs.entries import MOST_DEPTH, CatalogEntry, tool_schema
from accord_tools.fleet.catalogs.lint_rules import make_finding
from accord_tools.fleet.results import CatalogFinding

# Deeper nesting is refused by strict modes of model providers.
_DEEPEST: Final = 10
_MOST_NODES: Final = 20_000
_COMBINED: Final = ("anyOf", "oneOf", "allOf", "not", "if")
_IGNORED: Final = (
    *("patternProperties", "propertyNames", "dependentSchemas", "dependentRequired"),
    *("dependencies", "unevaluatedProperties", "unevaluatedItems", "contains", "prefixItems"),
    *("if", "not"),
)
_FORMATS: Final = frozenset(
    {
        *("date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
        *("uri", "uri-reference", "uri-template", "regex", "json-pointer", "byte", "binary"),
        *("int32", "int64", "float", "double", "password", "enum"),
    }
)
_LOOK_AROUND: Final = re.compile(r"\(\?<?[=!]")
_BY_NAME: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_INNER: Final = (
    *("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else"),
    *("unevaluatedProperties", "unevaluatedItems", "additionalItems"),
)
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")


def check_schema(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    """Yield what keeps the arguments of one tool from being understood by every host."""
    schema = tool_schema(entry)
    rejected = dict.fromkeys(_find_rejected(schema))
    ignored = dict.fromkeys(_find_ignored(schema))
    if rejected:
        yield make_finding(
            "surface.schema-portable",
            f"some hosts reject its inputSchema: {'; '.join(rejected)}",
            subject=entry.subject,
        )
    if ignored:
        yield make_finding(
            "surface.schema-portable",
            f"some hosts ignore parts of its inputSchema: {'; '.join(ignored)}; say the same in"
            " descriptions",
            subject=entry.subject,
            severity="info",
        )


def check_openness(tools: list[CatalogEntry]) -> Iterator[CatalogFinding]:
    """Yield one finding if tools leave open whether they take further arguments."""
    open_ones = [
        each.name
        for each in tools
        if properties_of(tool_schema(each)) and "additionalProperties" not in tool_schema(each)
    ]
    if open_ones:
        names = ", ".join(escape_unprintable(each[:80]) for each in open_ones[:3])
        more = f" and {len(open_ones) - 3:,} more" if len(open_ones) > 3 else ""
        yield make_finding(
            "surface.schema-portable",
            f"{plural(len(open_ones), 'tool')} without additionalProperties in the inputSchema"
            f" ({names}{more}); strict modes of hosts demand that it is false",
            severity="info",
        )


def _find_rejected(schema: JsonObject) -> Iterator[str]:
    if schema.get("type") != "object":
        yield 'its type is not "object"'
    for key in _COMBINED:
        if key in schema:
            yield f"{key} at the top; move it into a property"
    has_references = False
    for _, each in _subschemas(schema):
        reference = each.get("$ref")
        if not isinstance(reference, str):
            continue
        has_references = True
        if not reference.startswith("#"):
            shown = escape_unprintable(reference[:80])
            yield f"$ref to {shown}, outside of it; copy that schema into $defs"
    if has_references and _is_recursive(schema):
        yield "it refers to itself; limit the depth"


def _find_ignored(schema: JsonObject) -> Iterator[str]:
    deepest = 0
    for depth, each in _subschemas(schema):
        deepest = max(deepest, depth)
        for key in _IGNORED:
            if key in each and not (depth == 0 and key in _COMBINED):
                yield key
        pattern = each.get("pattern")
        if isinstance(pattern, str) and _LOOK_AROUND.search(pattern):
            yield "pattern with look-around"
        form = each.get("format")
        if isinstance(form, str) and form not in _FORMATS:
            yield f"format {escape_unprintable(form[:40])!r}"
    if deepest > _DEEPEST:
        yield f"nesting over {_DEEPEST} levels"


def _subschemas(schema: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """Yield a schema and the schemas in it, each with its depth; definitions begin anew."""
    waiting: list[tuple[int, Any]] = [(0, schema)]
    for _ in range(_MOST_NODES):
        if not waiting:
            return
        depth, each = waiting.pop()
        if not isinstance(each, dict) or depth > MOST_DEPTH:
            continue
        yield depth, each
        for key in _BY_NAME:
            named = each.get(key)
            if isinstance(named, dict):
                below = 1 if key in ("$defs", "definitions") else depth + 1
                waiting += [(below, value) for value in named.values()]
        waiting += [(depth + 1, each[key]) for key in _INNER if isinstance(each.get(key), dict)]
        for key in _LISTS:
            listed = each.get(key)
            if isinstance(listed, list):
                waiting += [(depth + 1, value) for value in listed]


def _is_recursive(schema: JsonObject) -> bool:
    """Return whether a reference leads to a schema that it is in, directly or by others."""
    leads: dict[str, set[str]] = {}
    waiting = ["#"]
    while waiting:
        reference = waiting.pop()
        if reference in leads or len(leads) > 1_000:
            continue
        target = find_by_pointer(schema, reference[1:])
        # Definitions count only where they are referred to.
        own = dict(target) if isinstance(target, dict) else {}
        own.pop("$defs", None)
        own.pop("definitions", None)
        leads[reference] = {
            str(each["$ref"])
            for _, each in _subschemas(own)
            if str(each.get("$ref", "")).startswith("#")
        }
        waiting += leads[reference]
    return _has_circle(leads)


def _has_circle(leads: dict[str, set[str]]) -> bool:
    """Return whether a graph has a circle: removes what leads nowhere until nothing changes."""
    counts = {name: len(others & leads.keys()) for name, others in leads.items()}
    sources: dict[str, list[str]] = {name: [] for name in leads}
    for name, others in leads.items():
        for other in others & leads.keys():
            sources[other].append(name)
    ends = [name for name, count in counts.items() if not count]
    removed = 0
    while ends:
        removed += 1
        for source in sources[ends.pop()]:
            counts[source] -= 1
            if not counts[source]:
                ends.append(source)
    return removed < len(leads)
