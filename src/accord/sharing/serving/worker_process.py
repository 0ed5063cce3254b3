"""What a worker process does around its work; see `worker_processes`."""

import atexit
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from socket import socket
from typing import Any, Final, NoReturn, TypeAlias

import msgspec

from accord.http.server.listener import SharedLoad
from accord.http.server.sockets import adopt
from accord.runtime.shutdown import exit_at_once
from accord.server.serving import Announcement

__all__ = [
    "SIGNAL_AT_ONCE",
    "Inheritance",
    "Work",
    "WorkerEnd",
    "restore_signals",
    "run_child",
]

SIGNAL_AT_ONCE: Final = getattr(signal, "SIGQUIT", signal.SIGTERM)
"""Ends a worker at once. SIGTERM and SIGINT let calls finish, and may be repeated: a terminal and a
service manager send them to all processes, and the parent sends one too."""


class WorkerEnd:
    """What a worker shares with its parent, and with the other workers.

    Attributes:
        sockets: those that all workers serve on.
        load: how many connections each of them has.
    """

    def __init__(self, sockets: list[socket], load: SharedLoad, readiness: int) -> None:
        self.sockets = sockets
        self.load = load
        self._readiness = readiness

    def report_ready(self, said: Announcement) -> None:
        """Report that this worker serves; once."""
        with suppress(OSError):  # the parent is gone
            os.write(self._readiness, msgspec.json.encode(said) + b"\n")
        os.close(self._readiness)


Work: TypeAlias = Callable[[WorkerEnd], int]
"""Serves on sockets until a signal arrives; returns the exit code."""


class Inheritance(msgspec.Struct):
    """What a worker gets from its parent.

    Attributes:
        sockets: those that it serves on.
        load: how many connections it and the others have.
        readiness: the end of a pipe on which it reports that it is ready.
        lifeline: the end of a pipe whose other end is closed when the parent is gone.
        grace: seconds after which it ends then, whatever hangs.
        closed: descriptors that are the parent's own.
        signals: the handlers that the parent has replaced.
        mask: the signals that are blocked while it runs.
    """

    sockets: list[socket]
    load: Any
    readiness: int
    lifeline: int
    grace: float
    closed: list[int]
    signals: Mapping[int, Any]
    mask: Any = ()


def run_child(work: Work, given: Inheritance) -> NoReturn:
    """Run a worker in the process that was forked for it, and end the process.

    Nothing of what the parent would do on its way out happens here: its temporary files and its
    `atexit` functions are its own. Those that are registered in this process are called.
    """
    code = 1
    try:
        atexit._clear()
        for descriptor in given.closed:
            os.close(descriptor)
        # Without the owner of a Unix socket: its file belongs to the parent.
        sockets = [adopt(each.detach(), "the socket of the parent") for each in given.sockets]
        restore_signals(given.signals)
        signal.signal(SIGNAL_AT_ONCE, lambda *_: exit_at_once(0))
        signal.pthread_sigmask(signal.SIG_SETMASK, given.mask)
        _end_with_parent(given.lifeline, given.grace)
        code = work(WorkerEnd(sockets, given.load, given.readiness))
    except KeyboardInterrupt:
        code = 130
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
        exit_at_once(code & 0xFF)


def restore_signals(before: Mapping[int, Any]) -> None:
    """Put handlers of signals back."""
    for number, earlier in before.items():
        # None stands for a handler that was not set in Python.
        signal.signal(number, signal.SIG_DFL if earlier is None else earlier)


def _end_with_parent(lifeline: int, seconds: float) -> None:
    def wait() -> None:
        with suppress(OSError):
            os.read(lifeline, 1)  # returns when the other end is closed
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(seconds)
        exit_at_once(1)

    threading.Thread(target=wait, name="accord-parent", daemon=True).start()
