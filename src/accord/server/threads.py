"""Sync functions in worker threads; a time-out stops their Python code.

A function that blocks keeps its thread. If its call was cancelled, the thread is replaced, so that
other calls need not wait. If calls that are still wanted hold all threads, waiting calls fail after
a while with an error that names the functions.

Short functions need few threads: one does a whole batch of them, while a second one stands by for
the interpreter's lock. It gets the lock at once if a function blocks, and goes on with the batch.
"""

import asyncio
import contextvars
import logging
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from accord.errors import InternalError
from accord.runtime import tasks
from accord.runtime.batches import leave_for_end
from accord.runtime.deferred import Deferred
from accord.runtime.origin import ClientFlow
from accord.server.channels import Unwound
from accord.server.thread_bells import Bell, LockBell, Mailbox, find_mailbox, make_bell

log = logging.getLogger("accord.server")
Value = TypeVar("Value")

# Sync tools that wait for I/O are the common case; more threads cost memory, fewer cost patience.
THREADS: Final = 32
# Less than the 60 s that clients usually wait, so that they read the reason.
THREAD_WAIT: Final = 20.0
# A user who waits this long begins to wonder.
_REPORT_AFTER: Final = 1.0
# Work that reacts to its cancellation has ended by then.
_REPLACE_AFTER: Final = 1.0
# How many threads may replace those that cancelled calls hold: each costs 0.1 MB.
_REPLACED_MOST: Final = 128
_NAMES_MOST: Final = 5

# What the caller of a function gets unchanged.
_PASSED_ON: Final = (Exception, SystemExit, Unwound)

# The states of a job.
_QUEUED: Final = "queued"
_HELD_BACK: Final = "held back"
_RUNNING: Final = "running"
_OVER: Final = "over"


class OutOfTime(TimeoutError):
    """The time limit of the work passed, as opposed to a time-out within the work."""


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
        self.state = _QUEUED
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
        if self.state == _HELD_BACK:
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
        if self.state == _HELD_BACK:
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


