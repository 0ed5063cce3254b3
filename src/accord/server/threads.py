"""Sync functions in worker threads; a time-out stops their Python code.

A function that blocks keeps its thread. If its call was cancelled, the thread is replaced, so that
other calls need not wait. If calls that are still wanted hold all threads, waiting calls fail after
a while with an error that names the functions.
"""

import asyncio
import contextvars
import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from accord.errors import InternalError
from accord.runtime import tasks
from accord.runtime.origin import ClientFlow
from accord.server.channels import Unwound

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

_running: Final[set["_Job"]] = set()

# The states of a job.
_QUEUED: Final = "queued"
_HELD_BACK: Final = "held back"
_RUNNING: Final = "running"
_OVER: Final = "over"


class OutOfTime(TimeoutError):
    """The time limit of the work passed, as opposed to a time-out within the work."""


class _StopWork(BaseException):
    """Raised in a thread to stop its work."""


class _Job:
    """Work to do in a thread."""

    def __init__(self, work: Callable[[], object], name: str, flow: ClientFlow | None) -> None:
        self.name = name
        self.flow = flow
        self.state = _QUEUED
        self.given_up_at: float | None = None
        self.is_unread = False
        self.queued_at = 0.0
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self._work = work
        self._context = contextvars.copy_context()
        self._generation = tasks.fork_generation
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._stopped = False

    def run(self) -> tuple[object, BaseException | None]:
        """Do the work; return its value and the exception that it raised."""
        value, failure = None, None
        try:
            value = self._attempt()
        except BaseException as error:
            failure = error
        if tasks.fork_generation != self._generation:
            tasks.end_child(failure)
        return value, failure

    def _attempt(self) -> object:
        with self._lock:
            if self._stopped:
                return None
            self._thread = threading.get_ident()
        _running.add(self)
        try:
            try:
                return self._context.run(self._work)
            finally:
                self._leave()
        except _StopWork:
            return None
        finally:
            _running.discard(self)

    def _leave(self) -> None:
        """Let a pending stop arrive now, rather than in the next work of the thread."""
        with self._lock:
            self._thread = None
            is_stopped = self._stopped
        if is_stopped:
            # It is raised where bytecode is interruptible. To withdraw it would make the
            # interpreter spin under a tracer.
            for _ in range(100):
                pass

    def stop(self) -> None:
        """Raise in the thread at its next bytecode; a call into C is left only when it returns."""
        import ctypes  # takes 2 ms, and few tools ever run out of time

        with self._lock:
            self._stopped = True
            if self._thread is not None:
                thread, raised = ctypes.c_ulong(self._thread), ctypes.py_object(_StopWork)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, raised)


