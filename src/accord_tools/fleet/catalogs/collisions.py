"""Servers against each other: names that collide, texts that name tools of another server."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from accord.cli.terminal import escape_unprintable
from accord.types import JsonObject
from accord_tools.fleet.catalogs.characters import (
    fold_look,
    fold_style,
    foreign_letters,
    name_character,
)
from accord_tools.fleet.catalogs.entries import CatalogEntry, instructions_of, style_of, texts_of
from accord_tools.fleet.catalogs.lint_rules import make_finding, some_of
from accord_tools.fleet.catalogs.safety import FLOW_LABELS, FlowLabel, label_tools
from accord_tools.fleet.results import CatalogFinding, Severity

_TOKEN: Final = re.compile(r"`?(?<![\w./@-])[A-Za-z][\w-]*+(?![\w/@-]|\.\w)`?")
# Shorter names are ordinary words, even with a separator.
_LEAST: Final = 6
_SHOWN: Final = 3


_name: Final = partial(some_of, most=_SHOWN, longest=200)


class _Offer(NamedTuple):
    server: str
    tool: str

    def __str__(self) -> str:
        return f"{escape_unprintable(self.tool[:80])} of {escape_unprintable(self.server[:80])}"


def check_collisions(tools: Mapping[str, list[CatalogEntry]]) -> Iterator[CatalogFinding]:
    """Yield the names of tools that a model or a person may mistake for each other.

    Args:
        tools: of each server, by its name. A server alone is compared with itself.
    """
    offers = [_Offer(server, each.name) for server, found in tools.items() for each in found]
    yield from _equal_names(offers)
    reported: set[frozenset[str]] = set()
    for fold, describe in ((fold_style, _describe_style), (fold_look, _describe_look)):
        yield from _similar_names(offers, fold, describe, reported)


def _equal_names(offers: Iterable[_Offer]) -> Iterator[CatalogFinding]:
    by_name: dict[str, list[str]] = {}
    for each in offers:
        by_name.setdefault(each.tool, []).append(each.server)
    for name, servers in by_name.items():
        others = list(dict.fromkeys(servers))
        if len(others) > 1:
            text = f"is offered by {_name(others)}; a host that does not add the name of the"
            yield make_finding(
                "safety.collision",
                f"{text} server calls one of them by chance: rename it in all but one",
                subject=f"tool {name}",
            )
        elif len(servers) > 1:
            yield make_finding(
                "safety.collision",
                f"is offered {len(servers)} times; hosts keep one of them: rename the others",
                subject=f"tool {name}",
                server=others[0],
            )


def _similar_names(
    offers: Iterable[_Offer],
    fold: Callable[[str], str],
    describe: Callable[[list[str]], tuple[Severity, str]],
    reported: set[frozenset[str]],
) -> Iterator[CatalogFinding]:
    groups: dict[str, dict[str, _Offer]] = {}
    for each in offers:
        groups.setdefault(fold(each.tool), {}).setdefault(each.tool, each)
    for group in groups.values():
        names = frozenset(group)
        if len(group) < 2 or names in reported:
            continue
        reported.add(names)
        severity, how = describe(list(group))
        servers = {each.server for each in group.values()}
        first = next(iter(group.values()))
        yield make_finding(
            "safety.collision",
            f"{_name(map(str, group.values()))} {how}; rename all but one",
            subject=f"tool {first.tool}",
            server=first.server if len(servers) == 1 else "",
            severity=severity,
        )


def _describe_style(_names: list[str]) -> tuple[Severity, str]:
    return "info", "differ only by case and separators"


def _describe_look(names: list[str]) -> tuple[Severity, str]:
    foreign = {letter: plain for name in names for letter, plain in foreign_letters(name)}
    shown = ", ".join(
        f"{name_character(letter)} for {plain!r}"
        for letter, plain in list(foreign.items())[:_SHOWN]
    )
    return "warn", f"look alike{f' ({shown})' if shown else ''}"


# -- texts that name others


class _Names(NamedTuple):
    """The names of all servers and their tools: by name, the servers that it belongs to."""

    tools: dict[str, set[str]]
    servers: set[str]


def check_mentions(
    catalogs: Mapping[str, JsonObject], entries: Mapping[str, list[CatalogEntry]]
) -> Iterator[CatalogFinding]:
    """Yield the texts of a server that name another server or one of its tools.

    Ordinary words count only in backticks: most names of one word are ordinary words.
    """
    names = _Names({}, {each for each in catalogs if len(each) > 1})
    for server, found in entries.items():
        for each in found:
            if each.list == "tools":
                names.tools.setdefault(each.name, set()).add(server)
    for server, catalog in catalogs.items():
        text = instructions_of(catalog)
        yield from _mentions(server, "the instructions", [text], names)
        for entry in entries[server]:
            prose = [each.text for each in texts_of(entry) if each.is_prose]
            yield from _mentions(server, entry.subject, prose, names)


def _mentions(
    server: str, subject: str, texts: Iterable[str], names: _Names
) -> Iterator[CatalogFinding]:
    found: dict[str, str] = {}
    for text in texts:
        for token in _TOKEN.findall(text):
            name = token.strip("`")
            is_marked = len(token) == len(name) + 2
            if name in found or not (is_marked or _is_distinctive(name)):
                continue
            owners = names.tools.get(name)
            if owners is not None and server not in owners:
                found[name] = f"the tool {name} of {_name(sorted(owners))}"
            elif name in names.servers and name != server and owners is None:
                found[name] = f"the server {name}"
    if found:
        yield make_finding(
            "safety.names-other-server",
            f"names {_name(found.values())}; a server that directs the use of another one may"
            " misuse it: describe only what is offered here",
            subject=subject,
            server=server,
        )


def _is_distinctive(name: str) -> bool:
    return len(name) >= _LEAST and bool(style_of(name))


# -- flows through several servers


def check_joint_flow(tools: Mapping[str, list[CatalogEntry]]) -> Iterator[CatalogFinding]:
    """Yield a finding if servers have all three kinds of tools, and no server has them alone."""
    labels = {server: label_tools(found) for server, found in tools.items()}
    if any(all(each.values()) for each in labels.values()):
        return
    parts: dict[FlowLabel, list[str]] = {
        label: [server for server, each in labels.items() if each[label]] for label in FLOW_LABELS
    }
    if all(parts.values()):
        shown = "; ".join(f"{FLOW_LABELS[label]}: {_name(each)}" for label, each in parts.items())
        yield make_finding(
            "safety.flow",
            "in one host together, a text of a stranger could make a model send private data:"
            f" {shown}; let people confirm what is sent",
        )
