"""Waits with a bound."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

LONG = 60.0
"""Seconds that nothing in a test takes, however slow the machine."""


def run(work: Coroutine[Any, Any, Any], *, seconds: float = 3 * LONG) -> Any:
    """Run a coroutine to its end, but not for ever."""

    async def bounded() -> Any:
        async with asyncio.timeout(seconds):
            return await work

    return asyncio.run(bounded())


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Let an async test run in a loop of its own, but not for ever."""

    @wraps(test)
    def run_test(*args: Any, **fixtures: Any) -> None:
        run(test(*args, **fixtures))

    return run_test


async def until(condition: Callable[[], Any], *, seconds: float = LONG) -> Any:
    """Wait until a condition holds, and return what it gave."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.002)
    return found


def until_sync(condition: Callable[[], Any], *, seconds: float = LONG) -> Any:
    """The same for tests without a loop."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
    return found
