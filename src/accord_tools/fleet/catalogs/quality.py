"""Names, descriptions, hints, costs and schemas of tools: what makes them hard to choose or use."""

import re
from collections.abc import Iterator
from typing import Any, Final

from accord.cli.terminal import escape_unprintable
from accord.json_schema.reader import find_by_pointer, properties_of, resolve
from accord.types import JsonObject
from accord_tools.fleet.catalogs.characters import foreign_letters, name_character
from accord_tools.fleet.catalogs.entries import (
    MOST_DEPTH,
    CatalogEntry,
    annotations_of,
    estimate_tokens,
    stem_of,
    style_of,
    text_at,
    tool_schema,
    word_set,
    words_of,
)
from accord_tools.fleet.catalogs.lint_rules import make_finding, quote, some_of
from accord_tools.fleet.results import CatalogFinding
from accord_tools.reports.wording import plural

SHORT_DESCRIPTION: Final = 20
LONG_DESCRIPTION: Final = 1_024
LONG_NAME: Final = 64
# Some hosts count the name of the server too.
LONG_QUALIFIED_NAME: Final = 60
MOST_TOOLS: Final = 40
MOST_TOKENS: Final = 10_000
MOST_TOKENS_OF_ONE: Final = 1_000
_HALF: Final = 0.5
_MOSTLY: Final = 0.8

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_EMPTY_WORDS: Final = word_set(
    "a an and any as by can do for from function in into is it its of on or that the these this"
    " to tool use used with you your"
)
_DESTROYING: Final = word_set(
    "delete destroy drop erase overwrite purge remove truncate uninstall wipe"
)
_READING: Final = word_set(
    "can check count describe explain export fetch find get has is list look lookup peek plan"
    " preview read search show simulate undelete validate verify view"
)


def check_tool(entry: CatalogEntry, server: str) -> Iterator[CatalogFinding]:
    """Yield the findings about one tool that need no other tool."""
    yield from check_description(entry)
    yield from _check_parameters(entry)
    yield from _check_hints(entry)
    yield from _check_name(entry, server)
    tokens = estimate_tokens(entry.value)
    if tokens > MOST_TOKENS_OF_ONE:
        yield make_finding(
            "surface.token-cost",
            f"costs a model about {tokens:,} tokens in each conversation; shorten texts, or move"
            " parts of the schema into a resource",
            subject=entry.subject,
            severity="info",
        )


def check_tools(tools: list[CatalogEntry]) -> Iterator[CatalogFinding]:
    """Yield the findings about all tools of one server together."""
    yield from _check_styles(tools)
    if len(tools) > MOST_TOOLS:
        yield make_finding(
            "surface.too-many-tools",
            f"offers {len(tools):,} tools; some hosts show {MOST_TOOLS} of all servers, and models"
            " choose worse among many: join or split them, or offer a group at a time",
        )
    tokens = estimate_tokens([each.value for each in tools])
    if tokens > MOST_TOKENS:
        yield make_finding(
            "surface.token-cost",
            f"its list of tools costs a model about {tokens:,} tokens in each conversation;"
            " shorten texts and schemas, or offer fewer tools",
        )


# -- descriptions


