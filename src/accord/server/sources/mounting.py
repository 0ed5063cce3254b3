"""Mounting: the entries of a source among those of a server, for as long as both live."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from accord.errors import RegistrationError
from accord.server.entries.entry import ENTRY_KINDS, EntryKind
from accord.server.hub import LIST_KINDS, UPDATED, ListKind, ServerChange, list_topic
from accord.server.sources.source import Views

if TYPE_CHECKING:
    from accord.server.core import ServerCore
    from accord.server.entries.entry import Entry
    from accord.server.entries.registry import Registry, Snapshot
    from accord.server.sources.sessions import SharedLifespan

log = logging.getLogger("accord.server")

_LISTS: dict[str, ListKind] = {list_topic(kind)[0]: kind for kind in LIST_KINDS}
_PARTS: dict[ListKind, tuple[EntryKind, ...]] = {
    "tools": ("tools",),
    "prompts": ("prompts",),
    "resources": ("resources", "resource_templates"),
}


class Mount:
    """A source within a server. `Server.mount` returns it; `unmount` ends it.

    Attributes:
        source: what is mounted, as clients see it: with its prefix.
    """

    def __init__(self, server: "ServerCore", source: Views) -> None:
        self.source = source
        self._server = server
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"Mount({self.source!r})"

    def begin(self) -> None:
        """Offer all entries, and hear of changes from now on.

        Raises:
            RegistrationError: a name is taken; nothing was mounted.
        """
        registries = registries_of(self._server)
        conflicts = [
            text
            for kind in ENTRY_KINDS
            for text in registries[kind].conflicts(self.source.entries(kind))
        ]
        if conflicts:
            more = f" (and {len(conflicts) - 1} more)" if len(conflicts) > 1 else ""
            raise RegistrationError(f"{self.source!r} cannot be mounted: {conflicts[0]}{more}")
        self.source.hub.listen(self, [*map(list_topic, LIST_KINDS), (UPDATED, None)])
        for kind in ENTRY_KINDS:
            registries[kind].offer(self, partial(self.source.entries, kind))

    def hear(self, change: ServerChange) -> None:
        """Take a change of the source. Called from any thread."""
        if change.key is not None:
            self._server.resource_updated(change.key)
            return
        registries = registries_of(self._server)
        for kind in _PARTS[_LISTS[change.name]]:
            registries[kind].offer(self, partial(self.source.entries, kind))

    def refuse(self, entry: "Entry", why: str) -> None:
        """Log an entry whose name is taken, once; the other one stays."""
        if why not in self._refused:
            self._refused.add(why)
            log.warning("an entry of %r is left out: %s", self.source, why)

    def unmount(self) -> None:
        """Remove the entries; calls under way end as usual."""
        self.source.hub.ignore(self, [*map(list_topic, LIST_KINDS), (UPDATED, None)])
        self._server.mounts.remove(self)
        for registry in registries_of(self._server).values():
            registry.withdraw(self)


class Mounts:
    """The sources that are mounted in a server, and their lifespans while it is served."""

    def __init__(self, server: "ServerCore") -> None:
        self._server = server
        self._mounts: tuple[Mount, ...] = ()
        self._lock = threading.Lock()
        self._running: dict[asyncio.AbstractEventLoop, _LoopHolds] = {}

    def __iter__(self) -> Any:
        return iter(self._mounts)

    def add(self, source: Views, prefix: str | None, separator: str) -> Mount:
        """Mount a source; see `Server.mount`."""
        _check_source(source)
        if _reaches(source, self._server):
            raise RegistrationError(
                f"{source!r} cannot be mounted in {self._server!r}, of which it is made: that "
                "would be a loop"
            )
        _check_protection(self._server, source)
        if prefix is not None:
            source = source.prefix(prefix, separator=separator)
        mount = Mount(self._server, source)
        mount.begin()
        with self._lock:
            self._mounts = (*self._mounts, mount)
            running = [*self._running.items()]
        self._server.share_with(source)
        for loop, holds in running:
            loop.call_soon_threadsafe(holds.add, mount)
        return mount

    def remove(self, mount: Mount) -> None:
        """Forget a mount, and end the lifespan of its source once its calls had time to end."""
        with self._lock:
            self._mounts = tuple(each for each in self._mounts if each is not mount)
            running = [*self._running.items()]
        for loop, holds in running:
            loop.call_soon_threadsafe(holds.drop, mount)

    async def wait(self) -> None:
        """Wait until the lifespans of all sources run on this loop; of those mounted late, too.

        Raises:
            Exception: one of them failed.
        """
        holds = self._running.get(asyncio.get_running_loop())
        if holds is not None:
            await holds.acquire(self._mounts)

    @asynccontextmanager
    async def run_lifespans(self) -> AsyncIterator[None]:
        """Run the lifespans of all sources on this loop.

        Raises:
            Exception: one of them failed; the others were ended.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            holds = self._running.setdefault(loop, _LoopHolds())
            holds.users += 1
            mounts = self._mounts
        try:
            await holds.acquire(mounts)
            yield
        finally:
            with self._lock:
                holds.users -= 1
                is_last = not holds.users
                if is_last:
                    self._running.pop(loop, None)
            if is_last:
                await holds.release_all()


