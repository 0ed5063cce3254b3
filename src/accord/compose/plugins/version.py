"""One version of a plugin: its modules, its server, and the calls that run in it."""

import asyncio
import importlib.machinery
import importlib.util
import itertools
import linecache
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from accord.errors import RegistrationError
from accord.protocol.exchange import Exchange
from accord.server.context import Context
from accord.server.entries.entry import Entry, EntryKind
from accord.server.server import Server
from accord.server.sources.entries import WrappedEntry, wrap
from accord.server.sources.sessions import SharedLifespan, lifespan_of
from accord.server.sources.source import Views

if TYPE_CHECKING:
    from accord.server.session import Session


_PREFIX: Final = "accord_plugin_"
_numbers: Final = itertools.count(1)
# One plugin is imported at a time: the names of helper modules are those of the folder meanwhile.
_importing: Final = threading.RLock()


class _FreshLoader(importlib.machinery.SourceFileLoader):
    """Compiles a file each time: cached bytecode may be that of an older file of equal size."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        linecache.checkcache(path)  # for tracebacks
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def _find_spec(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Return how the Python file of a module is loaded, if one of the folders has it."""
    stem = name.rpartition(".")[2]
    for folder in map(Path, folders):
        package = folder / stem
        for file, places in (
            (package / "__init__.py", [str(package)]),
            (folder / f"{stem}.py", None),
        ):
            if file.is_file():
                return importlib.util.spec_from_file_location(
                    name,
                    file,
                    loader=_FreshLoader(name, str(file)),
                    submodule_search_locations=places,
                )
    return None


class _VersionFinder:
    """Finds the modules below the packages of versions, also when a handler imports them later."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if path is None or not name.startswith(_PREFIX):
            return None
        return _find_spec(name, path)


class _HelperFinder:
    """Finds modules of the folder by their plain names, while a plugin of it is imported.

    Args:
        folder: that of the plugins.
        found: the names that were found so; those below them are found in the same place.
        finds_below: whether it finds those below alone, and the other finder the first ones.
    """

    def __init__(self, folder: Path, found: set[str], *, finds_below: bool) -> None:
        self._folders = [str(folder)]
        self._thread = threading.get_ident()
        self._found = found
        self._finds_below = finds_below

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if threading.get_ident() != self._thread or self._finds_below is (path is None):
            return None
        if path is not None and name.partition(".")[0] not in self._found:
            return None
        spec = _find_spec(name, self._folders if path is None else path)
        if spec is not None:
            self._found.add(name)
        return spec


_versions: Final = _VersionFinder()


def main_file(path: Path) -> Path:
    """Return the file that a plugin begins with."""
    return path / "__init__.py" if path.is_dir() else path


class PluginModule:
    """One version of a plugin, imported.

    Args:
        path: its file, or the folder of its package.

    Attributes:
        files: all files of the folder that were imported for it, its own among them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._package = f"{_PREFIX}{next(_numbers)}"
        self.files: frozenset[Path] = frozenset([main_file(path)])

    def load(self) -> ModuleType:
        """Import it.

        Raises:
            BaseException: what its code raises.
        """
        folder = self.path.parent
        name = f"{self._package}.{self.path.stem.replace('.', '_')}"
        package = ModuleType(self._package)
        package.__path__ = [str(folder)]
        with _importing:
            if _versions not in sys.meta_path:
                sys.meta_path.insert(0, _versions)
            sys.modules[self._package] = package
            try:
                with self._helpers(folder):
                    return self._import(name)
            finally:
                self.files = frozenset([main_file(self.path), *self._find_files()])

    def _import(self, name: str) -> ModuleType:
        main = str(main_file(self.path))
        spec = importlib.util.spec_from_file_location(
            name,
            main,
            loader=_FreshLoader(name, main),
            submodule_search_locations=[str(self.path)] if self.path.is_dir() else None,
        )
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # modules that it imports may import it back
        spec.loader.exec_module(module)
        return module

    @contextmanager
    def _helpers(self, folder: Path) -> Iterator[None]:
        """Let the plugin import modules of its folder by their plain names.

        Afterwards they are known by names within the package of the version, so that the next
        version, and a plugin of another folder, get their own.
        """
        found: set[str] = set()
        first = _HelperFinder(folder, found, finds_below=True)
        last = _HelperFinder(folder, found, finds_below=False)  # installed modules come first
        sys.meta_path.insert(0, first)
        sys.meta_path.append(last)
        try:
            yield
        finally:
            sys.meta_path.remove(first)
            sys.meta_path.remove(last)
            for name in found:
                module = sys.modules.pop(name, None)
                if module is not None:
                    sys.modules.setdefault(f"{self._package}.{name}", module)

    def _find_files(self) -> Iterator[Path]:
        for name in self._module_names():
            file = getattr(sys.modules.get(name), "__file__", None)
            if file is not None:
                yield Path(file)

    def _module_names(self) -> list[str]:
        within = f"{self._package}."
        return [name for name in list(sys.modules) if name.startswith(within)]

    def unload(self) -> None:
        """Forget its modules."""
        for name in (*self._module_names(), self._package):
            sys.modules.pop(name, None)


# -- versions

Prefixes: TypeAlias = Callable[[Path], str | None] | None

# As `accord run` looks for them.
_USUAL_NAMES: Final = ("server", "mcp", "app")
# A call that has found its entry may begin a moment later.
_PAUSE: Final = 0.1


