"""A folder of plugins as a source: loaded when it is made, and again when a file changes."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import wait
from contextlib import asynccontextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from accord.compose.plugins.version import PluginVersion, Prefixes, describe, main_file
from accord.errors import RegistrationError
from accord.server.entries.entry import ENTRY_KINDS, LIST_OF, EntryKind, source_location
from accord.server.hub import LIST_KINDS, UPDATED, ServerChange, list_topic
from accord.server.sources.source import Source, Views

if TYPE_CHECKING:
    from accord.server.entries.entry import Entry


# -- looking for plugins, and for what has changed in them

Stamp: TypeAlias = tuple[int, int, int] | None
"""Time of change, size and number of a file; None for one that is not there."""

# How long files must stay as they are: editors write in several steps.
_SETTLED: Final = 0.05
# A file that is written all the time is loaded all the same.
_LOOKS_MOST: Final = 40


def read_stamp(path: Path) -> Stamp:
    """Return what changes when a file changes."""
    try:
        state = path.stat()
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


def find_plugins(folder: Path, pattern: str) -> list[Path]:
    """Return the files and packages that are plugins, in order of their names.

    Raises:
        OSError: the folder cannot be read.
    """
    found = []
    with os.scandir(folder) as entries:
        for each in entries:
            if each.name.startswith((".", "_")):
                continue
            path = folder / each.name
            try:
                is_folder = each.is_dir()
            except OSError:  # a link that leads in a circle
                is_folder = False
            if is_folder and not (path / "__init__.py").is_file():
                continue
            if fnmatchcase(f"{each.name}.py" if is_folder else each.name, pattern):
                found.append(path)
    return sorted(found)


def read_stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Return the stamps of files."""
    return {path: read_stamp(path) for path in paths}


def wait_until_settled(folder: Path, pattern: str, files: Iterable[Path]) -> list[Path]:
    """Return the plugins of a folder once no file in it changes any more."""
    known = frozenset(files)
    before: object = None
    plugins: list[Path] = []
    for _ in range(_LOOKS_MOST):
        plugins = find_plugins(folder, pattern)
        now = read_stamps(known | {main_file(each) for each in plugins})
        if now == before:
            break
        before = now
        time.sleep(_SETTLED)
    return plugins


# -- the source

log = logging.getLogger("accord.server")

_TOPICS: Final = (*map(list_topic, LIST_KINDS), (UPDATED, None))


def _place_of(entry: "Entry") -> str:
    """Return where an entry comes from: the file and line of its function, if it has one."""
    return entry.place if entry.function is None else source_location(entry.function)


