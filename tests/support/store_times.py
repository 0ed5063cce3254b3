"""Waits by the clock of a backend, which alone decides what has expired."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from accord.sharing import Backend
from support.waiting import LONG


async def until_true(condition: Callable[[], Awaitable[Any]]) -> Any:
    """Wait until an awaited condition holds, and return what it gave."""
    end = time.monotonic() + LONG
    while not (found := await condition()):
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.005)
    return found


async def wait_until(backend: Backend, moment: float) -> None:
    """Wait until the clock of the backend has passed a moment."""

    async def has_passed() -> bool:
        # A clock and an expiry may be kept in milliseconds.
        return await backend.now() > moment + 0.002

    await until_true(has_passed)


async def before_expiry(
    backend: Backend, steps: Callable[[str, float], Awaitable[Any]]
) -> tuple[str, float]:
    """Carry out steps that take less than a time to live, and return when that is over.

    On a busy machine they may take longer. They are carried out again then, for another name and
    with more time. They get the name and the time to live.
    """
    for ttl in (0.15, 0.6, 3.0, 15.0, 60.0):
        name = f"after {ttl}"
        began = await backend.now()
        try:
            await steps(name, ttl)
        except AssertionError:
            if await backend.now() < began + ttl:
                raise
        else:
            now = await backend.now()
            if now < began + ttl:
                return name, now + ttl
    raise AssertionError("this machine is too slow")
