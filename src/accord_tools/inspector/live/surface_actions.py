"""Actions of the page on the lists of a server."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from accord_tools.inspector.actions import READ, Nothing, action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.connection import LiveConnection
from accord_tools.inspector.live.surface_entries import SurfaceKind
from accord_tools.inspector.live.surfaces import Surfaces
from accord_tools.inspector.live.task_list import TaskList

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class ListParams(msgspec.Struct):
    """A part of a list."""

    kind: SurfaceKind
    text: str = ""
    start: int = 0
    count: int = 100


@action("surface.list")
async def list_surface(session: "InspectedSession", params: ListParams) -> object:
    """Return a part of a list."""
    return session.part(Surfaces).snapshot(params.kind, params.text, params.start, params.count)


@action("surface.counts", kinds=READ)
async def count_surface(session: "InspectedSession", params: Nothing) -> object:
    """Return how much the server offers of each kind, and what it does not offer at all.

    Without a connection nothing is known.
    """
    if session.kind != "live" or session.part(LiveConnection).current is None:
        return {"counts": {}, "lacks": []}
    surfaces = session.part(Surfaces)
    lacks = surfaces.absent_kinds()
    if not session.part(TaskList).support()[0]:
        lacks.append("tasks")
    return {"counts": surfaces.counts(), "lacks": lacks}


class EntryParams(msgspec.Struct):
    """An entry of a list."""

    kind: SurfaceKind
    name: str


@action("surface.entry")
async def get_entry(session: "InspectedSession", params: EntryParams) -> object:
    """Return everything about an entry."""
    return session.part(Surfaces).describe(params.kind, params.name)


class KindParams(msgspec.Struct):
    """A list."""

    kind: SurfaceKind


@action("surface.refresh")
async def refresh_surface(session: "InspectedSession", params: KindParams) -> object:
    """Fetch a list again."""
    surfaces, client = session.part(Surfaces), session.part(LiveConnection).client
    if not surfaces.is_declared(params.kind, client):
        raise ActionRefused(f"the server declares no {params.kind}")
    surfaces.fetch(params.kind)
    return {}


@action("surface.lint")
async def lint_lists(session: "InspectedSession", params: Nothing) -> object:
    """Return what is odd about names, descriptions and schemas."""
    from accord_tools.fleet.surfaces.lint import lint_surface

    surface, title = session.part(Surfaces).as_surface(), session.target.title
    # Off the loop: thousands of tools take a while.
    findings = await asyncio.to_thread(lambda: lint_surface(surface, server=title))
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
