"""Time that passes only when every task waits, so that tests of deadlines take no time."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Value = TypeVar("Value")


def run_in_virtual_time(work: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine as `asyncio.run` does, on a loop whose timers are due at once.

    Whenever nothing is left to do but wait, the loop's clock jumps to the next timer. Meant for
    async code in one process: work in threads takes real time, during which timers run out.
    """
    with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
        return runner.run(work)


class _Selector(selectors.DefaultSelector):
    """Never waits for a timer: it tells how long that would have taken."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(0)
        if not ready:
            self.skipped += timeout
        return ready


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._skipping = _Selector()
        super().__init__(self._skipping)

    def time(self) -> float:
        return super().time() + self._skipping.skipped
