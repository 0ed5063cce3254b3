"""The task that is the whole life of a server, run to its end."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

__all__ = ["run_to_end"]

log = logging.getLogger("accord")


def run_to_end(
    work: Coroutine[Any, Any, None],
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
