"""The lint: reads catalogs and says what to change, without a network and without a model."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace

from accord.http.rules.addresses import is_loopback
from accord.types import JsonObject
from accord_tools.fleet.catalogs.collisions import (
    check_collisions,
    check_joint_flow,
    check_mentions,
)
from accord_tools.fleet.catalogs.entries import CatalogEntry, entries_of, estimate_tokens
from accord_tools.fleet.catalogs.lint_rules import limit_findings, make_finding
from accord_tools.fleet.catalogs.quality import (
    MOST_TOKENS,
    MOST_TOOLS,
    check_description,
    check_openness,
    check_schema,
    check_tool,
    check_tools,
)
from accord_tools.fleet.catalogs.safety import check_entry_texts, check_flow, check_instructions
from accord_tools.fleet.results import CatalogFinding


def lint_catalog(catalog: JsonObject, *, server: str) -> tuple[CatalogFinding, ...]:
    """Return what is worth changing about the catalog of one server.

    Args:
        catalog: as `accord.testing.catalog_of` returns it, or a lock file.
        server: the name of the server in the fleet.
    """
    found = limit_findings(_lint(catalog, server))
    return tuple(replace(each, server=server) for each in found)


def _lint(catalog: JsonObject, server: str) -> Iterator[CatalogFinding]:
    yield from check_instructions(catalog)
    entries = list(entries_of(catalog))
    tools = [each for each in entries if each.list == "tools"]
    for entry in entries:
        yield from check_entry_texts(entry)
        if entry.list == "tools":
            yield from check_tool(entry, server)
            yield from check_schema(entry)
        elif entry.list == "prompts":
            yield from check_description(entry)
    yield from check_tools(tools)
    yield from check_openness(tools)
    yield from check_collisions({server: tools})
    yield from check_flow(tools)


def lint_fleet(catalogs: Mapping[str, JsonObject]) -> tuple[CatalogFinding, ...]:
    """Return what is worth changing about servers that one host uses together.

    Args:
        catalogs: of each server, by its name in the fleet. What is worth changing about one alone
            is not in the result: see `lint_catalog`.
    """
    return tuple(limit_findings(_lint_together(catalogs)))


def _lint_together(catalogs: Mapping[str, JsonObject]) -> Iterator[CatalogFinding]:
    entries: dict[str, list[CatalogEntry]] = {
        server: list(entries_of(catalog)) for server, catalog in catalogs.items()
    }
    tools = {
        server: [each for each in found if each.list == "tools"]
        for server, found in entries.items()
    }
    if len(catalogs) < 2:
        return
    yield from (each for each in check_collisions(tools) if not each.server)
    yield from check_mentions(catalogs, entries)
    yield from check_joint_flow(tools)
    count = sum(map(len, tools.values()))
    if count > MOST_TOOLS:
        yield make_finding(
            "surface.too-many-tools",
            f"all servers together offer {count:,} tools; a host that shows {MOST_TOOLS} of all"
            " servers leaves out the rest: give each host the servers that it needs",
            severity="info",
        )
    tokens = sum(estimate_tokens([each.value for each in found]) for found in tools.values())
    if tokens > MOST_TOKENS:
        yield make_finding(
            "surface.token-cost",
            f"the tools of all servers cost a model about {tokens:,} tokens in each conversation;"
            " give each host the servers that it needs",
            severity="info",
        )


def lint_remote(
    url: str, *, has_token: bool, lists_tools: bool, server: str = ""
) -> tuple[CatalogFinding, ...]:
    """Return what is worth changing about the way in which a remote server is reached.

    Args:
        url: of the server.
        has_token: whether requests had a token or another credential.
        lists_tools: whether the server listed its tools.
        server: the name of the server in the fleet.
    """
    found = []
    parts = urlsplit(url)
    if parts.scheme.lower() in ("http", "ws") and not is_loopback(parts.hostname or ""):
        found.append(
            make_finding(
                "safety.plain-http",
                "is reached without TLS: anyone on the way can read and change what it says;"
                " use https",
                server=server,
            )
        )
    if lists_tools and not has_token:
        found.append(
            make_finding(
                "safety.no-auth",
                "lists its tools without a token; if they are not for everyone, demand one",
                server=server,
            )
        )
    return tuple(found)
