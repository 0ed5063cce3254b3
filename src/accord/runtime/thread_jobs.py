"""Work for threads, its outcome on the loop that waits for it, and how the two wake each other.

A thread that is woken needs the interpreter's lock (GIL) next. If the one that woke it still has
the lock, the system wakes the thread twice: for the signal, then for the lock. A write to a
descriptor gives up the lock first, so that one wake-up is enough; a hop to a thread and back takes
half the time.
"""

import asyncio
import contextvars
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from accord.runtime import tasks
from accord.runtime.handlers import ClientFlow, Deferred, OutOfTime, Unwound
from accord.runtime.tasks import call_in_batch

if TYPE_CHECKING:
    from accord.runtime.threads import Workers


# -- threads and loops wake each other

# Loops that watch a descriptor at no other cost. A virtual clock, say, would wait for it.
_LOOPS_WITH_READERS: Final = frozenset(
    {("asyncio.unix_events", "_UnixSelectorEventLoop"), ("uvloop", "Loop")}
)


class DescriptorWaker:
    """A descriptor that counts how often it was called; closed when it is collected.

    Args:
        flags: how it is waited for; by default one wait takes all calls.

    Raises:
        OSError: the process has no descriptors left.
        AttributeError: the system has none of this kind: it is not Linux.
    """

    __slots__ = ("number", "wait", "wake")

    def __init__(self, flags: int = 0) -> None:
        self.number = -1
        self.number = os.eventfd(0, flags | os.EFD_CLOEXEC)
        self.wake: Callable[[], None] = partial(os.eventfd_write, self.number, 1)
        self.wait: Callable[[], object] = partial(os.eventfd_read, self.number)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            close(self.number)


class QueueWaker:
    """Wakes one thread for each call; its caller keeps the interpreter's lock."""

    __slots__ = ("wait", "wake")

    def __init__(self) -> None:
        calls: SimpleQueue[None] = SimpleQueue()
        self.wake: Callable[[], None] = partial(calls.put, None)
        self.wait: Callable[[], object] = calls.get


Waker: TypeAlias = DescriptorWaker | QueueWaker


def make_waker() -> Waker:
    """Return what wakes a thread at the least cost."""
    try:
        # Each call wakes one thread: the next may wait before the last has come to itself.
        return DescriptorWaker(os.EFD_SEMAPHORE)
    except (AttributeError, OSError):
        return QueueWaker()