class Workers:
    """Threads for sync functions, started as they are needed.

    Args:
        size: how many calls may run at once; cancelled ones do not count.
        wait: seconds after which a call fails if no thread came free meanwhile.
    """

    def __init__(self, size: int = THREADS, *, wait: float = THREAD_WAIT) -> None:
        self.size = size
        self.wait = wait
        self._moved_at = time.monotonic()
        self._lock = threading.Lock()
        self._queue: deque[Job] = deque()
        self._working: dict[Job, None] = {}
        self._threads = 0
        # Threads that are awake and have no job yet.
        self._searching = 0
        # One idle thread waits at the door, where it is woken at the least cost; the others are
        # the reserve, of which the one that worked last is woken first.
        self._door = make_bell()
        self._is_door_taken = False
        self._reserve: list[Bell] = []
        # Those of loops that have not been woken yet for the last outcomes.
        self._unread: tuple[Mailbox, ...] = ()
        self._reported = 0.0
        self._is_shut = False
        _all_workers.add(self)
        # The threads refer to the bells alone, so that unused workers are collected.
        weakref.finalize(self, _wake_all, self._door, self._reserve).atexit = False

    # -- submitting work, on a loop

    def submit(self, job: Job) -> None:
        """Queue a job."""
        bell, is_served = None, True
        mailbox = job.mailbox
        with self._lock:
            job.state = _QUEUED
            job.queued_at = time.monotonic()
            self._queue.append(job)
            if mailbox.outcomes:
                # The loop will take them soon and then wakes a thread, once for many jobs.
                mailbox.stalled.add(self)
            elif not self._searching:
                bell, is_served = self._find_thread()
        # Once for all requests of a read, so that they are served together.
        if bell is not None and not leave_for_end(job.loop, partial(mailbox.wake_thread, bell)):
            bell.ring()
        if not is_served or len(self._queue) > 1:
            self._check_later(job)

    def wake(self) -> None:
        """Wake a thread if jobs wait and no thread looks for them."""
        bell = None
        with self._lock:
            if self._queue and not self._searching:
                bell, _ = self._find_thread()
        if bell is not None:
            bell.ring()

    def give_up(self, job: Job) -> None:
        """Drop a job; if it has begun, its thread may be replaced."""
        with self._lock:
            if job.state == _RUNNING:
                job.given_up_at = time.monotonic()
            else:
                job.state = _OVER

    def _find_thread(self, *, is_urgent: bool = True) -> tuple[Bell | None, bool]:
        """Return the bell of a thread, to be rung without the lock; or start one.

        The lock is held. Returns also whether there is a thread at all.
        """
        if self._is_door_taken and (is_urgent or not self._reserve):
            self._is_door_taken = False
            self._searching += 1
            return self._door, True
        if self._reserve:
            self._searching += 1
            return self._reserve.pop(), True
        return None, self._start_thread()

    def _start_thread(self) -> bool:
        if self._threads >= self.size and self._threads >= self._most():
            return False
        thread = threading.Thread(
            target=_work, args=(weakref.ref(self),), name="accord", daemon=True
        )
        self._threads += 1
        self._searching += 1
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads; waiting calls fail in time
            self._threads -= 1
            self._searching -= 1
            return False
        return True

    def _most(self) -> int:
        """Return how many threads are allowed; a job dropped just now may still end by itself."""
        before = time.monotonic() - _REPLACE_AFTER
        stuck = sum(
            job.given_up_at is not None and job.given_up_at < before for job in self._working
        )
        return self.size + min(stuck, _REPLACED_MOST)

    # -- working, in the threads

    def work(self, own_bell: Bell) -> Bell | None:
        """Do jobs as long as there are any; return the bell to wait for, or None at the end.

        Args:
            own_bell: that of the thread.
        """
        bell: Bell | None = None
        with self._lock:
            self._searching -= 1
            unread, self._unread = self._unread, ()
            job, stand_by = self._take_job()
            if job is None:
                bell = self._find_place(own_bell)
        while True:
            for mailbox in unread:
                mailbox.ring()
            if job is None:
                return bell
            if stand_by is not None:
                stand_by.ring()
            done, (value, failure) = job, job.run()
            with self._lock:
                done.state = _OVER
                del self._working[done]
                unread = self._unread
                if done.given_up_at is None:
                    mailbox = done.mailbox
                    mailbox.outcomes.append((done, value, failure))
                    if mailbox not in unread:
                        unread = (*unread, mailbox)
                job = None
                if self._threads <= self.size or self._threads <= self._most():
                    job, stand_by = self._take_job()
                    if job is None:
                        bell = self._find_place(own_bell)
                else:
                    self._threads -= 1
                # To wake the loop gives up the interpreter's lock, so that is done once for all
                # jobs; if one of them blocks, the thread that stands by does it.
                if job is not None and self._searching:
                    self._unread, unread = unread, ()
                else:
                    self._unread = ()

    def _take_job(self) -> tuple[Job | None, Bell | None]:
        """Return the next job, and the bell of a thread that should stand by.

        The lock is held.
        """
        queue = self._queue
        while queue and not self._is_shut:
            job = queue[0]
            mailbox, flow = job.mailbox, job.flow
            if len(mailbox.outcomes) >= self.size and not mailbox.is_over:
                # Threads are faster than the loop that sends their results.
                mailbox.stalled.add(self)
                if mailbox.outcomes:  # else the loop may not have seen that
                    break
            queue.popleft()
            if job.state != _QUEUED:
                continue
            self._moved_at = time.monotonic()
            if flow is not None and flow.is_congested:
                job.state = _HELD_BACK
                mailbox.outcomes.append((job, None, None))
                mailbox.ring()
                continue
            job.state = _RUNNING
            self._working[job] = None
            if queue and not self._searching:
                return job, self._find_thread(is_urgent=False)[0]
            return job, None
        return None, None

    def _find_place(self, own_bell: Bell) -> Bell | None:
        """Return the bell that an idle thread waits for; None if it should end.

        The lock is held.
        """
        if self._is_shut:
            self._threads -= 1
            return None
        if not self._is_door_taken:
            self._is_door_taken = True
            return self._door
        self._reserve.append(own_bell)
        return own_bell

    # -- reporting what holds the threads

    def _check_later(self, job: Job) -> None:
        """Look after a while at the jobs that wait."""
        if self not in job.mailbox.checked:
            job.mailbox.checked.add(self)
            pause = min(_REPORT_AFTER, self.wait)
            job.loop.call_later(pause, self._check, job.mailbox, context=contextvars.Context())

    def _check(self, mailbox: Mailbox) -> None:
        """Replace stuck threads for jobs that wait, or report the functions that hold them.

        Jobs that have waited too long fail.
        """
        mailbox.checked.discard(self)
        with self._lock:
            jobs = [job for job in self._queue if job.state == _QUEUED and job.mailbox is mailbox]
            if not jobs:
                return
            before = self._threads
            bell, is_served = (None, True) if self._searching else self._find_thread()
            is_replaced = self._threads > max(self.size, before)
            now, moved_at = time.monotonic(), self._moved_at
            waits = [now - max(moved_at, job.queued_at) for job in jobs]
            is_stuck = not is_served and max(waits) >= min(_REPORT_AFTER, self.wait)
            # Logged once.
            is_reported = is_stuck and self._reported != moved_at
            if is_reported:
                self._reported = moved_at
            held = self._describe_holders() if is_replaced or is_stuck else ""
            waiting, threads = len(jobs), self._threads
        if bell is not None:
            bell.ring()
        if is_replaced:
            log.warning("a thread is added for each that a cancelled call still holds: %s", held)
        if is_reported:
            log.warning(
                "%d calls wait because all %d threads are held by %s (threads=%d)",
                *(waiting, threads, held, self.size),
            )
        for job, waited in zip(jobs, waits, strict=True):
            if is_stuck and waited >= self.wait:
                job.fail(
                    InternalError(
                        f"no thread came free within {self.wait:g} s (thread_wait): all "
                        f"{self.size} (threads) are held by {held}"
                    )
                )
        self._check_later(jobs[0])

    def _describe_holders(self) -> str:
        # Sorted, since threads start in any order.
        counts = Counter(sorted(job.name for job in self._working))
        unwanted = Counter(job.name for job in self._working if job.given_up_at is not None)
        parts = [
            f"{name} ({count} calls{f', {unwanted[name]} cancelled' if unwanted[name] else ''})"
            for name, count in counts.most_common(_NAMES_MOST)
        ]
        more = len(counts) - len(parts)
        return ", ".join(parts) + (f" and {more} more" if more else "")

    @property
    def is_working(self) -> bool:
        """Whether any work is running, cancelled or not."""
        return bool(self._working)

    def shutdown(self) -> None:
        """Let the threads end; queued jobs never begin, and running ones are not waited for."""
        with self._lock:
            self._is_shut = True
            idle, self._reserve[:] = [*self._reserve], []
            if self._is_door_taken:
                idle.append(self._door)
                self._is_door_taken = False
            self._searching += len(idle)
        for bell in idle:
            bell.ring()


