"""Batches of work within one turn of an event loop: they end with what would cost most for each."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

_open: Final[dict[asyncio.AbstractEventLoop, list[Callable[[], object]]]] = {}


def call_in_batch(loop: asyncio.AbstractEventLoop, work: Callable[..., None], *args: Any) -> None:
    """Do work on a loop, in its thread, and then what the work left for its end."""
    if loop in _open:
        work(*args)
        return
    callbacks = _open[loop] = []
    try:
        work(*args)
    finally:
        del _open[loop]
        if callbacks:
            _end(loop, callbacks)


def leave_for_end(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> bool:
    """Call something at the end of the batch that the loop works on.

    Returns whether there is one; else nothing is called.
    """
    callbacks = _open.get(loop)
    if callbacks is None:
        return False
    callbacks.append(callback)
    return True


def _end(loop: asyncio.AbstractEventLoop, callbacks: list[Callable[[], object]]) -> None:
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