class _LoopHolds:
    """The lifespans that one server holds on one loop."""

    def __init__(self) -> None:
        self.users = 0
        self._held: dict[Mount, tuple[SharedLifespan, asyncio.Task[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def acquire(self, mounts: Sequence[Mount]) -> None:
        """Enter the lifespans of mounts, or wait until they are entered."""
        begun = [asyncio.shield(self._begin(mount)) for mount in mounts]
        outcomes = await asyncio.gather(*begun, return_exceptions=True)
        failed = [each for each in outcomes if isinstance(each, BaseException)]
        if failed:
            raise failed[0]

    def _begin(self, mount: Mount) -> "asyncio.Task[None]":
        held = self._held.get(mount)
        if held is None:
            from accord.server.sources.sessions import lifespan_of

            lifespan = lifespan_of(mount.source)
            task = asyncio.ensure_future(self._enter(mount, lifespan))
            self._held[mount] = held = (lifespan, task)
        return held[1]

    async def _enter(self, mount: Mount, lifespan: "SharedLifespan") -> None:
        try:
            await lifespan.acquire()
        except BaseException as error:
            self._held.pop(mount, None)
            error.add_note(f"while {mount.source!r}, which is mounted, was started")
            raise

    async def release_all(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        held, self._held = self._held, {}
        outcomes = await asyncio.gather(
            *(_leave(lifespan, task) for lifespan, task in held.values()), return_exceptions=True
        )
        for each in outcomes:
            if isinstance(each, BaseException):
                raise each

    # -- mounted and unmounted while the server runs

    def add(self, mount: Mount) -> None:
        self._spawn(self._start(mount))

    async def _start(self, mount: Mount) -> None:
        await asyncio.shield(self._begin(mount))

    def drop(self, mount: Mount) -> None:
        held = self._held.pop(mount, None)
        if held is not None:
            self._spawn(_leave_later(*held))

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._log_failure)

    def _log_failure(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("the lifespan of a mounted source failed: %s", error, exc_info=error)


async def _leave(lifespan: "SharedLifespan", task: "asyncio.Task[None]") -> None:
    """Leave a lifespan, entered or not."""
    if not task.done():
        task.cancel()
    await asyncio.wait([task])
    if not task.cancelled() and task.exception() is None:
        await lifespan.release()


async def _leave_later(lifespan: "SharedLifespan", task: "asyncio.Task[None]") -> None:
    try:
        await asyncio.sleep(_UNMOUNT_GRACE)
    finally:
        await _leave(lifespan, task)


# How long calls under way may use what was unmounted.
_UNMOUNT_GRACE = 30.0


def _check_source(source: object) -> None:
    if isinstance(source, Views):
        return
    advice = "is mounted as proxy(...), from accord.compose"
    shown = f"a {type(source).__name__}"  # an entry of a configuration may hold secrets
    if isinstance(source, str) or (isinstance(source, Sequence) and source):
        shown = f"{source!r:.80}: a URL, a command or a file {advice}"
    elif isinstance(source, os.PathLike):
        shown = f"{source!r:.80}: a file {advice}, a folder as folder(...)"
    elif isinstance(source, Mapping):
        shown += f": an entry of a configuration {advice}"
    elif isinstance(source, type):
        shown = f"the class {source.__name__}: mount an object of it"
    elif callable(source):
        shown += ": a function is added by add_tool(...)"
    raise TypeError(f"mount() takes a Server or another source, not {shown}")


def _reaches(source: Views, server: "ServerCore") -> bool:
    # A proxy may have a server of this process as its target.
    if source is server or getattr(source, "target", None) is server.owner:
        return True
    return any(_reaches(part, server) for part in source.parts())


def _check_protection(server: "ServerCore", source: Views) -> None:
    """Refuse to offer a protected server through one that is not."""
    if server.auth is not None:
        return
    auth = getattr(source, "auth", None)
    if auth is not None:
        raise RegistrationError(
            f"{source!r} is protected (auth) and {server!r} is not, so that everyone could use it "
            "here: give both the same auth"
        )
    for part in source.parts():
        _check_protection(server, part)


def registries_of(server: "ServerCore") -> "dict[EntryKind, Registry]":
    """Return the registries of a server by the kind of their entries."""
    resources = server.resource_entries
    return {
        "tools": server.tool_entries,
        "prompts": server.prompt_entries,
        "resources": resources.fixed,
        "resource_templates": resources.templates,
    }


class OwnEntries:
    """The entries of a server as a source offers them, made once for each change."""

    def __init__(self, server: "ServerCore") -> None:
        self._server = server
        self._known: dict[EntryKind, tuple[Snapshot, tuple[Entry, ...]]] = {}

    def read(self, kind: EntryKind) -> "tuple[Entry, ...]":
        snapshot = registries_of(self._server)[kind].snapshot()
        known = self._known.get(kind)
        if known is None or known[0] is not snapshot:
            from accord.server.sources.entries import own  # not every server is mounted

            entries = tuple(own(entry, self._server) for _, entry in snapshot)
            self._known[kind] = known = (snapshot, entries)
        return known[1]
