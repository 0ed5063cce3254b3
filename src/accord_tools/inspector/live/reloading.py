"""Restarts a server when its Python code changes, as long as the code can be compiled."""

import asyncio
import time
from typing import TYPE_CHECKING

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
from accord_tools.inspector.live.connection import LiveConnection

if TYPE_CHECKING:
    from accord_tools.inspector.session import InspectedSession


class SourceWatch:
    """Looks at the files of a target again and again, a part of a session."""

    def __init__(self, session: "InspectedSession") -> None:
        self._session = session
        self._folders = [str(each.absolute()) for each in session.target.folders]
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
