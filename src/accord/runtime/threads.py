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
from functools import partial
from typing import Any, Final, TypeVar

from accord.errors import InternalError
from accord.runtime.handlers import ClientFlow
from accord.runtime.tasks import leave_for_end
from accord.runtime.thread_jobs import (
    HELD_BACK,
    OVER,
    QUEUED,
    RUNNING,
    Job,
    Mailbox,
    QueueWaker,
    Waker,
    make_waker,
)

log = logging.getLogger("accord.server")
Value = TypeVar("Value")

# Sync tools that wait for I/O are the common case; more threads cost memory, fewer cost patience.
THREADS: Final = 32
# Less than the 60 s that clients usually wait, so that they read the reason.
THREAD_WAIT: Final = 20.0
# A user who waits this long begins to wonder.
_REPORT_AFTER: Final = 1.0
_CHECK_LEAST: Final = 0.01
# Work that reacts to its cancellation has ended by then.
_REPLACE_AFTER: Final = 1.0
# How many threads may replace those that cancelled calls hold: each costs 0.1 MB.
_REPLACED_MOST: Final = 128
_NAMES_MOST: Final = 5


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
        self._door = make_waker()
        self._is_door_taken = False
        self._reserve: list[Waker] = []
        # Those of loops that have not been woken yet for the last outcomes.
        self._unread: tuple[Mailbox, ...] = ()
        self._reported = 0.0
        self._is_shut = False
        _all_workers.add(self)
        # The threads refer to the wakers alone, so that unused workers are collected.
        weakref.finalize(self, _wake_all, self._door, self._reserve).atexit = False

    # -- submitting work, on a loop

    def submit(self, job: Job) -> None:
        """Queue a job."""
        waker, is_served = None, True
        mailbox = job.mailbox
        with self._lock:
            job.state = QUEUED
            job.queued_at = time.monotonic()
            self._queue.append(job)
            if mailbox.outcomes:
                # The loop will take them soon and then wakes a thread, once for many jobs.
                mailbox.stalled.add(self)
            elif not self._searching:
                waker, is_served = self._find_thread()
        # Once for all requests of a read, so that they are served together.
        if waker is not None and not leave_for_end(job.loop, partial(mailbox.wake_thread, waker)):
            waker.wake()
        if not is_served or len(self._queue) > 1:
            self._check_later(job)

    def wake(self) -> None:
        """Wake a thread if jobs wait and no thread looks for them."""
        waker = None
        with self._lock:
            if self._queue and not self._searching:
                waker, _ = self._find_thread()
        if waker is not None:
            waker.wake()

    def give_up(self, job: Job) -> None:
        """Drop a job; if it has begun, its thread may be replaced."""
        with self._lock:
            if job.state == RUNNING:
                job.given_up_at = time.monotonic()
            else:
                job.state = OVER

    def _find_thread(self, *, is_urgent: bool = True) -> tuple[Waker | None, bool]:
        """Return the waker of a thread, to be called without the lock; or start one.

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

    def work(self, own_waker: Waker) -> Waker | None:
        """Do jobs as long as there are any; return the waker to wait for, or None at the end.

        Args:
            own_waker: that of the thread.
        """
        waker: Waker | None = None
        with self._lock:
            self._searching -= 1
            unread, self._unread = self._unread, ()
            job, stand_by = self._take_job()
            if job is None:
                waker = self._find_place(own_waker)
        while True:
            for mailbox in unread:
                mailbox.notify()
            if job is None:
                return waker
            if stand_by is not None:
                stand_by.wake()
            done, (value, failure) = job, job.run()
            with self._lock:
                done.state = OVER
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
                        waker = self._find_place(own_waker)
                else:
                    self._threads -= 1
                # To wake the loop gives up the interpreter's lock, so that is done once for all
                # jobs; if one of them blocks, the thread that stands by does it.
                if job is not None and self._searching:
                    self._unread, unread = unread, ()
                else:
                    self._unread = ()

    def _take_job(self) -> tuple[Job | None, Waker | None]:
        """Return the next job, and the waker of a thread that should stand by.

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
            if job.state != QUEUED:
                continue
            self._moved_at = time.monotonic()
            if flow is not None and flow.is_congested:
                job.state = HELD_BACK
                mailbox.outcomes.append((job, None, None))
                mailbox.notify()
                continue
            job.state = RUNNING
            self._working[job] = None
            if queue and not self._searching:
                return job, self._find_thread(is_urgent=False)[0]
            return job, None
        return None, None

    def _find_place(self, own_waker: Waker) -> Waker | None:
        """Return the waker that an idle thread waits for; None if it should end.

        The lock is held.
        """
        if self._is_shut:
            self._threads -= 1
            return None
        if not self._is_door_taken:
            self._is_door_taken = True
            return self._door
        self._reserve.append(own_waker)
        return own_waker

    # -- reporting what holds the threads

    def _check_later(self, job: Job, waited: float = 0.0) -> None:
        """Look after a while at the jobs that wait; `waited` is how long the first has."""
        if self not in job.mailbox.checked:
            job.mailbox.checked.add(self)
            pause = min(_REPORT_AFTER, max(self.wait - waited, _CHECK_LEAST))
            job.loop.call_later(pause, self._check, job.mailbox, context=contextvars.Context())

    def _check(self, mailbox: Mailbox) -> None:
        """Replace stuck threads for jobs that wait, or report the functions that hold them.

        Jobs that have waited too long fail.
        """
        mailbox.checked.discard(self)
        with self._lock:
            jobs = [job for job in self._queue if job.state == QUEUED and job.mailbox is mailbox]
            if not jobs:
                return
            before = self._threads
            waker, is_served = (None, True) if self._searching else self._find_thread()
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
        if waker is not None:
            waker.wake()
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
        self._check_later(jobs[0], max(waits) if max(waits) < self.wait else 0.0)

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
        for waker in idle:
            waker.wake()


_all_workers: Final[weakref.WeakSet[Workers]] = weakref.WeakSet()


def _work(owner: "weakref.ref[Workers]") -> None:
    """Do the jobs of workers until they end."""
    own_waker = QueueWaker()
    while (workers := owner()) is not None:
        waker = workers.work(own_waker)
        # A thread that waits must not keep them alive.
        del workers
        if waker is None:
            return
        waker.wait()


def _wake_all(door: Waker, reserve: list[Waker]) -> None:
    for waker in (door, *reserve):
        waker.wake()


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
