"""How threads and event loops wake each other.

A thread that is woken needs the interpreter's lock (GIL) next. If its waker still has the lock, the
system wakes the thread twice: for the signal, then for the lock. A write to a descriptor gives up
the lock first, so that one wake-up is enough; a hop to a thread and back takes half the time.
"""

import asyncio
import contextvars
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakKeyDictionary, ref

from accord.runtime.batches import call_in_batch

if TYPE_CHECKING:
    from accord.runtime.thread_jobs import Job
    from accord.runtime.threads import Workers

# Loops that watch a descriptor at no other cost. A virtual clock, say, would wait for it.
_LOOPS_WITH_READERS: Final = frozenset(
    {("asyncio.unix_events", "_UnixSelectorEventLoop"), ("uvloop", "Loop")}
)


class Descriptor:
    """A descriptor that counts how often it was rung; closed when it is collected.

    Args:
        flags: how it is waited for; by default one wait takes all rings.

    Raises:
        OSError: the process has no descriptors left.
        AttributeError: the system has none of this kind: it is not Linux.
    """

    __slots__ = ("number", "ring", "wait")

    def __init__(self, flags: int = 0) -> None:
        self.number = -1
        self.number = os.eventfd(0, flags | os.EFD_CLOEXEC)
        self.ring: Callable[[], None] = partial(os.eventfd_write, self.number, 1)
        self.wait: Callable[[], object] = partial(os.eventfd_read, self.number)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self.number >= 0:
            close(self.number)


class QueueBell:
    """Wakes one thread for each ring; the waker keeps the interpreter's lock."""

    __slots__ = ("ring", "wait")

    def __init__(self) -> None:
        rings: SimpleQueue[None] = SimpleQueue()
        self.ring: Callable[[], None] = partial(rings.put, None)
        self.wait: Callable[[], object] = rings.get


Bell: TypeAlias = Descriptor | QueueBell


def make_bell() -> Bell:
    """Return what wakes a thread at the least cost."""
    try:
        # Each ring wakes one thread: the next may wait before the last has come to itself.
        return Descriptor(os.EFD_SEMAPHORE)
    except (AttributeError, OSError):
        return QueueBell()


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
        self._is_rung = False
        self.descriptor: Descriptor | None = None
        kind = type(loop)
        if (kind.__module__, kind.__qualname__) in _LOOPS_WITH_READERS:
            with suppress(AttributeError, OSError):
                made = Descriptor(os.EFD_NONBLOCK)
                # Without the context variables of the request that happens to be the first.
                contextvars.Context().run(loop.add_reader, made.number, self._read)
                self.descriptor = made

    def ring(self) -> None:
        """Wake the loop for the outcomes, unless that has been done. From any thread."""
        if self._is_rung:
            return
        self._is_rung = True
        if self.descriptor is not None:
            self.descriptor.ring()
            return
        loop = self._loop()
        if loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._take_all)

    def wake_thread(self, bell: Bell) -> None:
        """Wake a thread, and take at once what it may have done meanwhile. On the loop.

        A descriptor gives up the interpreter's lock, and the thread often has it first. Then the
        loop need not be woken.
        """
        self._is_rung = True
        bell.ring()
        # Before the look at the outcomes: for what is added from here on, it is rung.
        self._is_rung = False
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
        # Before the outcomes: for what is added from here on, it is rung again.
        self._is_rung = False
        outcomes = self.outcomes
        try:
            # Not those that come meanwhile: other callbacks of the loop have their turn too.
            for _ in range(len(outcomes)):
                job, value, failure = outcomes.popleft()
                job.deliver(value, failure)
        except BaseException:
            self.ring()  # for the others
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
