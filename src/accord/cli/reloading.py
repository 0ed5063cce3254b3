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
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from accord.cli.options import UsageError
from accord.cli.run_settings import RunSettings, find_address
from accord.cli.target import ServerPlace
from accord.cli.terminal import complain
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

if TYPE_CHECKING:
    from socket import socket

# How many seconds a server gets beyond its grace period.
_SLACK: Final = 2.0


class _Adoption(msgspec.Struct):
    """What a child gets from its parent."""

    settings: dict[str, Any]
    sockets: list[int]
    parent: int


# -- the child


def adopt(text: str) -> "tuple[RunSettings, list[socket]]":
    """Return the settings and sockets that the parent passed on; end with the parent."""
    from accord.http.server import sockets

    given = msgspec.json.decode(text, type=_Adoption)
    os.set_inheritable(given.parent, False)

    def end_with_parent() -> None:
        with suppress(OSError):
            os.read(given.parent, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, name="accord-parent", daemon=True).start()
    settings = cast("RunSettings", given.settings)
    return settings, [sockets.adopt(each, f"fd:{each}") for each in given.sockets]


# -- the parent


def supervise(place: ServerPlace, settings: RunSettings, folders: Iterable[Path]) -> int:
    """Run the server in a child until a signal arrives; restart it when a file changes."""
    if os.name == "nt":
        raise UsageError("--reload hands an open socket to a child process; Windows cannot do that")
    from accord.http.server.sockets import close_all
    from accord.runtime.shutdown import take_signals

    watched = [str(each.absolute()) for each in folders]
    try:
        seen = scan_files(watched)
    except TooManyFiles as error:
        raise _too_many(error) from None
    sockets = find_address(settings).open_sockets()
    wake, on_signal = os.pipe()
    os.set_blocking(on_signal, False)

    def stop(*_: object) -> None:
        with suppress(OSError):
            os.write(on_signal, b"x")

    with take_signals(stop):
        try:
            _Supervisor(place, settings, sockets).run(watched, seen, wake)
        except TooManyFiles as error:
            raise _too_many(error) from None
    for descriptor in (wake, on_signal):
        os.close(descriptor)
    close_all(sockets)
    return 0


def _too_many(error: TooManyFiles) -> UsageError:
    return UsageError(f"{error}; name the folders of your code with --reload-dir")


class _Supervisor:
    """Starts and stops the child."""

    def __init__(self, place: ServerPlace, settings: RunSettings, sockets: "list[socket]") -> None:
        self._place = place
        self._settings = settings
        self._sockets = sockets
        self._child: subprocess.Popen[bytes] | None = None
        self._lifeline = -1

    def run(self, watched: list[str], seen: SourceFiles, wake: int) -> None:
        """Restart the child after each change, until the pipe `wake` has something to read."""
        interval = INTERVAL
        try:
            self._start()
            while not select.select([wake], [], [], interval)[0]:
                self._look_after_child()
                began = time.monotonic()
                files = scan_files(watched)
                interval = max(INTERVAL, (time.monotonic() - began) / SHARE)
                if files != seen:
                    files = wait_until_settled(watched, files)
                    changed, seen = changed_files(seen, files), files
                    self._restart(changed)
        finally:
            self._stop()

    def _look_after_child(self) -> None:
        if self._child is not None and self._child.poll() is not None:
            code = self._child.returncode
            self._forget_child()
            complain(f"the server ended with exit code {code}; requests wait until a file changes")

    def _restart(self, changed: list[str]) -> None:
        error = find_syntax_error(changed)
        if error:
            meanwhile = "requests wait" if self._child is None else "the last version goes on"
            complain(f"{error}; {meanwhile} until the next change")
            return
        self._stop()
        complain(f"{name_files(changed)} changed; the server restarts")
        drop_bytecode(changed)
        self._start()

    def _start(self) -> None:
        reading, self._lifeline = os.pipe()
        sockets = [each.fileno() for each in self._sockets]
        given = msgspec.json.encode(_Adoption({**self._settings}, sockets, reading)).decode()
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
            child.wait(self._settings["grace"] + _SLACK)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        self._forget_child()

    def _forget_child(self) -> None:
        self._child = None
        os.close(self._lifeline)