def _settle(future: asyncio.Future[object], value: object, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(value)
        return
    if isinstance(failure, StopIteration) or not isinstance(failure, _PASSED_ON):
        # A future refuses the first, and the others would stop the loop.
        wrapped = RuntimeError(f"the function raised {type(failure).__name__}")
        wrapped.__cause__ = failure
        failure = wrapped
    future.set_exception(failure)


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
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._working: dict[_Job, None] = {}
        self._threads = 0
        self._queued = 0
        self._unread = 0
        self._throttled = 0
        self._was_read = threading.Condition(self._lock)
        self._reported = 0.0
        self._is_shut = False
        # The threads refer to the queue alone, so that unused workers are collected.
        weakref.finalize(self, self._queue.put, None).atexit = False

    # -- submitting work

    def submit(self, job: _Job) -> bool:
        """Queue a job; return whether a thread is free for it."""
        with self._lock:
            job.state = _QUEUED
            job.queued_at = time.monotonic()
            self._queued += 1
            is_served = self._ensure_thread()
        self._queue.put(job)
        return is_served

    def give_up(self, job: _Job) -> None:
        """Drop a job; if it has begun, its thread may be replaced."""
        with self._lock:
            if job.state == _RUNNING:
                job.given_up_at = time.monotonic()
            else:
                self._queued -= job.state == _QUEUED
                job.state = _OVER

    def _ensure_thread(self) -> bool:
        """Start a thread if one is needed and allowed; return whether the queue is served.

        The lock is held.
        """
        if self._queued + len(self._working) <= self._threads:
            return True
        if self._threads >= self.size and self._threads >= self._most():
            return False
        thread = threading.Thread(
            target=_work, args=(weakref.ref(self), self._queue), name="accord", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads; waiting calls fail in time
            return False
        self._threads += 1
        return True

    def _most(self) -> int:
        """Return how many threads are allowed; a job dropped just now may still end by itself."""
        before = time.monotonic() - _REPLACE_AFTER
        stuck = sum(
            job.given_up_at is not None and job.given_up_at < before for job in self._working
        )
        return self.size + min(stuck, _REPLACED_MOST)

    # -- working, in the threads

    def run(self, job: _Job) -> bool:
        """Do a job; return whether the thread is still needed."""
        flow = job.flow
        with self._lock:
            # Threads are faster than the loop that sends their results.
            while self._unread >= self.size:
                self._throttled += 1
                self._was_read.wait(_REPORT_AFTER)
                self._throttled -= 1
            if job.state != _QUEUED or self._is_shut:
                return True
            self._queued -= 1
            is_held_back = flow is not None and flow.is_congested
            job.state = _HELD_BACK if is_held_back else _RUNNING
            self._moved_at = time.monotonic()
            if not is_held_back:
                self._working[job] = None
        if is_held_back:
            with suppress(RuntimeError):  # the loop is closed
                job.loop.call_soon_threadsafe(self._hold_back, job)
            return True
        value, failure = job.run()
        with self._lock:
            job.state = _OVER
            del self._working[job]
            job.is_unread = job.given_up_at is None
            self._unread += job.is_unread
            is_needed = self._threads <= self.size or self._threads <= self._most()
            self._threads -= not is_needed
        try:
            job.loop.call_soon_threadsafe(_settle, job.future, value, failure)
        except RuntimeError:  # the loop is closed
            self.take(job)
        return is_needed

    def take(self, job: _Job) -> None:
        """Note that the result of a job has reached its caller."""
        with self._lock:
            self._unread -= job.is_unread
            job.is_unread = False
            if self._throttled:
                self._was_read.notify()

    def _hold_back(self, job: _Job) -> None:
        """Wait with the work of a client that does not read: its answers would pile up."""

        async def submit_when_read() -> None:
            assert job.flow is not None
            await job.flow.writable()
            if job.state == _HELD_BACK:
                self.submit(job)

        waiting = job.loop.create_task(submit_when_read())
        job.future.add_done_callback(lambda _: waiting.cancel())

    # -- reporting what holds the threads

    def check_waiting(self, job: _Job) -> None:
        """Replace stuck threads for a job that waits, or report the functions that hold them.

        Raises:
            InternalError: it has waited too long.
        """
        with self._lock:
            before = self._threads
            is_served = self._ensure_thread()
            is_replaced = self._threads > max(self.size, before)
            stalled = time.monotonic() - max(self._moved_at, job.queued_at)
            is_stuck = not is_served and stalled >= min(_REPORT_AFTER, self.wait)
            # Logged once.
            is_reported = is_stuck and self._reported != self._moved_at
            if is_reported:
                self._reported = self._moved_at
            held = self._describe_holders() if is_replaced or is_stuck else ""
            waiting, threads = self._queued, self._threads
        if is_replaced:
            log.warning("a thread is added for each that a cancelled call still holds: %s", held)
        if is_reported:
            log.warning(
                "%d calls wait because all %d threads are held by %s (threads=%d)",
                *(waiting, threads, held, self.size),
            )
        if is_stuck and stalled >= self.wait:
            self.give_up(job)
            raise InternalError(
                f"no thread came free within {self.wait:g} s (thread_wait): all {self.size} "
                f"(threads) are held by {held}"
            )

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

    def shutdown(self) -> None:
        """Let the threads end; queued jobs never begin, and running ones are not waited for."""
        self._is_shut = True
        self._queue.put(None)


def _work(owner: "weakref.ref[Workers]", queue: "SimpleQueue[_Job | None]") -> None:
    """Do the jobs of a queue, one after another."""
    while (job := queue.get()) is not None:
        workers = owner()
        if workers is None or not workers.run(job):
            return
        # A thread that waits must not keep them alive.
        del workers, job
    queue.put(None)  # for the others


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
    job = _Job(work, name, flow)
    is_served = workers.submit(job)
    tasks.awaited_threads.add(job)
    result: Value
    try:
        if timeout is None and is_served:
            result = await job.future
        else:
            result = await _wait_with_limits(workers, job, timeout)
    except asyncio.CancelledError:
        workers.give_up(job)
        raise
    finally:
        tasks.awaited_threads.discard(job)
        workers.take(job)
    return result


async def _wait_with_limits(workers: Workers, job: _Job, timeout: float | None) -> Any:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        pause = None if end is None else end - time.monotonic()
        if job.state in (_QUEUED, _HELD_BACK):
            turn = min(_REPORT_AFTER, workers.wait)
            pause = turn if pause is None else min(pause, turn)
        done, _ = await asyncio.wait([job.future], timeout=pause)
        if done:
            return job.future.result()
        if end is not None and time.monotonic() >= end:
            workers.give_up(job)
            job.stop()
            raise OutOfTime
        if job.state == _QUEUED:
            workers.check_waiting(job)


def is_working() -> bool:
    """Whether any work is running, cancelled or not."""
    return bool(_running)


async def wait_until_idle(timeout: float) -> bool:
    """Wait until no work is running; return whether that happened in time."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while _running and loop.time() < end:
        await asyncio.sleep(0.01)
    return not _running
