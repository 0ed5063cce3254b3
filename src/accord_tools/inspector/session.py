"""One inspected server, recording or watched connection, and the parts that work on it.

Changes are versions of areas of the page. The feed sends versions only: the page then asks for what
it shows, so a slow page never makes the server keep anything for it.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, get_args

from accord.client.server_spec import ServerSpec
from accord_tools.inspector.definition import InspectOptions, SessionKind

log = logging.getLogger("accord_tools.inspector")

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


# How long parts may take to end.
_ENDING: Final = 10.0


class SessionPart(Protocol):
    """A part of a session, made when it is first asked for."""

    def __init__(self, session: "InspectedSession") -> None: ...


Part = TypeVar("Part", bound=SessionPart)


class InspectedSession:
    """A target with its parts.

    Args:
        index: its number on the page.
        target: the server.
        kind: whether it is a live connection, a recording, or traffic of others.
        options: how the inspector works.
        changes: learns of each change of an area.
        add_session: adds another session to the same page.
    """

    def __init__(
        self,
        index: int,
        target: ServerSpec,
        kind: SessionKind,
        *,
        options: InspectOptions,
        changes: Changes,
        add_session: "Callable[[ServerSpec, SessionKind], InspectedSession] | None" = None,
    ) -> None:
        self.index = index
        self.target = target
        self.kind: SessionKind = kind
        self.options = options
        self._changes = changes
        self._add_session = add_session
        self._parts: dict[type[Any], Any] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def part(self, kind: type[Part]) -> Part:
        """Return the part of a kind; it is made for this session at the first time."""
        found: Part | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return found

    def mark(self, area: Area) -> None:
        """Note that an area has changed, so that pages ask for it again."""
        self._changes.mark(self.index, area)

    def mark_app(self) -> None:
        """Note that the list of sessions shows something else now."""
        self._changes.mark(APP, "app")

    def add_session(self, target: ServerSpec, kind: SessionKind) -> "InspectedSession":
        """Add another session to the same page, such as a recording that a person opens."""
        assert self._add_session is not None, "this session has no page"
        return self._add_session(target, kind)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Run something in the background until it ends or the session is closed."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("work of a session failed", exc_info=error)

    async def close(self) -> None:
        """End all parts, the newest first, within a bounded time."""
        for part in reversed(list(self._parts.values())):
            end = getattr(part, "close", None)
            if end is not None:
                try:
                    async with asyncio.timeout(_ENDING):
                        await end()
                except TimeoutError:
                    log.warning("%s did not end in time", type(part).__name__)
                except Exception:
                    log.exception("%s did not end cleanly", type(part).__name__)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_ENDING)