def check_description(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    """Yield the findings about the description of a tool or prompt."""
    text = text_at(entry, "description").strip()
    is_tool = entry.list == "tools"
    if not text:
        yield make_finding(
            "surface.description-missing",
            "has no description; say what it does, and when to use it",
            subject=entry.subject,
            severity=None if is_tool else "info",
        )
    elif not is_tool:
        return
    elif _repeats_name(entry, text):
        yield make_finding(
            "surface.description-repeats-name",
            f"is described as {quote(text)}, which its name says already; say what it returns,"
            " and when to use it",
            subject=entry.subject,
        )
    elif len(text) < SHORT_DESCRIPTION:
        yield make_finding(
            "surface.description-short",
            f"is described in {len(text)} characters; say what it returns, and when to use it",
            subject=entry.subject,
        )
    elif len(text) > LONG_DESCRIPTION:
        yield make_finding(
            "surface.description-long",
            f"is described in {len(text):,} characters; some hosts cut after"
            f" {LONG_DESCRIPTION:,}: move details into the parameters or the instructions",
            subject=entry.subject,
        )


def _repeats_name(entry: CatalogEntry, description: str) -> bool:
    if len(description) > 10 * LONG_NAME:
        return False
    known = {
        stem_of(each) for name in (entry.name, text_at(entry, "title")) for each in words_of(name)
    }
    said = {stem_of(each) for each in words_of(description) if each not in _EMPTY_WORDS}
    return said <= known


def _check_parameters(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    schema = tool_schema(entry)
    found = properties_of(schema)
    missing = [name for name, each in found.items() if not resolve(each, schema).get("description")]
    if not found or len(found) - len(missing) >= _MOSTLY * len(found):
        return
    is_bad = len(found) - len(missing) < _HALF * len(found)
    yield make_finding(
        "surface.parameters-undocumented",
        f"{len(missing)} of {plural(len(found), 'parameter')} without a description:"
        f" {some_of(missing)}; say what each means, with its unit or form",
        subject=entry.subject,
        severity="warn" if is_bad else "info",
    )


# -- hints


def _check_hints(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    hints = annotations_of(entry)
    reads, destroys = hints.get("readOnlyHint"), hints.get("destructiveHint")
    words = words_of(entry.name)
    verb = next((each for each in words if each in _DESTROYING), None)
    if words and words[0] in _READING:
        verb = None
    if not isinstance(reads, bool) and not isinstance(destroys, bool):
        yield make_finding(
            "surface.annotations-missing",
            "has neither readOnlyHint nor destructiveHint; without them hosts assume that it"
            " destroys, and ask before each call",
            subject=entry.subject,
        )
    elif reads is True and destroys is True:
        yield make_finding(
            "surface.annotations-contradict",
            "readOnlyHint and destructiveHint are both true; remove the one that is wrong",
            subject=entry.subject,
        )
    elif verb is not None and (reads is True or destroys is False):
        hint = "readOnlyHint is true" if reads is True else "destructiveHint is false"
        yield make_finding(
            "surface.annotations-contradict",
            f"is called {verb!r}, but {hint}; mend the hint, or choose another name",
            subject=entry.subject,
        )


# -- names


def _check_name(entry: CatalogEntry, server: str) -> Iterator[CatalogFinding]:
    name = entry.name
    if len(name) > LONG_NAME:
        yield make_finding(
            "surface.name-length",
            f"has a name of {len(name)} characters; hosts refuse more than {LONG_NAME}",
            subject=entry.subject,
        )
    elif len(server) + 1 + len(name) > LONG_QUALIFIED_NAME:
        yield make_finding(
            "surface.name-length",
            f"has {len(server) + 1 + len(name)} characters together with the name of its server;"
            f" some hosts leave out tools with more than {LONG_QUALIFIED_NAME}",
            subject=entry.subject,
            severity="info",
        )
    if not name:
        yield make_finding(
            "surface.name-characters", "has an empty name; give it one", subject=entry.subject
        )
    elif _NAME.fullmatch(name) is None:
        yield _describe_characters(entry)


def _describe_characters(entry: CatalogEntry) -> CatalogFinding:
    others = [each for each in dict.fromkeys(entry.name) if not _NAME.fullmatch(each)]
    alike = dict(foreign_letters(entry.name))
    shown = [
        name_character(each) + (f", which looks like {alike[each]!r}" if each in alike else "")
        if not each.isascii() or not each.isprintable()
        else repr(each)
        for each in others
    ]
    return make_finding(
        "surface.name-characters",
        f"has {some_of(shown)} in its name; some hosts refuse other characters than ASCII"
        " letters, digits, _ and -",
        subject=entry.subject,
        severity="info" if others == ["."] else "warn",
    )


def _check_styles(tools: list[CatalogEntry]) -> Iterator[CatalogFinding]:
    styles: dict[str, list[str]] = {}
    for each in tools:
        style = style_of(each.name)
        if style:
            styles.setdefault(style, []).append(each.name)
    if len(styles) > 1:
        ranked = sorted(styles.items(), key=lambda item: -len(item[1]))
        shown = "; ".join(
            f"{style} {len(names):,} ({some_of(names, 2)})" for style, names in ranked
        )
        yield make_finding(
            "surface.names-mixed-style",
            f"names its tools in several styles: {shown}; choose one, so that models guess right",
        )


# -- portability: keywords in schemas that some hosts reject, rewrite or ignore


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
        yield make_finding(
            "surface.schema-portable",
            f"{plural(len(open_ones), 'tool')} without additionalProperties in the inputSchema"
            f" ({some_of(open_ones, 3)}); strict modes of hosts demand that it is false",
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
