"""Names, descriptions, hints and costs of tools: what makes them hard to choose or to use."""

import re
from collections.abc import Iterator
from typing import Final

from accord.cli.terminal import escape_unprintable
from accord.json_schema.reader import properties_of, resolve
from accord_tools.check.rendering.wording import plural
from accord_tools.fleet.catalogs.characters import name_character
from accord_tools.fleet.catalogs.entries import (
    CatalogEntry,
    annotations_of,
    text_at,
    tool_schema,
)
from accord_tools.fleet.catalogs.lint_rules import make_finding
from accord_tools.fleet.catalogs.look_alikes import foreign_letters
from accord_tools.fleet.catalogs.summary import estimate_tokens
from accord_tools.fleet.catalogs.words import stem_of, style_of, word_set, words_of
from accord_tools.fleet.results import CatalogFinding

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
_SHOWN: Final = 5
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
            f"is described as {_quote(text)}, which its name says already; say what it returns,"
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
        f" {_some(missing)}; say what each means, with its unit or form",
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
        f"has {_some(shown)} in its name; some hosts refuse other characters than ASCII letters,"
        " digits, _ and -",
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
        shown = "; ".join(f"{style} {len(names):,} ({_some(names, 2)})" for style, names in ranked)
        yield make_finding(
            "surface.names-mixed-style",
            f"names its tools in several styles: {shown}; choose one, so that models guess right",
        )


def _some(names: list[str], shown: int = _SHOWN) -> str:
    more = len(names) - shown
    listed = ", ".join(escape_unprintable(each[:80]) for each in names[:shown])
    return listed + (f" and {more:,} more" if more > 0 else "")


def _quote(text: str) -> str:
    return f'"{escape_unprintable(text[:80])}"'
