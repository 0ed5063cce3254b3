"""Signals and the shutdown of a process that serves, whatever still hangs in it."""

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
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any, Final, NoReturn

log = logging.getLogger("accord.stdio")

_HANGUP: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)  # not on Windows
_PARENT_CHECK: Final = 1.0
# How many seconds the log gets to be written: its reader may be stuck.
_LOG_FLUSH: Final = 0.5
# An orderly shutdown may take the whole grace period; the alarm is only for one that hangs.
_SLACK: Final = 0.25
# The modules of event loops that install their own handler for signals they listen to.
_LOOPS: Final = ("asyncio.unix_events", "uvloop.loop")


class Stop:
    """Notices why the process should stop: end of input, a signal, or its parent has exited.

    From then on the process has the grace period left. An alarm enforces it without the loop and
    without a thread, since either may hang.

    Args:
        grace: seconds that running calls get to finish.
        is_guest: whether the process is another program's. Then only the end of the input and
            `request` count, and the process is never ended.

    Attributes:
        has_begun: whether the server has started.
    """

    def __init__(self, *, grace: float, is_guest: bool = False) -> None:
        self._grace = grace
        self._is_guest = is_guest
        self.has_begun = False
        self._parent = os.getppid()
        self._signalled = False
        self._stopped: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end = math.inf
        self._seen_at = math.inf

    @property
    def seconds_left(self) -> float:
        """How many seconds of the grace period are left."""
        return max(0.0, min(self._grace, self._end - time.monotonic()))

    def signals(self) -> AbstractContextManager[None]:
        """Handle the signals within a block."""
        return take_signals(self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._signalled:
            exit_at_once(0)
        self._signalled = True
        self._arm()
        if self._loop is not None and self._stopped is not None:
            # `loop.add_signal_handler` would not run while a handler blocks the loop.
            self._loop.call_soon_threadsafe(self._stopped.set)

    def request(self) -> None:
        """Stop as at a signal."""
        self._signalled = True
        if self._stopped is not None:
            self._stopped.set()

    def _arm(self) -> None:
        if self._end == math.inf:
            self._end = time.monotonic() + self._grace
            if not self._is_guest:
                exit_later(self._grace, self._grace + _SLACK)

    def look_for_end(self, descriptor: int) -> None:
        """Look for the end of the input on behalf of a blocked loop; called in a thread."""
        if self._is_guest:
            return
        now = time.monotonic()
        if self._seen_at == math.inf and (os.getppid() != self._parent or _has_hung_up(descriptor)):
            self._seen_at = now
        if now > self._seen_at + self._grace + _SLACK:
            log.warning("something did not stop within %g s and is left behind", self._grace)
            exit_at_once(0)

    async def wait(self, input_ended: asyncio.Event) -> bool:
        """Wait for a reason to stop; return whether it is only that the input ended."""
        self._stopped = stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._signalled:
            stopped.set()
        waits = [asyncio.ensure_future(each.wait()) for each in (input_ended, stopped)]
        while not (input_ended.is_set() or stopped.is_set()):
            if not self._is_guest and os.getppid() != self._parent:
                stopped.set()
            await asyncio.wait(waits, timeout=_PARENT_CHECK, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()
        self._arm()
        return not stopped.is_set()

    async def wait_unless_signalled(
        self, work: Coroutine[object, object, object], seconds: float
    ) -> None:
        """Wait for some work, but no longer than until a signal."""
        assert self._stopped is not None
        waits = [asyncio.ensure_future(work), asyncio.ensure_future(self._stopped.wait())]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()


@contextmanager
def take_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that end a process, within a block of the main thread.

    An ignored SIGHUP stays ignored: that is how `nohup` lets a process outlive its terminal.
    """
    if not is_main_thread():
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


def is_main_thread() -> bool:
    """Whether this is the thread that signals arrive in."""
    return threading.current_thread() is threading.main_thread()


def exit_later(grace: float, seconds: float) -> None:
    """Exit after some seconds, whatever hangs by then; `cancel_alarm` prevents it."""

    def exit_now(*_: object) -> None:
        log.warning("something did not stop within %g s and is left behind", grace)
        exit_at_once(0)

    if is_main_thread() and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, exit_now)
        signal.setitimer(signal.ITIMER_REAL, seconds)


def cancel_alarm() -> None:
    """Prevent the exit that `exit_later` planned."""
    if is_main_thread() and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _has_hung_up(descriptor: int) -> bool:
    """Whether the last writer of a pipe is gone, even if bytes are left to read."""
    if not hasattr(select, "poll"):
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))


def exit_at_once(code: int) -> NoReturn:
    """Exit although threads still run; the log is written first, if that does not hang."""
    done = _thread.allocate_lock()
    done.acquire()

    def flush() -> None:
        # Our own first: `logging.shutdown` forgets them when logging is configured anew.
        for handler in logging.getLogger("accord").handlers:
            with suppress(Exception):
                handler.flush()
        with suppress(Exception):
            logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        done.release()

    with suppress(RuntimeError):  # at interpreter exit no thread can start
        # A bare thread: a signal handler may run while the threading module holds its lock.
        _thread.start_new_thread(flush, ())
        done.acquire(timeout=_LOG_FLUSH)
    os._exit(code)


def leave_threads(seconds: float) -> None:
    """Exit some seconds after the main thread has ended, although other threads still run."""

    def reap() -> None:
        threading.main_thread().join()
        time.sleep(seconds)
        exit_at_once(0)

    if is_main_thread():
        threading.Thread(target=reap, name="accord-reaper", daemon=True).start()


class _SignalNotice:
    """Takes note of a signal, and passes it on."""

    should_exit = False

    def __init__(self, before: Callable[[int, FrameType | None], Any]) -> None:
        self._before = before

    def take(self, number: int, frame: FrameType | None) -> None:
        self.should_exit = True
        self._before(number, frame)


class _HostNotice:
    """Calls back at the signal that ends an ASGI server, and passes it on."""

    def __init__(self, handler: Any, callback: Callable[[], object]) -> None:
        self._handler = handler
        self._callback = callback

    @property
    def should_exit(self) -> bool:
        return bool(self._handler.__self__.should_exit)

    def take(self, number: int, frame: FrameType | None) -> None:
        self._callback()
        self._handler(number, frame)


def on_host_stop(callback: Callable[[], object]) -> None:
    """Call back when SIGTERM ends the uvicorn that runs us, from within the signal handler.

    uvicorn ends the process by the same signal, so that functions of `atexit` are not called.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if hasattr(getattr(handler, "__self__", None), "should_exit"):
        with suppress(ValueError):  # outside of the main thread
            signal.signal(signal.SIGTERM, _HostNotice(handler, callback).take)


def is_host_stopping() -> bool:
    """Whether the ASGI server that runs us is waiting for responses to end; False if unknown.

    ASGI servers send the shutdown event only after all responses have ended, and event streams do
    not end by themselves. uvicorn's handler for SIGTERM is a method of its server, which knows.
    granian and hypercorn let their event loop listen; a notice is put before the loop's handler.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if callable(handler) and getattr(handler, "__module__", "") in _LOOPS:
        with suppress(ValueError):  # outside of the main thread
            signal.signal(signal.SIGTERM, _SignalNotice(handler).take)
            signal.siginterrupt(signal.SIGTERM, False)
        return False
    server = getattr(handler, "__self__", None)
    return getattr(server, "should_exit", False) is True
