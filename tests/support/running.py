"""Async tests that use none of the fixtures which would run them."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

from accord.testing import run_in_virtual_time
from support.waiting import LONG

AsyncTest = Callable[..., Coroutine[Any, Any, None]]


def on_a_loop(test: AsyncTest) -> Callable[..., None]:
    """Run a test on a loop of its own."""

    @wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        asyncio.run(test(*args, **keywords))

    return run


def in_virtual_time(test: AsyncTest) -> Callable[..., None]:
    """Run a test on a loop whose timers are due at once."""

    @wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        run_in_virtual_time(test(*args, **keywords))

    return run


def run_to_the_end(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end within a bounded time; nothing may be left running."""

    async def bounded() -> Any:
        async with asyncio.timeout(2 * LONG):
            result = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left
        return result

    return asyncio.run(bounded())


def to_the_end(test: AsyncTest) -> Callable[..., None]:
    """Run a test on a loop of its own within a bounded time; it may leave nothing running."""

    @wraps(test)
    def run(*args: Any, **keywords: Any) -> None:
        run_to_the_end(test(*args, **keywords))

    return run


def answer_with(value: object) -> Callable[[Any], Coroutine[Any, Any, dict[str, object]]]:
    """Return a callback that fills in a form, without a thread: those take real time."""

    async def answer(params: Any) -> dict[str, object]:
        return {"value": value}

    return answer