class PluginFolder(Source):
    """The plugins of a folder as a source to mount; `folder` is its short name.

    A plugin is a Python file, or a package, with a `Server` at its top level, or else with a
    function `register(server)`, which gets a server named after the file. Names that begin with
    `_` or `.` are skipped: helper modules, which plugins import as `from . import _helper`.

    A plugin with a mistake is logged and left out, and the others are offered. When a file changes,
    calls that began in its old version end there, and new ones go to the new version. One that
    has a mistake now stays as it was.

    Args:
        path: the folder.
        pattern: which files are plugins.
        prefix: put before the names of each plugin: its file name without `.py`, or what a function
            returns for its path.
        watch: whether to look for changes while a server is served; `reload` looks at once.
        interval: seconds between two looks.
        grace: seconds that calls in an old version get to end, before its lifespan does.

    Raises:
        NotADirectoryError: there is no such folder.

    Attributes:
        path: the folder.
        failures: why a plugin, or the new version of one, was not loaded, by its path; a
            collision of names with another plugin is here too.
    """

    is_complete = False  # a name that is expected may come with the next file

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        pattern: str = "*.py",
        prefix: bool | Callable[[Path], str | None] = False,
        watch: bool = True,
        interval: float = 0.5,
        grace: float = 30.0,
    ) -> None:
        self.path = Path(path).absolute()
        if not self.path.is_dir():
            raise NotADirectoryError(f"there is no folder {self.path} with plugins")
        super().__init__(f"folder {self.path.name}")
        self._pattern = pattern
        self._prefixes: Prefixes = _stem if prefix is True else prefix or None
        self._watches = watch
        self._interval = interval
        self._grace = grace
        self._versions: dict[Path, PluginVersion] = {}
        self._stamps: dict[Path, dict[Path, Stamp]] = {}
        self._errors: dict[Path, RegistrationError] = {}
        self._collisions: dict[Path, RegistrationError] = {}
        self._logged: set[str] = set()
        self._loops: dict[asyncio.AbstractEventLoop, _LoopVersions] = {}
        self._lock = threading.Lock()
        self._refreshing = threading.Lock()
        self._watcher: _Watcher | None = None
        self._refresh(find_plugins(self.path, self._pattern))

    def __repr__(self) -> str:
        return f"folder({str(self.path)!r})"

    @property
    def failures(self) -> dict[Path, RegistrationError]:
        for kind in ENTRY_KINDS:
            self.entries(kind)  # which finds collisions
        return {**self._collisions, **self._errors}

    # -- as a source

    def entries(self, kind: EntryKind) -> "Sequence[Entry]":
        found: dict[str, Entry] = {}
        for path, version in self._versions.items():
            for entry in version.entries(kind):
                other = found.setdefault(entry.key, entry)
                if other is not entry:
                    self._report_collision(path, entry, other)
        return [*found.values()]

    def _report_collision(self, path: Path, entry: "Entry", other: "Entry") -> None:
        text = (
            f"{_place_of(entry)}: {entry.key!r} is left out: {_place_of(other)} has the same name"
        )
        self._collisions.setdefault(path, RegistrationError(text))
        if text not in self._logged:
            self._logged.add(text)
            log.warning("plugin %s: %s", path.name, text)

    def parts(self) -> Sequence[Views]:
        return [version.source for version in self._versions.values()]

    def hear(self, change: ServerChange) -> None:
        """Pass a change of a plugin's server on."""
        self._collisions = {}
        self.hub.publish(change)

    @asynccontextmanager
    async def run_lifespan(self) -> AsyncIterator[None]:
        """Run the lifespans of all plugins, and look for changes."""
        loop = asyncio.get_running_loop()
        running = _LoopVersions(self._grace)
        with self._lock:
            self._loops[loop] = running
            versions = [*self._versions.values()]
        try:
            failed = await running.start(versions)
            if failed:
                # In a thread: one that loads a plugin at this time may wait for this loop.
                await asyncio.to_thread(self._leave_out, failed)
            self._watch()
            yield
        finally:
            with self._lock:
                self._loops.pop(loop, None)
                is_last = not self._loops
            if is_last and self._watcher is not None:
                self._watcher.stop()
                self._watcher = None
            await running.end()

    def _leave_out(self, failed: "dict[PluginVersion, BaseException]") -> None:
        """Leave plugins out whose lifespans could not be entered."""
        with self._refreshing:
            kept = {path: each for path, each in self._versions.items() if each not in failed}
            gone = {path: each for path, each in self._versions.items() if each in failed}
            self._swap(kept)
            for path, version in gone.items():
                self._note_failure(path, describe(failed[version], path))

    def _watch(self) -> None:
        with self._lock:
            if self._watches and self._watcher is None and self._loops:
                self._watcher = _Watcher(self._look, self._interval)

    # -- loading

    async def reload(self) -> None:
        """Load what has changed or has failed before, and wait until it is in use."""
        for path in self._errors:
            self._stamps.pop(path, None)
        await asyncio.to_thread(self._settle_and_refresh)

    def _look(self) -> None:
        """Load what has changed, if anything has. Called by the watcher."""
        try:
            plugins = find_plugins(self.path, self._pattern)
        except OSError as error:
            if self.path not in self._errors:
                said = f"{self.path} cannot be read, its plugins stay in use: {error}"
                self._errors[self.path] = RegistrationError(said)
                log.warning("%s", said)
            return
        self._errors.pop(self.path, None)
        if self._find_changed(plugins) or self._stamps.keys() - set(plugins):
            self._settle_and_refresh()

    def _settle_and_refresh(self) -> None:
        files = [file for stamps in self._stamps.values() for file in stamps]
        self._refresh(wait_until_settled(self.path, self._pattern, files))

    def _find_changed(self, plugins: Iterable[Path]) -> list[Path]:
        return [
            path
            for path in plugins
            if path not in self._stamps or read_stamps(self._stamps[path]) != self._stamps[path]
        ]

    def _refresh(self, plugins: Sequence[Path]) -> None:
        """Load the plugins that are new or have changed, and drop those that are gone."""
        with self._refreshing:
            versions = {path: self._versions[path] for path in plugins if path in self._versions}
            for path in self._stamps.keys() - set(plugins):
                del self._stamps[path]
                self._errors.pop(path, None)
            for path in self._find_changed(plugins):
                version = self._load(path)
                if version is not None:
                    versions[path] = version
            self._swap({path: versions[path] for path in plugins if path in versions})

    def _load(self, path: Path) -> PluginVersion | None:
        # Before it is read: a change meanwhile is seen at the next look.
        before = read_stamps([self.path, main_file(path), *self.path.glob("*.py")])
        version = PluginVersion(path, self._prefixes)
        try:
            version.load()
            self._start(version)
        except RegistrationError as error:
            # What it lacks may be a file that is not there yet.
            self._stamps[path] = {**read_stamps(version.files), **before}
            self._note_failure(path, error)
            return None
        stamps = read_stamps(version.files)
        self._stamps[path] = {file: before.get(file, stamp) for file, stamp in stamps.items()}
        self._errors.pop(path, None)
        return version

    def _start(self, version: PluginVersion) -> None:
        """Enter the lifespan of a new version on all loops, before it is in use."""
        with self._lock:
            loops = [*self._loops.items()]
        for loop, running in loops:
            try:
                _wait_for(running.acquire(version), loop)
            except Exception as error:
                self._retire(version)
                raise describe(error, version.path) from error

    def _note_failure(self, path: Path, error: RegistrationError) -> None:
        known = self._errors.get(path)
        self._errors[path] = error
        if known is None or str(known) != str(error):
            stays = "its last version stays in use" if path in self._versions else "it is left out"
            log.error("plugin %s was not loaded, %s: %s", path.name, stays, error)

    def _swap(self, versions: dict[Path, PluginVersion]) -> None:
        """Offer these versions in place of those before, and end what is no longer in use."""
        before = self._versions
        old = [each for each in before.values() if versions.get(each.path) is not each]
        new = [each for each in versions.values() if before.get(each.path) is not each]
        if not old and not new:
            return
        for each in old:
            each.source.hub.ignore(self, _TOPICS)
        for each in new:
            each.source.hub.listen(self, _TOPICS)
        self._versions = versions
        self._collisions = {}
        changed = {
            LIST_OF[kind] for kind in ENTRY_KINDS for each in (*old, *new) if each.entries(kind)
        }
        for kind in LIST_KINDS:
            if kind in changed:
                self.list_changed(kind)
        with self._lock:
            loops = [*self._loops.items()]
        for loop, running in loops:  # one that began meanwhile has the versions from before
            for each in versions.values():
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(running.acquire_soon, each)
        for each in old:
            self._retire(each)

    def _retire(self, version: PluginVersion) -> None:
        with self._lock:
            loops = [*self._loops.items()]
        if not loops:
            version.unload()
        for loop, running in loops:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(running.retire, version)


