"""Tools for every way to end: `python ending.py [GRACE]`."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from accord import Context, Server


def tell(what: str) -> None:
    """Let the test know."""
    sys.stderr.write(what + "\n")
    sys.stderr.flush()


@asynccontextmanager
async def lifespan(server: Server) -> AsyncIterator[None]:
    if "fail-at-start" in sys.argv:
        raise RuntimeError("cannot start")
    tell("STARTED")
    yield
    tell("STOPPED")
    if "fail-at-end" in sys.argv:
        raise RuntimeError("cannot end")


server = Server("ending", lifespan=lifespan)


@server.tool
def block() -> str:
    """Sleep in a thread, whatever happens."""
    tell("BLOCKING")
    time.sleep(60)
    return "late"


@server.tool
def cooperate(ctx: Context) -> str:
    """Work in a thread and look at the flag."""
    tell("WORKING")
    while not ctx.is_cancelled:
        time.sleep(0.01)
    tell("CANCELLED")
    return "never seen"


@server.tool
async def wait() -> str:
    """Wait in a coroutine and clean up."""
    tell("WAITING")
    try:
        await asyncio.sleep(60)
    finally:
        tell("CLEANED UP")
    return "late"


@server.tool
async def ignore() -> str:
    """Ignore that it is cancelled."""
    tell("IGNORING")
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            tell("IGNORED")


@server.tool
async def block_loop() -> str:
    """Block the loop itself."""
    tell("BLOCKING THE LOOP")
    time.sleep(60)
    return "late"


@server.tool
async def soon() -> str:
    """Answer in a moment."""
    await asyncio.sleep(0.1)
    return "in time"


@server.tool
def leave_a_thread() -> str:
    """Start a thread that never ends."""
    threading.Thread(target=time.sleep, args=(60,)).start()
    return "started"


@server.tool
def quit_process() -> str:
    """Exit, as a command would."""
    sys.exit(3)


@server.tool
def pid() -> int:
    """Return the process id."""
    return os.getpid()


if __name__ == "__main__":
    server.run(grace=float(sys.argv[1]) if len(sys.argv) > 1 else 0.4)
    tell("AFTER RUN")
