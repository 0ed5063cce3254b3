"""Tasks that begin at once: work that does not wait for anything takes no turn of the loop."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, Final

__all__ = ["start"]

if sys.version_info >= (3, 12):

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], name: str
    ) -> asyncio.Task[Any]:
        """Run work up to where it first waits, as a task; it may be done on return."""
        return asyncio.Task(work, loop=loop, name=name, eager_start=True)

else:
    _leave: Final = asyncio.tasks._leave_task
    _enter: Final = asyncio.tasks._enter_task

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], name: str
    ) -> asyncio.Task[Any]:
        """Run work up to where it first waits, as a task; it may be done on return.

        This Python knows no eager tasks. Its own loop queues the first step as the last that is
        ready, so it can be taken from there; on other loops the task begins with the next turn.
        """
        task = asyncio.Task(work, loop=loop, name=name)
        ready = getattr(loop, "_ready", None)
        if not ready:
            return task
        step = ready.pop()
        belongs_to: object = getattr(step._callback, "__self__", None)
        if belongs_to is not task:
            ready.append(step)  # another thread was quicker
            return task
        outer = asyncio.current_task(loop)
        if outer is not None:
            _leave(loop, outer)
        try:
            step._run()
        finally:
            if outer is not None:
                _enter(loop, outer)
        return task
