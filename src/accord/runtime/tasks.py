"""Work on an event loop: requests that wait, servers up to their end, threads, batches, forks.

A handler may fork. Its child has a copy of the loop and of every connection: it must not serve, and
not write a single byte. It is ended when it comes back into accord, and the parent goes on.
"""

import asyncio
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar
from weakref import WeakSet

from accord.errors import InternalError, MessageTooLarge, RequestError, RequestTimeout
from accord.types import ProgressParams

if TYPE_CHECKING:
    from accord.protocol.exchange import Exchange, NotificationReceived


log = logging.getLogger("accord")

Result = TypeVar("Result")

fork_generation = 0
"""How many forks lie between the first process and this one; objects of another are copies."""

awaited_threads: Final[set[asyncio.Future[Any]]] = set()
"""Work in threads of servers that a loop waits for: a virtual clock must not overtake it."""

_loops: Final[WeakSet[asyncio.AbstractEventLoop]] = WeakSet()


class Resumed(Generic[Result]):
    """A coroutine that was started by hand, to be awaited from where it waits."""

    __slots__ = ("_first", "_work")

    def __init__(self, work: Coroutine[Any, Any, Result], first: object) -> None:
        self._work = work
        self._first = first

    def __await__(self) -> Generator[Any, Any, Result]:
        waits_for = self._first
        try:
            while True:
                try:
                    outcome = yield waits_for
                except BaseException as error:
                    waits_for = self._work.throw(error)
                else:
                    waits_for = self._work.send(outcome)
        except StopIteration as done:
            result: Result = done.value
            return result


