"""Texts of one server that may harm a model or its user, and tools that may harm together."""

from collections.abc import Iterable, Iterator
from typing import Final

from accord.cli.terminal import escape_unprintable
from accord.json_schema.reader import properties_of
from accord.types import JsonObject
from accord_tools.fleet.catalogs.characters import describe_hidden, find_blanks, find_hidden
from accord_tools.fleet.catalogs.entries import (
    CatalogEntry,
    CatalogText,
    instructions_of,
    texts_of,
    tool_schema,
)
from accord_tools.fleet.catalogs.flows import FLOW_LABELS, label_tools
from accord_tools.fleet.catalogs.lint_rules import make_finding
from accord_tools.fleet.catalogs.suspicions import (
    find_secrets,
    find_side_channels,
    find_words,
    is_secret_value,
    may_instruct,
)
from accord_tools.fleet.results import CatalogFinding

_SHOWN: Final = 3
_GIVEN: Final = ("default", "const", "examples", "example")


def check_entry_texts(entry: CatalogEntry) -> Iterator[CatalogFinding]:
    """Yield what is suspicious about the texts of one entry."""
    yield from _check_texts(list(texts_of(entry)), entry.subject)
    if entry.list == "tools":
        schema = tool_schema(entry)
        yield from _check_defaults(schema, entry.subject)
        for name, why in find_side_channels(schema):
            yield make_finding(
                "safety.instruction",
                f"the parameter {_quote(name)} {why}; read what it is for",
                subject=entry.subject,
            )


def check_instructions(catalog: JsonObject) -> Iterator[CatalogFinding]:
    """Yield what is suspicious about the instructions and the name of a server."""
    named = catalog.get("server")
    if isinstance(named, str):
        yield from _check_texts([CatalogText("name", named, True, False)], "")
    text = instructions_of(catalog)
    if text:
        yield from _check_texts([CatalogText("", text, False, True)], "the instructions")


def _check_texts(texts: list[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    joined = "\n".join(each.text for each in texts)
    # Most entries pass these quick tests.
    is_plain = joined.isascii() and joined.replace("\n", "").isprintable()
    if not is_plain or find_blanks(joined) is not None:
        yield from _check_invisible(texts, subject)
    if may_instruct(joined.lower()):
        yield from _check_words(texts, subject)
    if any(True for _ in find_secrets(joined)):
        yield from _check_secrets(texts, subject)


def _check_invisible(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    for each in texts:
        found = find_hidden(each.text, is_name=each.is_name)
        if found:
            yield make_finding(
                "safety.invisible",
                f"{_where(each)}has characters that people do not see:"
                f" {describe_hidden(found, each.text)}; remove them",
                subject=subject,
            )
        blank = find_blanks(each.text)
        if blank is not None:
            yield make_finding(
                "safety.invisible",
                f"{_where(each)}has a long run of blanks at character {blank}, which moves the"
                " text after it out of sight; remove them",
                subject=subject,
            )


def _check_words(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    seen: set[str] = set()
    for each in texts:
        for does, words in find_words(each.text):
            if does not in seen:
                seen.add(does)
                quoted = f": {escape_unprintable(words)}" if words else ""
                yield make_finding(
                    "safety.instruction",
                    f"{_where(each)}{does}{quoted}; if that is honest, accept it",
                    subject=subject,
                )


def _check_secrets(texts: Iterable[CatalogText], subject: str) -> Iterator[CatalogFinding]:
    for each in texts:
        found = find_secrets(each.text)
        if found:
            shown = ", ".join(f"{form} at character {at}" for at, form in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            yield make_finding(
                "safety.secret",
                f"{_where(each)}has the form of a secret: {shown}{more}; if it is real, revoke it"
                " and remove it",
                subject=subject,
            )


def _check_defaults(schema: JsonObject, subject: str) -> Iterator[CatalogFinding]:
    for name, each in properties_of(schema).items():
        for key in _GIVEN if isinstance(each, dict) else ():
            value = each.get(key)
            values = value if isinstance(value, list) else [value]
            if any(is_secret_value(name, one) and not find_secrets(one) for one in values):
                yield make_finding(
                    "safety.secret",
                    f"the parameter {_quote(name)} has a {key} that may be a real secret; if it"
                    " is, revoke it and remove it",
                    subject=subject,
                )


def _where(text: CatalogText) -> str:
    return f"its {escape_unprintable(text.place[:120])} " if text.place else ""


def _quote(text: str) -> str:
    return f'"{escape_unprintable(text[:120])}"'


# -- tools together


def check_flow(tools: list[CatalogEntry]) -> Iterator[CatalogFinding]:
    """Yield a finding if one server has all three kinds of tools that leak data together."""
    labels = label_tools(tools)
    if all(labels.values()):
        shown = "; ".join(
            f"{FLOW_LABELS[label]}: {_some(names)}" for label, names in labels.items()
        )
        yield make_finding(
            "safety.flow",
            f"a text of a stranger could make a model send private data: {shown}; let people"
            " confirm what is sent",
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(escape_unprintable(each[:80]) for each in names[:_SHOWN]) + more
