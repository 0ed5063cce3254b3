"""Names the handler that blocks the event loop, while it does.

A thread compares the loop's heartbeat with the clock, but only as long as handlers run; an idle
process has neither.
"""

import asyncio
import logging
import os
import selectors
import sys
import threading
import time
from types import FrameType
from typing import TYPE_CHECKING, Final

from accord.runtime.tasks import end_children_of

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("accord")

# Long enough for honest work between two awaits, short enough that a person would notice.
THRESHOLD: Final = 0.25
# Whose code it is that blocks: ours, the loop's, that of Python, or the author's.
_OURS: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
_LOOP: Final = os.path.join(os.path.dirname(asyncio.__file__), "")
_LIBRARY: Final = os.path.join(os.path.dirname(os.__file__), "")
_PACKAGES: Final = f"{os.sep}site-packages{os.sep}"
# The methods of the dispatcher that call handlers: what lies outside of them is not to blame.
_SERVING: Final = frozenset({"_run", "_serve", "_serve_outcome"})
# Those of them that know the request.
_NAMING: Final = frozenset({"_serve", "_serve_outcome"})
# Starting a thread costs 0.1 ms: too much for every request, nothing for one a second.
_IDLE: Final = 1.0


class Watchdog:
    """Watches one loop; `enter` and `leave` bracket the time in which handlers run."""

    def __init__(self, *, threshold: float = THRESHOLD) -> None:
        self.loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._threshold = threshold
        self.running = 0
        self.is_beating = False
        self._beat_at = 0.0
        self._lock = threading.Lock()
        self._watched = False
        self.while_blocked: Callable[[], None] | None = None
        """Called again and again, in a thread, as long as the loop is blocked."""

    def enter(self) -> None:
        """Count a handler that begins."""
        self.running += 1
        if not self.is_beating:
            self.begin()

    def leave(self) -> None:
        """Count a handler that has ended."""
        self.running -= 1

    def begin(self) -> None:
        """Watch from now on, until no handler runs."""
        self.is_beating = True
        self._beat()
        with self._lock:
            is_watched, self._watched = self._watched, True
        if not is_watched:
            threading.Thread(target=self._watch, name="accord-watch", daemon=True).start()

    def _beat(self) -> None:
        self._beat_at = time.monotonic()
        if self.running:
            self.loop.call_later(self._threshold / 4, self._beat)
        else:
            self.is_beating = False

    def _watch(self) -> None:
        reported = 0.0
        while not self._is_over():
            time.sleep(self._threshold / 4)
            beat = self._beat_at
            late = time.monotonic() - beat
            if not (self.running and self.is_beating and late > self._threshold):
                continue
            if beat != reported and self._report(late):
                reported = beat
            if self.while_blocked is not None:
                self.while_blocked()

    def _is_over(self) -> bool:
        """Whether nothing was to watch for a while, so that the thread may end."""
        with self._lock:
            idle = not self.is_beating and time.monotonic() - self._beat_at > _IDLE
            if idle or self.loop.is_closed():
                self._watched = False
            return not self._watched

    def _report(self, late: float) -> bool:
        """Report the handler that blocks; returns whether there is one."""
        try:
            task = asyncio.current_task(self.loop)
        except RuntimeError:
            return False
        frame = sys._current_frames().get(self._loop_thread)
        if task is None and frame is not None and frame.f_code.co_filename == selectors.__file__:
            return False  # it waits for events, and is late because the machine is busy
        name = find_served(frame) or ("something" if task is None else task.get_name())
        place = _author_place(frame)
        if place is None:
            log.warning(
                "%s has blocked the event loop for %.1f s with the size of its arguments or of its "
                "result: no other request is served meanwhile; return less at once, or a link to a "
                "resource (the result of a plain def is converted in a thread)",
                name,
                late,
            )
        else:
            log.warning(
                "%s has blocked the event loop for %.1f s at %s: no other request is served "
                "meanwhile; await instead, or make it a plain function without inline=True, which "
                "runs in a thread",
                name,
                late,
                place,
            )
        return True

    @property
    def thread(self) -> int:
        """The thread in which the loop runs."""
        return self._loop_thread


class Watchdogs:
    """The watchdogs of the loops on which one server runs."""

    def __init__(self) -> None:
        self._found: dict[asyncio.AbstractEventLoop, Watchdog] = {}

    def __len__(self) -> int:
        return len(self._found)

    def find(self) -> Watchdog:
        """Return the watchdog of the running loop."""
        loop = asyncio.get_running_loop()
        found = self._found.get(loop)
        if found is None:
            for closed in [each for each in self._found if each.is_closed()]:
                del self._found[closed]
            found = self._found[loop] = Watchdog()
            end_children_of(loop)
        found._loop_thread = threading.get_ident()  # a loop may go on in another thread
        return found


def _author_place(frame: FrameType | None) -> str | None:
    """Return where the author's code blocks; None where it is our own that takes its time.

    The innermost line is reported; if it is ours, the line of the author that led there.
    """
    place: str | None = None
    while frame is not None:
        file = frame.f_code.co_filename
        is_ours = file.startswith(_OURS)
        if file.startswith(_LOOP) or (is_ours and frame.f_code.co_name in _SERVING):
            return None
        if is_ours:
            place = None
        elif place is None:
            place = f"{file}:{frame.f_lineno}"
        is_python = file.startswith("<frozen ") or (  # imports
            file.startswith(_LIBRARY) and _PACKAGES not in file
        )
        if not is_ours and not is_python:
            return place
        frame = frame.f_back
    return None


def find_served(frame: FrameType | None) -> str | None:
    """Return the request served in a frame, if it began in this turn of the loop."""
    while frame is not None:
        if frame.f_code.co_name in _NAMING and "exchange" in frame.f_code.co_varnames:
            exchange = frame.f_locals.get("exchange")
            return str(getattr(exchange, "state", None) or getattr(exchange, "name", "a request"))
        frame = frame.f_back
    return None