class Mailbox:
    """Outcomes for one event loop, from threads; a batch of them wakes the loop once.

    Attributes:
        outcomes: those that the loop has not taken yet.
        stalled: workers that go on when the loop has taken them.
        checked: workers that look after a while at jobs of the loop that wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.outcomes: deque[tuple[Job, object, BaseException | None]] = deque()
        self.stalled: set[Workers] = set()
        self.checked: set[Workers] = set()
        # The loop owns it: it must not keep the loop alive.
        self._loop = ref(loop)
        self._is_notified = False
        self.descriptor: DescriptorWaker | None = None
        kind = type(loop)
        if (kind.__module__, kind.__qualname__) in _LOOPS_WITH_READERS:
            with suppress(AttributeError, OSError):
                made = DescriptorWaker(os.EFD_NONBLOCK)
                # Without the context variables of the request that happens to be the first.
                contextvars.Context().run(loop.add_reader, made.number, self._read)
                self.descriptor = made

    def notify(self) -> None:
        """Wake the loop for the outcomes, unless that has been done. From any thread."""
        if self._is_notified:
            return
        self._is_notified = True
        if self.descriptor is not None:
            self.descriptor.wake()
            return
        loop = self._loop()
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._take_all)

    def wake_thread(self, waker: Waker) -> None:
        """Wake a thread, and take at once what it may have done meanwhile. On the loop.

        A descriptor gives up the interpreter's lock, and the thread often has it first. Then the
        loop need not be woken.
        """
        self._is_notified = True
        waker.wake()
        # Before the look at the outcomes: for what is added from here on, the loop is woken.
        self._is_notified = False
        if self.outcomes:
            self._take_all()

    @property
    def is_over(self) -> bool:
        """Whether its loop takes nothing any more."""
        loop = self._loop()
        return loop is None or loop.is_closed()

    def _read(self) -> None:
        assert self.descriptor is not None
        with suppress(BlockingIOError):
            self.descriptor.wait()
        self._take_all()

    def _take_all(self) -> None:
        loop = self._loop()
        if loop is not None:
            call_in_batch(loop, self._take)

    def _take(self) -> None:
        # Before the outcomes: for what is added from here on, the loop is woken again.
        self._is_notified = False
        outcomes = self.outcomes
        try:
            # Not those that come meanwhile: other callbacks of the loop have their turn too.
            for _ in range(len(outcomes)):
                job, value, failure = outcomes.popleft()
                job.deliver(value, failure)
        except BaseException:
            self.notify()  # for the others
            raise
        while self.stalled:
            self.stalled.pop().wake()


_found: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Callable[[], Mailbox | None]]] = (
    WeakKeyDictionary()
)


def find_mailbox(loop: asyncio.AbstractEventLoop) -> Mailbox:
    """Return the mailbox of a loop, which runs in this thread."""
    find = _found.get(loop)
    found = None if find is None else find()
    if found is not None:
        return found
    for each in [each for each in _found if each.is_closed()]:
        del _found[each]
    made = Mailbox(loop)
    # A loop that watches its descriptor keeps it, and drops it when it is closed.
    _found[loop] = (lambda: made) if made.descriptor is None else ref(made)
    return made


# -- jobs

# What the caller of a function gets unchanged.
_PASSED_ON: Final = (Exception, SystemExit, Unwound)

# The states of a job.
QUEUED: Final = "queued"
HELD_BACK: Final = "held back"
RUNNING: Final = "running"
OVER: Final = "over"


class _StopWork(BaseException):
    """Raised in a thread to stop its work."""


class Job(Deferred):
    """Work to do in a thread, and its outcome on the loop that waits for it.

    Args:
        workers: the threads.
        loop: runs in this thread.
        context: the context variables of the work.
        timeout: seconds it may take.
        name: its name in messages about busy threads.
        flow: of the client that waits for the result; work is held back while it does not read.
    """

    __slots__ = (
        "_generation",
        "_stopping",
        "_timeout",
        "_timer",
        "_waiting",
        "context",
        "flow",
        "given_up_at",
        "loop",
        "mailbox",
        "name",
        "queued_at",
        "state",
        "workers",
    )

    def __init__(
        self,
        workers: "Workers",
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
        timeout: float | None,
        name: str,
        flow: ClientFlow | None,
    ) -> None:
        super().__init__(loop)
        self.state = QUEUED
        self.queued_at = 0.0
        self.given_up_at: float | None = None
        self.workers = workers
        self.loop = loop
        self.context = context
        self.name = name
        self.flow = flow
        self.mailbox = find_mailbox(loop)
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[None] | None = None
        # The loop stops only work with a time limit; no other work needs a lock.
        self._stopping = None if timeout is None else _Stopping()
        self._generation = tasks.fork_generation

        self._timeout = timeout

    def start(self) -> None:
        """Queue the work."""
        tasks.awaited_threads.add(self)
        self.workers.submit(self)
        if self._timeout is not None:
            end = time.monotonic() + self._timeout
            self._timer = self.loop.call_later(self._timeout, self._check_time, end)

    def work(self) -> object:
        """Do the work. Called in a thread."""
        raise NotImplementedError

    def conclude(self, value: object, failure: BaseException | None) -> None:
        """Set the outcome. Called on the loop, with the context variables of the work."""
        self.set_outcome(value, failure)

    # -- in the thread

    def run(self) -> tuple[object, BaseException | None]:
        """Do the work; return its value and the exception that it raised."""
        value, failure = None, None
        try:
            if self._stopping is None:
                value = self.context.run(self.work)
            else:
                value = self._stopping.run(self)
        except BaseException as error:
            failure = error
        if tasks.fork_generation != self._generation:
            tasks.end_child(failure)
        return value, failure

    # -- on the loop

    def deliver(self, value: object, failure: BaseException | None) -> None:
        """Take what came of the work, unless it is no longer wanted."""
        if self.done():
            return
        if self.state == HELD_BACK:
            self._waiting = self.loop.create_task(self._submit_when_read())
            return
        self.leave()
        if failure is not None and (
            isinstance(failure, StopIteration) or not isinstance(failure, _PASSED_ON)
        ):
            # A future refuses the first, and the others would stop the loop.
            wrapped = RuntimeError(f"the function raised {type(failure).__name__}")
            wrapped.__cause__ = failure
            failure = wrapped
        self.context.run(self.conclude, value, failure)

    async def _submit_when_read(self) -> None:
        """Wait with the work of a client that does not read: its answers would pile up."""
        assert self.flow is not None
        await self.flow.writable()
        if self.state == HELD_BACK:
            self.workers.submit(self)

    def _check_time(self, end: float) -> None:
        left = end - time.monotonic()
        if left > 0:  # the loop's clock is a virtual one
            self._timer = self.loop.call_later(left, self._check_time, end)
            return
        assert self._stopping is not None
        self.fail(OutOfTime())
        self._stopping.stop()

    def fail(self, error: Exception) -> None:
        """Give the work up, with an error."""
        self.workers.give_up(self)
        self.leave()
        # A copy, since the thread may be within its context.
        self.context.copy().run(self.conclude, None, error)

    def cancel(self, msg: object = None) -> bool:
        """Give the work up; if it has begun it goes on, and its thread may be replaced."""
        if not self.done():
            self.workers.give_up(self)
            self.leave()
        return super().cancel(msg)

    def leave(self) -> None:
        """Note that the work is no longer waited for."""
        tasks.awaited_threads.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._waiting is not None:
            self._waiting.cancel()


class _Stopping:
    """Stops the work of a thread from outside, but never the next work of the same thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._is_stopped = False

    def run(self, job: Job) -> object:
        """Do the work; return None if it was stopped."""
        with self._lock:
            if self._is_stopped:
                return None
            self._thread = threading.get_ident()
        try:
            try:
                return job.context.run(job.work)
            finally:
                self._leave()
        except _StopWork:
            return None

    def _leave(self) -> None:
        """Let a pending stop arrive now, rather than in the next work of the thread."""
        with self._lock:
            self._thread = None
            is_stopped = self._is_stopped
        if is_stopped:
            # It is raised where bytecode is interruptible. To withdraw it would make the
            # interpreter spin under a tracer.
            for _ in range(100):
                pass

    def stop(self) -> None:
        """Raise in the thread at its next bytecode; a call into C is left only when it returns."""
        import ctypes  # takes 2 ms, and few tools ever run out of time

        with self._lock:
            self._is_stopped = True
            if self._thread is not None:
                thread, raised = ctypes.c_ulong(self._thread), ctypes.py_object(_StopWork)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raised)