folder = PluginFolder


def _stem(path: Path) -> str:
    return path.stem


def _wait_for(work: Coroutine[Any, Any, None], loop: asyncio.AbstractEventLoop) -> None:
    """Run work on the loop of another thread; raise what it raises."""
    future = asyncio.run_coroutine_threadsafe(work, loop)
    while not future.done() and not loop.is_closed():
        wait([future], timeout=1.0)
    future.result(timeout=0)


class _LoopVersions:
    """The versions of plugins whose lifespans run on one loop."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._held: dict[PluginVersion, asyncio.Task[None]] = {}
        self._retiring: dict[PluginVersion, asyncio.Task[None]] = {}

    async def start(self, versions: Sequence[PluginVersion]) -> dict[PluginVersion, BaseException]:
        """Enter the lifespans of versions; return those that failed, each with its error."""
        outcomes = await asyncio.gather(*map(self.acquire, versions), return_exceptions=True)
        return {
            version: error
            for version, error in zip(versions, outcomes, strict=True)
            if isinstance(error, BaseException)
        }

    async def acquire(self, version: PluginVersion) -> None:
        await asyncio.shield(self.acquire_soon(version))

    def acquire_soon(self, version: PluginVersion) -> "asyncio.Task[None]":
        if version not in self._held:
            task = asyncio.ensure_future(version.lifespan.acquire())
            task.add_done_callback(lambda task: task.cancelled() or task.exception())
            self._held[version] = task
        return self._held[version]

    def retire(self, version: PluginVersion) -> None:
        """Leave the lifespan of a version once its calls have ended."""
        if version in self._held and version not in self._retiring:
            self._retiring[version] = asyncio.ensure_future(self._leave_later(version))

    async def _leave_later(self, version: PluginVersion) -> None:
        try:
            await version.wait_for_calls(self._grace)
        finally:
            await self._leave(version)
            self._retiring.pop(version, None)
            version.unload()

    async def _leave(self, version: PluginVersion) -> None:
        task = self._held.pop(version, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        await asyncio.wait([task])
        if task.cancelled() or task.exception() is not None:
            return
        try:
            await version.lifespan.release()
        except Exception:
            log.exception("the lifespan of %r failed at its end", version)

    async def end(self) -> None:
        """Leave all lifespans."""
        retiring = [*self._retiring.values()]
        for task in retiring:
            task.cancel()
        await asyncio.gather(*retiring, return_exceptions=True)
        await asyncio.gather(*map(self._leave, [*self._held]))


class _Watcher:
    """Calls a function at intervals, in a thread of its own."""

    def __init__(self, look: Callable[[], Any], interval: float) -> None:
        self._look = look
        self._interval = interval
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name="accord-plugins", daemon=True).start()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self._look()
            except Exception:
                log.exception("the plugins could not be looked at")

    def stop(self) -> None:
        self._stopped.set()
