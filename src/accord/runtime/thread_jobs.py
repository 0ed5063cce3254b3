"""Work for threads, and its outcome on the loop that waits for it."""

import asyncio
import contextvars
import threading
import time
from typing import TYPE_CHECKING, Final

from accord.runtime import tasks
from accord.runtime.deferred import Deferred, OutOfTime
from accord.runtime.handlers import Unwound
from accord.runtime.origin import ClientFlow
from accord.runtime.thread_bells import find_mailbox

if TYPE_CHECKING:
    from accord.runtime.threads import Workers

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
