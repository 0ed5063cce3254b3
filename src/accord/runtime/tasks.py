"""Tasks that begin at once, and the task that is the whole life of a server."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine
from typing import Any, Final

if sys.version_info >= (3, 12):

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[object, None, object], name: str
    ) -> asyncio.Task[Any]:
        """Run work up to where it first waits, as a task; it may be done on return."""
        return asyncio.Task(work, loop=loop, name=name, eager_start=True)

else:
    _leave: Final = asyncio.tasks._leave_task
    _enter: Final = asyncio.tasks._enter_task

    def start(
        loop: asyncio.AbstractEventLoop, work: Coroutine[object, None, object], name: str
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


log = logging.getLogger("accord")


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