def run_to_end(
    work: Coroutine[object, None, None],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    """Run a server to its end, whatever the tasks of its handlers raise.

    Exits and interrupts leave the loop from any task. Those of handlers' tasks end that task alone:
    what awaits it learns of it, and the loop goes on.
    """
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        loop = runner.get_loop()
        asyncio.set_event_loop(loop)
        main = loop.create_task(work)
        while not main.done():
            try:
                loop.run_until_complete(main)
            except (SystemExit, KeyboardInterrupt) as error:
                if main.done():
                    raise
                log.exception("a task of a handler raised %s", type(error).__name__)
        main.result()


async def run_until_cancelled(
    work: Coroutine[object, None, None], stop: Callable[[], None], *, seconds: float
) -> None:
    """Run work to its end; when the task is cancelled, let the work stop in order first.

    Args:
        work: ends by itself, or soon after `stop`.
        stop: called when the task is cancelled.
        seconds: how long the work may take to stop then; a second cancellation ends the wait.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        stop()
        try:
            await asyncio.wait((task,), timeout=seconds)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if not task.cancelled() and (error := task.exception()) is not None:
                log.exception("the server failed at its end", exc_info=error)
        raise


class Pending:
    """A request of ours until its answer arrives.

    Args:
        future: gets the answer.
        timeout: seconds without answer or progress.
        cap: seconds in all.
        now: when the request is sent, on the loop's clock.
        on_progress: called with each progress notification.
        within: the exchange during which it is sent, if any.
    """

    __slots__ = (
        "cap",
        "cap_ends",
        "ends",
        "future",
        "on_notice",
        "on_progress",
        "timeout",
        "within",
    )

    def __init__(
        self,
        future: asyncio.Future[object],
        timeout: float | None,
        cap: float | None,
        now: float,
        on_progress: Callable[[ProgressParams], object] | None,
        within: "Exchange | None" = None,
    ) -> None:
        self.future = future
        self.within = within
        self.timeout = timeout
        self.cap = cap
        self.cap_ends = self.ends = inf if cap is None else now + cap
        if timeout is not None and now + timeout < self.cap_ends:
            self.ends = now + timeout
        self.on_progress = on_progress
        self.on_notice: Callable[[NotificationReceived], None] | None = None
        """Called with what the peer sends to a request that stays open for it."""

    def extend(self, now: float) -> float:
        """Count the silence from now on; returns when the first of the two limits runs out."""
        ends = inf if self.timeout is None else now + self.timeout
        self.ends = min(self.cap_ends, ends)
        return self.ends

    def expiry(self, name: str) -> RequestTimeout:
        """Return the error that says which of the two limits ran out."""
        if self.ends == self.cap_ends:
            limit = f"{self.cap:g} s in all (cap)"
        else:
            limit = f"{self.timeout:g} s of silence (timeout)"
        return RequestTimeout(f"{name}: no answer within {limit}; it was cancelled")


def explain_size(name: str, error: MessageTooLarge) -> InternalError:
    """Return the answer that takes the place of one that is too large."""
    why = error.explain(f"{name}: the answer")
    log.warning("%s; %s", why, error.advice)
    return InternalError(why)


def is_writable(error: RequestError) -> bool:
    """Whether the code and the message of a handler's error are what JSON-RPC demands."""
    return type(error.code) is int and isinstance(error.message, str)


def is_pressed() -> bool:
    """Whether a KeyboardInterrupt here may come from Ctrl-C rather than from a handler.

    Where a loop or a server took the signal, it ends the program in its own way.
    """
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def run_in_thread(work: Callable[[], Result], name: str) -> Result:
    """Run work that may wait for a user; neither a cancellation nor the exit waits for its thread.

    Args:
        work: called with the context of the caller.
        name: of the thread.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()
    context = copy_context()
    generation = fork_generation

    def settle(set_outcome: Callable[[Any], None], outcome: object) -> None:
        if not future.done():
            set_outcome(outcome)

    def run() -> None:
        failure: BaseException | None = None
        try:
            done = partial(settle, future.set_result, context.run(work))
        except BaseException as error:
            failure = error
            if isinstance(error, StopIteration) or not isinstance(error, Exception):
                # A future refuses StopIteration, and the others would end more than the callback.
                failure = RuntimeError(f"the callback ended with {type(error).__name__}")
                failure.__cause__ = error
            done = partial(settle, future.set_exception, failure)
        if fork_generation != generation:
            end_child(failure and (failure.__cause__ or failure))
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(done)

    threading.Thread(target=run, daemon=True, name=name).start()
    return await future


def is_thread_awaited() -> bool:
    """Whether a loop waits for work in a thread; closed ones do not."""
    for work in list(awaited_threads):
        if work.get_loop().is_closed():
            awaited_threads.discard(work)
    return bool(awaited_threads)


# -- batches of work within one turn of a loop: they end with what would cost most for each

_open_batches: Final[dict[asyncio.AbstractEventLoop, list[Callable[[], object]]]] = {}


def run_without_loop(work: Coroutine[Any, Any, Result]) -> Result:
    """Return the result of a coroutine that waits for nothing, in the thread that calls.

    Raises:
        RuntimeError: it waits.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    work.close()
    raise RuntimeError("this waits, and needs an event loop")


def call_in_batch(loop: asyncio.AbstractEventLoop, work: Callable[..., None], *args: Any) -> None:
    """Do work on a loop, in its thread, and then what the work left for its end."""
    if loop in _open_batches:
        work(*args)
        return
    callbacks = _open_batches[loop] = []
    try:
        work(*args)
    finally:
        del _open_batches[loop]
        if callbacks:
            _end_batch(loop, callbacks)


def leave_for_end(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """Call something at the end of the batch that the loop works on.

    Returns whether there is one; else nothing is called.
    """
    callbacks = _open_batches.get(loop)
    if callbacks is None:
        return False
    callbacks.append(callback)
    return True


def _end_batch(loop: asyncio.AbstractEventLoop, callbacks: list[Callable[[], object]]) -> None:
    callbacks.reverse()
    try:
        while callbacks:
            try:
                callbacks.pop()()
            except Exception as error:  # as the loop does with its own callbacks
                said = {"message": "a callback failed", "exception": error}
                loop.call_exception_handler(said)
    finally:
        for callback in callbacks:  # an interrupt goes on, but others wait for these
            loop.call_soon(callback)


# -- forks


def end_children_of(loop: asyncio.AbstractEventLoop) -> None:
    """End a child that is forked while the loop runs, as soon as the loop gets its turn there."""
    _loops.add(loop)


def end_child(error: BaseException | None = None) -> NoReturn:
    """End a forked copy without any cleaning up: files and connections belong to the parent.

    Args:
        error: what the handler raised in the child, if it raised anything.
    """
    code = 0 if error is None else 1
    if isinstance(error, SystemExit):
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    os._exit(code & 0xFF)


def _after_fork() -> None:
    global fork_generation  # noqa: PLW0603  # the process has one
    fork_generation += 1
    for loop in list(_loops):
        if not loop.is_running():
            continue
        ready = getattr(loop, "_ready", None)
        if isinstance(ready, deque):
            # Before all else that is ready: that is the parent's to do.
            ready.appendleft(asyncio.Handle(end_child, (), loop))
        else:
            with suppress(RuntimeError):
                loop.call_soon(end_child)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
