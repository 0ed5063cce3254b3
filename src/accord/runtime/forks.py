"""Ends forked copies of this process when they come back into accord.

A handler may fork. Its child has a copy of the loop and of every connection: it must not serve, and
not write a single byte. The parent goes on as if nothing had happened.
"""

import asyncio
import os
from collections import deque
from contextlib import suppress
from typing import Final, NoReturn
from weakref import WeakSet

generation = 0
"""How many forks lie between the first process and this one; objects of another are copies."""

_loops: Final[WeakSet[asyncio.AbstractEventLoop]] = WeakSet()


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
    global generation  # noqa: PLW0603  # the process has one
    generation += 1
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
