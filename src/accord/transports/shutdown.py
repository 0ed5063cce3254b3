"""What ends a process that serves, and how it leaves whatever still runs in it."""

import _thread
import asyncio
import logging
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Final

__all__ = ["Stop", "cancel_alarm", "exit_at_once", "exit_later", "leave_threads", "take_signals"]

log = logging.getLogger("accord.stdio")

_HANGUP: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)  # not on Windows
_PARENT_CHECK: Final = 1.0
# Whoever should read the last words may not.
_LAST_WORDS: Final = 0.5
# The end in good order takes the whole grace period; only what hangs needs the alarm.
_SLACK: Final = 0.25


class Stop:
    """Notices what ends the process: end of input, a signal, the death of the parent.

    From the moment it is noticed, the process has the grace period left. The alarm that sees to it
    needs neither the loop nor a thread, since either may hang.
    """

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        self._parent = os.getppid()
        self._signalled = False
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = math.inf
        self._seen_at = math.inf

    @property
    def left(self) -> float:
        """How many seconds of the grace period are left."""
        return max(0.0, min(self._grace, self._end - time.monotonic()))

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Take the signals, and give them back at the end."""
        with take_signals(self._on_signal):
            yield

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            exit_at_once(0)
        self._signalled = True
        self._arm()
        if self._loop is not None and self._stopped is not None:
            # A handler of the loop's own would never run while something blocks the loop.
            self._loop.call_soon_threadsafe(self._stopped.set)

    def _arm(self) -> None:
        if self._end == math.inf:
            self._end = time.monotonic() + self._grace
            exit_later(self._grace, self._grace + _SLACK)

    def look(self, descriptor: int) -> None:
        """Notice for a loop that is blocked what it cannot: called while it is, in a thread.

        Args:
            descriptor: where the input comes from.
        """
        now = time.monotonic()
        if self._seen_at == math.inf and (os.getppid() != self._parent or _has_hung_up(descriptor)):
            self._seen_at = now
        if now > self._seen_at + self._grace + _SLACK:
            log.warning("something did not stop within %g s and is left behind", self._grace)
            exit_at_once(0)

    async def wait(self, input_ended: asyncio.Event) -> bool:
        """Wait for the end; returns whether it is the input that ended, and nothing else."""
        stopped = self._begin()
        waits = [asyncio.ensure_future(each.wait()) for each in (input_ended, stopped)]
        while not (input_ended.is_set() or stopped.is_set()):
            if os.getppid() != self._parent:
                stopped.set()
            await asyncio.wait(waits, timeout=_PARENT_CHECK, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        self._arm()
        return not stopped.is_set()

    def _begin(self) -> asyncio.Event:
        self._stopped = stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._signalled:
            stopped.set()
        return stopped

    async def unless_signalled(self, work: Coroutine[Any, Any, Any], seconds: float) -> None:
        """Wait for some work, but no longer once a signal has come."""
        assert self._stopped is not None
        waits = [asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()


@contextmanager
def take_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that end a process, where that is possible; give them back at the end.

    SIGHUP stays ignored where it is: `nohup` lets a process outlive its terminal that way.
    """
    if not _is_main():
        yield
        return
    taken = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) is not signal.SIG_IGN:
        taken.append(_HANGUP)
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        cancel_alarm()
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()


def exit_later(grace: float, seconds: float) -> None:
    """Exit after some seconds, whatever hangs in the process, unless the alarm is cancelled."""

    def exit_now(*_: object) -> None:
        log.warning("something did not stop within %g s and is left behind", grace)
        exit_at_once(0)

    if _is_main() and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, exit_now)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def cancel_alarm() -> None:
    """Let the process go on."""
    if _is_main() and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _has_hung_up(descriptor: int) -> bool:
    """Tell whether nobody writes to a pipe any more, whatever is still to be read from it."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def exit_at_once(code: int) -> None:
    """End the process although threads still run; what is logged gets out first, if it can."""
    done = _thread.allocate_lock()
    done.acquire()

    def flush() -> None:
        # Our own first: whatever configured logging anew made `shutdown` forget them.
        for handler in logging.getLogger("accord").handlers:
            with suppress(Exception):
                handler.flush()
        with suppress(Exception):
            logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        done.release()

    with suppress(RuntimeError):  # no thread begins any more: all has been said
        # A bare one: we may stand in a signal handler, within a lock of the threading module.
        _thread.start_new_thread(flush, ())
        done.acquire(timeout=_LAST_WORDS)
    os._exit(code)


def leave_threads(seconds: float) -> None:
    """See to it that no thread keeps the process alive for long once the main thread has ended."""

    def reap() -> None:
        threading.main_thread().join()
        time.sleep(seconds)
        exit_at_once(0)

    if threading.current_thread() is threading.main_thread():
        threading.Thread(target=reap, name="accord-reaper", daemon=True).start()
