"""Actions of the page on the lists of a server."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.catalog import ServerCatalog
from accord_tools.inspector.live.catalog_entries import CatalogKind
from accord_tools.inspector.live.connection import LiveConnection
from accord_tools.inspector.live.task_list import TaskList

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class ListParams(msgspec.Struct):
    """A part of a list."""

    kind: CatalogKind
    text: str = ""
    start: int = 0
    count: int = 100


@action("catalog.list")
async def list_catalog(session: "InspectedSession", params: ListParams) -> object:
    """Return a part of a list."""
    catalog = session.part(ServerCatalog)
    return catalog.snapshot(params.kind, params.text, params.start, params.count)


@action("catalog.counts", kinds=READ)
async def count_catalog(session: "InspectedSession", params: Nothing) -> object:
    """Return how much the server offers of each kind, and what it does not offer at all.

    Without a connection nothing is known.
    """
    if session.kind != "live" or session.part(LiveConnection).current is None:
        return {"counts": {}, "lacks": []}
    catalogs = session.part(ServerCatalog)
    lacks = catalogs.absent_kinds()
    if not session.part(TaskList).support()[0]:
        lacks.append("tasks")
    return {"counts": catalogs.counts(), "lacks": lacks}


class EntryParams(msgspec.Struct):
    """An entry of a list."""

    kind: CatalogKind
    name: str


@action("catalog.entry")
async def get_entry(session: "InspectedSession", params: EntryParams) -> object:
    """Return everything about an entry."""
    return session.part(ServerCatalog).describe(params.kind, params.name)


class KindParams(msgspec.Struct):
    """A list."""

    kind: CatalogKind


@action("catalog.refresh")
async def refresh_catalog(session: "InspectedSession", params: KindParams) -> object:
    """Fetch a list again."""
    catalogs, client = session.part(ServerCatalog), session.part(LiveConnection).client
    if not catalogs.is_declared(params.kind, client):
        raise ActionRefused(f"the server declares no {params.kind}")
    catalogs.fetch(params.kind)
    return {}


@action("catalog.lint")
async def lint_lists(session: "InspectedSession", params: Nothing) -> object:
    """Return what is odd about names, descriptions and schemas."""
    from accord_tools.fleet.catalogs.lint import lint_catalog

    catalog, title = session.part(ServerCatalog).as_catalog(), session.target.title
    # Off the loop: thousands of tools take a while.
    findings = await asyncio.to_thread(lambda: lint_catalog(catalog, server=title))
    return {
        "findings": [
            {
                "rule": each.id,
                "severity": each.severity,
                "where": each.subject,
                "message": each.text,
            }
            for each in findings
        ]
    }
