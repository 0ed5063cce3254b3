"""Which parts of the page are out of date: a version for each area of each session.

The feed sends versions only. The page then asks for what it shows, so a slow page never makes the
server keep anything for it.
"""

import asyncio
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, get_args

Area: TypeAlias = Literal[
    "app",
    "authorization",
    "calls",
    "check",
    "history",
    "log",
    "questions",
    "raw",
    "revisions",
    "roots",
    "session",
    "subscriptions",
    "catalog",
    "tasks",
]
AREAS: Final[tuple[Area, ...]] = get_args(Area)
APP: Final = -1
"""The index in place of a session's, for what concerns the whole page."""


class Changes:
    """The versions of all areas, and those who wait for a change. For one event loop."""

    def __init__(self) -> None:
        self._versions: dict[tuple[int, Area], int] = {}
        self._count = 0
        self._changed = asyncio.Event()

    def mark(self, index: int, area: Area) -> None:
        """Note that an area of a session has changed."""
        self._count += 1
        self._versions[index, area] = self._count
        self._changed.set()

    def since(self, version: int) -> tuple[int, Mapping[tuple[int, Area], int]]:
        """Return the newest version, and the areas that changed after the given one."""
        fresh = {key: each for key, each in self._versions.items() if each > version}
        return self._count, fresh

    async def wait(self, version: int, timeout: float) -> None:
        """Wait until something changes after a version, or until the time is over."""
        try:
            async with asyncio.timeout(timeout):
                while self._count <= version:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
