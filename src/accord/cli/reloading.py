"""`accord run --reload`: a parent process holds the port, and restarts the server in a child.

Requests that arrive while no server runs wait in the queue of the listening socket. The child ends
with its parent, however that ends: it holds one end of a pipe.
"""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from accord.cli.options import UsageError
from accord.cli.run_settings import RunSettings
from accord.cli.target import ServerPlace, describe_syntax_error
from accord.cli.terminal import complain

if TYPE_CHECKING:
    from socket import socket

# Path, time of change, size and number of each Python file.
Files: TypeAlias = dict[str, tuple[int, int, int]]

_INTERVAL: Final = 0.25
# The scan of a large folder takes no more than this part of the time.
_SHARE: Final = 0.1
# How long a file must stay as it is: editors write in several steps.
_SETTLED: Final = 0.05
_FILES_MOST: Final = 20_000
_SKIPPED: Final = ("__pycache__", "node_modules", "site-packages")
_ENVIRONMENT: Final = "pyvenv.cfg"
# How many seconds a server gets beyond its grace period.
_SLACK: Final = 2.0
_NAMED: Final = 3


class _Adoption(msgspec.Struct):
    """What a child gets from its parent."""

    settings: RunSettings
    sockets: list[int]
    parent: int


# -- the child


def adopt(text: str) -> "tuple[RunSettings, list[socket]]":
    """Return the settings and sockets that the parent passed on; end with the parent."""
    from socket import IPPROTO_TCP, socket

    given = msgspec.json.decode(text, type=_Adoption)
    for descriptor in (*given.sockets, given.parent):
        os.set_inheritable(descriptor, False)

    def end_with_parent() -> None:
        with suppress(OSError):
            os.read(given.parent, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, name="accord-parent", daemon=True).start()
    found = [socket(fileno=each) for each in given.sockets]
    # As `listen` makes them, on systems that cannot say the protocol of a socket.
    return given.settings, [
        socket(each.family, each.type, IPPROTO_TCP, fileno=each.detach()) for each in found
    ]


# -- the parent


def supervise(place: ServerPlace, settings: RunSettings, folders: Iterable[Path]) -> int:
    """Run the server in a child until a signal arrives; restart it when a file changes."""
    if os.name == "nt":
        raise UsageError("--reload hands an open socket to a child process; Windows cannot do that")
    from accord.transports.http.server.sockets import listen
    from accord.transports.shutdown import take_signals

    watched = [str(each.absolute()) for each in folders]
    seen = _scan(watched)
    sockets = listen(settings.host, settings.port)
    wake, on_signal = os.pipe()
    os.set_blocking(on_signal, False)

    def stop(*_: object) -> None:
        with suppress(OSError):
            os.write(on_signal, b"x")

    with take_signals(stop):
        _Supervisor(place, settings, sockets).run(watched, seen, wake)
    for descriptor in (wake, on_signal):
        os.close(descriptor)
    for each in sockets:
        each.close()
    return 0


class _Supervisor:
    """Starts and stops the child."""

    def __init__(self, place: ServerPlace, settings: RunSettings, sockets: "list[socket]") -> None:
        self._place = place
        self._settings = settings
        self._sockets = sockets
        self._child: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    def run(self, watched: list[str], seen: Files, wake: int) -> None:
        """Restart the child after each change, until the pipe `wake` has something to read."""
        interval = _INTERVAL
        try:
            self._start()
            while not select.select([wake], [], [], interval)[0]:
                self._look_after_child()
                began = time.monotonic()
                files = _scan(watched)
                interval = max(_INTERVAL, (time.monotonic() - began) / _SHARE)
                if files != seen:
                    files = _wait_until_settled(watched, files)
                    changed = sorted(path for path, _ in files.items() ^ seen.items())
                    seen = files
                    self._restart(list(dict.fromkeys(changed)))
        finally:
            self._stop()

    def _look_after_child(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            code = self._child.returncode
            self._forget_child()
            complain(f"the server ended with exit code {code}; requests wait until a file changes")

    def _restart(self, changed: list[str]) -> None:
        error = _find_syntax_error(changed, self._place)
        if error:
            meanwhile = "requests wait" if self._child is None else "the last version goes on"
            complain(f"{error}; {meanwhile} until the next change")
            return
        names = ", ".join(os.path.relpath(each) for each in changed[:_NAMED])
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        self._stop()
        complain(f"{names}{more} changed; the server restarts")
        _drop_bytecode(changed)
        self._start()

    def _start(self) -> None:
        reading, self._lifeline = os.pipe()
        sockets = [each.fileno() for each in self._sockets]
        given = msgspec.json.encode(_Adoption(self._settings, sockets, reading)).decode()
        command = [sys.executable, "-P", "-m", "accord.cli.main", "run", self._place.target]
        self._child = subprocess.Popen(  # noqa: S603  # ourselves
            [*command, "--child", given],
            stdin=subprocess.DEVNULL,
            pass_fds=[*sockets, reading],
            # Ctrl-C of a terminal reaches the parent alone, and a second signal would be too many.
            process_group=0,
        )
        os.close(reading)

    def _stop(self) -> None:
        child = self._child
        if child is None:
            return
        with suppress(ProcessLookupError):
            child.terminate()
        try:
            child.wait(self._settings.grace + _SLACK)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._forget_child()

    def _forget_child(self) -> None:
        self._child = None
        os.close(self._lifeline)


# -- files


def _scan(folders: Iterable[str]) -> Files:
    """Return the Python files below some folders, without environments and hidden folders."""
    found: Files = {}
    waiting = list(folders)
    count = 0
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            inside = list(entries)
            count += len(inside)
            if count > _FILES_MOST:
                raise UsageError(
                    f"there are more than {_FILES_MOST} files to watch in {folder}; name the "
                    "folders of your code with --reload-dir"
                )
            if any(each.name == _ENVIRONMENT for each in inside):
                continue
            for each in inside:
                if each.name.startswith(".") or each.name in _SKIPPED:
                    continue
                if each.is_dir(follow_symlinks=False):
                    waiting.append(each.path)
                elif each.name.endswith(".py"):
                    state = each.stat()
                    found[each.path] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def _wait_until_settled(folders: Iterable[str], files: Files) -> Files:
    while True:
        time.sleep(_SETTLED)
        now = _scan(folders)
        if now == files:
            return now
        files = now


def _find_syntax_error(paths: Iterable[str], place: ServerPlace) -> str:
    """Return the first syntax error in some files; empty without one."""
    import warnings

    for path in paths:
        with suppress(OSError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            source = Path(path).read_bytes()
            try:
                compile(source, path, "exec", dont_inherit=True)
            except SyntaxError as error:
                return describe_syntax_error(error, place)
            except ValueError as error:  # null bytes
                return f"{os.path.relpath(path)}: {error}"
    return ""


def _drop_bytecode(paths: Iterable[str]) -> None:
    """Remove cached bytecode: Python takes it for that of a file of equal size and second."""
    from importlib.util import cache_from_source

    for path in paths:
        with suppress(OSError, NotImplementedError):
            os.unlink(cache_from_source(path))