_all_workers: Final[weakref.WeakSet[Workers]] = weakref.WeakSet()


def _work(owner: "weakref.ref[Workers]") -> None:
    """Do the jobs of workers until they end."""
    own_bell = LockBell()
    while (workers := owner()) is not None:
        bell = workers.work(own_bell)
        # A thread that waits must not keep them alive.
        del workers
        if bell is None:
            return
        bell.wait()


def _wake_all(door: Bell, reserve: list[Bell]) -> None:
    for bell in (door, *reserve):
        with suppress(RuntimeError):  # no thread waits for it
            bell.ring()


class _FunctionCall(Job):
    """A call of a function without arguments."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[], object], *args: Any) -> None:
        super().__init__(*args)
        self._function = function

    def work(self) -> object:
        return self._function()


async def run_in_thread(
    workers: Workers,
    work: Callable[[], Value],
    *,
    timeout: float | None = None,
    name: str = "a function",
    flow: ClientFlow | None = None,
) -> Value:
    """Run work in a thread, with the context variables of the caller, and wait for it.

    Args:
        workers: the threads.
        work: called in the thread.
        timeout: seconds it may take.
        name: its name in messages about busy threads.
        flow: of the client that waits for the result; work is held back while it does not read.

    Raises:
        OutOfTime: the time ran out; the work is stopped and no longer waited for.
        InternalError: no thread came free in time.
    """
    loop, context = asyncio.get_running_loop(), contextvars.copy_context()
    job = _FunctionCall(work, workers, loop, context, timeout, name, flow)
    job.start()
    result: Value = await job
    return result


def is_working() -> bool:
    """Whether any work is running, cancelled or not."""
    return any(workers.is_working for workers in _all_workers)


async def wait_until_idle(timeout: float) -> bool:
    """Wait until no work is running; return whether that happened in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while is_working() and loop.time() < end:
        await asyncio.sleep(0.01)
    return not is_working()