class PluginVersion:
    """A plugin as its file was at one time.

    Args:
        path: its file, or the folder of its package.
        prefixes: the prefix of its entries, by its path.

    Attributes:
        files: the files that it is made of, once it is loaded or has failed.
    """

    def __init__(self, path: Path, prefixes: Prefixes = None) -> None:
        self.path = path
        self._prefixes = prefixes
        self._module = PluginModule(path)
        self._calls = 0
        self._lock = threading.Lock()
        self._idle: Future[None] | None = None
        self._known: dict[EntryKind, tuple[object, list[CountedEntry]]] = {}
        self.source: Views = Server(path.stem)._core

    def __repr__(self) -> str:
        return f"plugin {self.path.name}"

    @property
    def files(self) -> frozenset[Path]:
        return self._module.files

    @property
    def lifespan(self) -> SharedLifespan:
        return lifespan_of(self.source)

    def load(self) -> None:
        """Import the file and find its server.

        Raises:
            RegistrationError: it cannot be imported, or has no server; with file and line.
        """
        try:
            server = _find_server(self._module.load(), self.path)._core
            _check_protection(server)
            prefix = None if self._prefixes is None else self._prefixes(self.path)
            self.source = server if not prefix else server.prefix(prefix)
        except KeyboardInterrupt:
            self.unload()
            raise
        except BaseException as error:
            self.unload()
            raise describe(error, self.path) from error

    def unload(self) -> None:
        """Forget the modules."""
        self._module.unload()

    # -- what it offers

    def entries(self, kind: EntryKind) -> Sequence[Entry]:
        """Return its entries, which count their calls."""
        offered = self.source.entries(kind)
        known = self._known.get(kind)
        if known is None or known[0] is not offered:
            counted = [wrap(CountedEntry, each, version=self) for each in offered]
            self._known[kind] = known = (offered, counted)
        return known[1]

    # -- calls under way

    def begin_call(self) -> None:
        with self._lock:
            self._calls += 1

    def end_call(self) -> None:
        with self._lock:
            self._calls -= 1
            if self._calls == 0 and self._idle is not None:
                self._report_idle(self._idle)

    async def wait_for_calls(self, grace: float) -> None:
        """Wait until no call runs here any more, but not longer than the grace."""
        await asyncio.sleep(min(_PAUSE, grace))
        with self._lock:
            if self._idle is None:
                self._idle = Future()
            if self._calls == 0:
                self._report_idle(self._idle)
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(self._idle)), grace)

    @staticmethod
    def _report_idle(idle: "Future[None]") -> None:
        if not idle.done():
            idle.set_result(None)


# -- finding the server


def _find_server(module: ModuleType, path: Path) -> Server[Any]:
    for name in _USUAL_NAMES:
        found = getattr(module, name, None)
        if isinstance(found, Server):
            return found
    servers = {name: each for name, each in vars(module).items() if isinstance(each, Server)}
    if len({id(each) for each in servers.values()}) == 1:
        return next(iter(servers.values()))
    if servers:
        raise RegistrationError(
            f"has several servers: {', '.join(servers)}; name one of them server"
        )
    register = getattr(module, "register", None)
    if not callable(register):
        raise RegistrationError(
            "offers nothing: write server = Server(...) at its top level, or a function "
            "register(server) that adds tools"
        )
    server: Server[Any] = Server(path.stem)
    outcome = register(server)
    if isinstance(outcome, Awaitable):
        if asyncio.iscoroutine(outcome):
            outcome.close()
        raise RegistrationError("its function register is async, expected a plain one")
    return server


def _check_protection(source: Views) -> None:
    """Refuse a plugin that is protected: where it is mounted, its protection is not in force."""
    if getattr(source, "auth", None) is not None:
        raise RegistrationError(
            f"{source!r} is protected (auth): protect the server that mounts the folder instead"
        )
    for part in source.parts():
        _check_protection(part)


def describe(error: BaseException, path: Path) -> RegistrationError:
    """Return an error of a plugin with the file and the line that it comes from."""
    if isinstance(error, SyntaxError):
        said = f"{error.filename or path}:{error.lineno or 1}: {error.msg}"
    else:
        lines = [
            f"{file}:{line}"
            for frame, line in walk_tb(error.__traceback__)
            if Path(file := frame.f_code.co_filename).is_relative_to(path.parent)
        ]
        where = lines[-1] if lines else str(path)
        text = " ".join(str(error).split())
        is_own = isinstance(error, RegistrationError)
        kind = "" if is_own else type(error).__name__ + (": " if text else "")
        said = f"{where}: {kind}{text}"
    return RegistrationError(said)


# -- entries that count their calls


class CountedEntry(WrappedEntry, frozen=True, kw_only=True):
    """An entry whose requests its plugin counts, so that none is cut off when it is replaced."""

    version: PluginVersion

    def answer(
        self,
        session: "Session",
        exchange: Exchange,
        params: Any,
        context: Context[Any] | None = None,
    ) -> Any:
        self.version.begin_call()
        try:
            outcome = self.inner.answer(session, exchange, params, context)
        except BaseException:
            self.version.end_call()
            raise
        if isinstance(outcome, Struct):
            self.version.end_call()
            return outcome
        return self._finish(outcome)

    async def _finish(self, work: Awaitable[Any]) -> Any:
        try:
            return await work
        finally:
            self.version.end_call()
