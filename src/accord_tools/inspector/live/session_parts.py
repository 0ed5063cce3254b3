"""The parts of a live session, tied to its connection; among them the roots, and the watch on code.

A person edits the roots. A server is restarted when its Python code changes, as long as the code
can be compiled.
"""

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from accord.client.callbacks import to_roots
from accord.client.options import ConnectOptions
from accord.errors import AccordError
from accord.runtime.source_files import (
    INTERVAL,
    SHARE,
    SourceFiles,
    TooManyFiles,
    changed_files,
    drop_bytecode,
    find_syntax_error,
    name_files,
    scan_files,
    wait_until_settled,
)
from accord.types import JsonObject, Root
from accord_tools.inspector.actions import action
from accord_tools.inspector.definition import ActionRefused
from accord_tools.inspector.live.live_connection import LiveConnection
from accord_tools.inspector.live.page_questions import AskedQuestions
from accord_tools.inspector.live.server_catalog import ServerCatalog
from accord_tools.inspector.live.subscriptions import WatchedResources
from accord_tools.inspector.live.task_list import TaskList
from accord_tools.inspector.target_access import reload_folders

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class SourceWatch:
    """Looks at the files of a target again and again, a part of a session."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._folders = [str(each.absolute()) for each in reload_folders(session)]
        # Files that changed while the code could not be compiled.
        self._pending: set[str] = set()
        self._seen: SourceFiles | None = None

    @property
    def is_watching(self) -> bool:
        """Whether the files were looked at once, so that changes are noticed."""
        return self._seen is not None

    def start(self) -> None:
        """Begin to look."""
        self._session.spawn(self._watch())

    async def _watch(self) -> None:
        interval = INTERVAL
        try:
            # Off the loop: a folder may be large, or on a slow disk.
            self._seen = await asyncio.to_thread(scan_files, self._folders)
            while True:
                await asyncio.sleep(interval)
                began = time.monotonic()
                await self._look(self._seen)
                interval = max(INTERVAL, (time.monotonic() - began) / SHARE)
        except TooManyFiles as error:
            self._say(f"changes of the code are not noticed: {error}")

    async def _look(self, before: SourceFiles) -> None:
        files = await asyncio.to_thread(scan_files, self._folders)
        if files == before:
            return
        files = await asyncio.to_thread(wait_until_settled, self._folders, files)
        self._pending.update(changed_files(before, files))
        self._seen = files
        changed = sorted(self._pending)
        error = await asyncio.to_thread(find_syntax_error, changed)
        if error:
            self._say(f"{error}; the last version goes on until the next change")
            return
        self._pending.clear()
        await asyncio.to_thread(drop_bytecode, changed)
        self._session.part(LiveConnection).restart(f"{name_files(changed)} changed; restarted")

    def _say(self, note: str) -> None:
        self._session.part(LiveConnection).note = note
        self._session.mark("session")


_ROOTS_MOST: Final = 1_000


class GivenRoot(msgspec.Struct):
    """A root as the page sends it."""

    uri: str
    name: str = ""


class DeclaredRoots:
    """The roots of a session; declared always, so that servers may ask at any time."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._roots: list[Root] = []

    def current(self) -> list[Root]:
        """Return the roots now."""
        return list(self._roots)

    def snapshot(self) -> JsonObject:
        """Return the roots for the page."""
        roots = [{"uri": each.uri, "name": each.name or ""} for each in self._roots]
        return {"roots": roots, "is_declared": True}

    async def change(self, given: list[GivenRoot]) -> None:
        """Replace the roots and notify the server, if it is connected.

        Raises:
            ActionRefused: one is not the URI of a file, or the server cannot be notified.
        """
        if len(given) > _ROOTS_MOST:
            raise ActionRefused(f"there may be {_ROOTS_MOST} roots at most", field="roots")
        roots = [Root(each.uri.strip(), name=each.name or None) for each in given]
        try:
            to_roots(roots)
        except ValueError as error:
            raise ActionRefused(str(error), field="roots") from None
        self._roots = roots
        self._session.mark("roots")
        client = self._session.part(LiveConnection).current
        if client is not None:
            try:
                await client.roots_changed()
            except AccordError as error:
                raise ActionRefused(f"the roots are changed, but not announced: {error}") from None


def wire_parts(session: "InspectedSession") -> None:
    """Register what parts need from the connection."""
    connection = session.part(LiveConnection)
    catalogs, watched = session.part(ServerCatalog), session.part(WatchedResources)
    questions, roots = session.part(AskedQuestions), session.part(DeclaredRoots)

    def note_renewal() -> None:
        connection.note = "the server lost the session; a new one was begun"
        session.mark("session")
        client = connection.current
        if client is not None:
            catalogs.fetch_all(client)

    def options() -> ConnectOptions:
        return {
            "on_sample": questions.sample,
            "on_elicit": questions.fill_in,
            "on_elicit_url": questions.visit,
            "sampling_tools": True,
            "sampling_context": True,
            "roots": roots.current,
            # The log shows the messages; without a callback some servers would send none.
            "on_log": lambda params: None,
            "on_tools_changed": lambda: catalogs.fetch("tools"),
            "on_resources_changed": catalogs.fetch_resources,
            "on_prompts_changed": lambda: catalogs.fetch("prompts"),
            "on_resource_updated": watched.note_update,
            "on_renewed": note_renewal,
        }

    connection.options.append(options)
    connection.on_task_notice.append(session.part(TaskList).take_notice)
    connection.on_ready += [catalogs.fetch_all, watched.restore]
    connection.on_ready.append(lambda client: session.mark("tasks"))
    connection.on_closed.append(catalogs.mark_stale)
    for area in ("subscriptions", "tasks"):
        connection.on_closed.append(partial(session.mark, area))
    if reload_folders(session):
        session.part(SourceWatch).start()


# -- actions of the page


@action("roots.get")
async def get_roots(session: "InspectedSession") -> object:
    """Return the roots."""
    return session.part(DeclaredRoots).snapshot()


@action("roots.set")
async def set_roots(session: "InspectedSession", *, roots: list[GivenRoot]) -> None:
    """Replace the roots."""
    await session.part(DeclaredRoots).change(roots)
