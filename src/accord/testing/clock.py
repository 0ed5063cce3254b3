"""Time that passes only while every task waits, so that tests of deadlines take no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Final, TypeVar

from accord.runtime.tasks import is_thread_awaited

__all__ = ["run_in_virtual_time"]

Value = TypeVar("Value")

# With sockets of its own a loop may wait for bytes that the system is about to deliver, or else for
# a thread. So it looks for this many real seconds, and then goes ahead by no more than a step.
_DELIVERY: Final = 0.001
_STEP: Final = 0.05


def run_in_virtual_time(work: Coroutine[object, object, Value]) -> Value:
    """Run a coroutine as `asyncio.run` does, on a loop whose timers are due at once.

    The loop's clock stands still while anything runs, however slow the machine is. Whenever nothing
    is left to do but wait, it jumps to the next timer. Meant for async code in one process, which
    may talk to itself over sockets: work in threads takes real time, during which timers expire,
    though not all at once.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(work)


class _Selector(selectors.DefaultSelector):
    """Skips the time that it should have waited, and counts it."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        # One of its sockets wakes the loop up.
        is_expecting = len(self.get_map()) > 1 or is_thread_awaited()
        ready = super().select(_DELIVERY if is_expecting else 0)
        if not ready:
            self.skipped += min(timeout, _STEP) if is_expecting else timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return self._skipping.skipped
