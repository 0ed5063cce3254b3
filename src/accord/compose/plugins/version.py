"""One version of a plugin: its server, and the calls that run in it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from accord.compose.plugins.modules import PluginModule
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
