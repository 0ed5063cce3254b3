"""The lifespans of sources that are mounted: each runs once per event loop, for all its users."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol


class HasLifespan(Protocol):
    """What is held while it is in use."""

    def run_lifespan(self) -> AbstractAsyncContextManager[Any]: ...


class SharedLifespan:
    """The lifespan of a source on each loop, entered by its first user and left by its last.

    It is entered and left in a task of its own: users come and go in any order, and what a lifespan
    opens may have to be closed by the task that opened it.
    """

    def __init__(self, source: HasLifespan) -> None:
        self._source = source
        self._runs: dict[asyncio.AbstractEventLoop, LifespanRun] = {}

    async def acquire(self) -> None:
        """Enter the lifespan, or wait until another user has entered it.

        Raises:
            Exception: what the lifespan raised; it is entered again by the next user.
        """
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is None:
            run = self._runs[loop] = LifespanRun(self._source)
        run.users += 1
        try:
            await asyncio.shield(run.ready)
        except BaseException:
            await self._leave(loop, run)
            raise

    async def release(self) -> None:
        """Leave the lifespan; the last user ends it, and waits for its end."""
        loop = asyncio.get_running_loop()
        run = self._runs.get(loop)
        if run is not None:
            await self._leave(loop, run)

    async def _leave(self, loop: asyncio.AbstractEventLoop, run: "LifespanRun") -> None:
        run.users -= 1
        if run.users:
            return
        if self._runs.get(loop) is run:
            del self._runs[loop]
        await run.end()

    @property
    def is_running(self) -> bool:
        """Whether it has been entered on this loop, or is being entered."""
        return asyncio.get_running_loop() in self._runs

    @property
    def run(self) -> "LifespanRun | None":
        """What was entered on this loop; None before, and afterwards."""
        run = self._runs.get(asyncio.get_running_loop())
        return run if run is not None and run.is_ready else None

    @property
    def state(self) -> Any:
        """What it yielded on this loop; None where it was not entered."""
        run = self._runs.get(asyncio.get_running_loop())
        return None if run is None else run.state

    async def wait(self) -> None:
        """Wait until it has been entered on this loop.

        Raises:
            RuntimeError: it is not being entered.
        """
        run = self._runs.get(asyncio.get_running_loop())
        if run is None:
            raise RuntimeError(f"the lifespan of {self._source!r} is not running")
        await asyncio.shield(run.ready)


class LifespanRun:
    """A lifespan on one loop.

    Attributes:
        state: what it yielded.
        is_over: whether it was left; another run may have begun since.
    """

    def __init__(self, source: HasLifespan) -> None:
        loop = asyncio.get_running_loop()
        self.users = 0
        self.state: Any = None
        self.is_over = False
        self.ready: asyncio.Future[None] = loop.create_future()
        self._ending = asyncio.Event()
        self._task = loop.create_task(self._live(source), name=f"lifespan of {source!r}")

    @property
    def is_ready(self) -> bool:
        return self.ready.done() and not self.ready.cancelled() and self.ready.exception() is None

    async def _live(self, source: HasLifespan) -> None:
        try:
            async with source.run_lifespan() as self.state:
                self.ready.set_result(None)
                await self._ending.wait()
        except BaseException as error:
            if self.ready.done():
                raise
            self.ready.set_exception(error)
            self.ready.exception()  # marked as retrieved: its user may be gone
            if not isinstance(error, Exception):
                raise
        finally:
            self.ready.cancel()

    async def end(self) -> None:
        """Leave the lifespan, and raise what it raises at its end."""
        self.is_over = True
        if not self.ready.done():
            self._task.cancel()
        self._ending.set()
        await asyncio.wait([self._task])
        if not self._task.cancelled() and self._task.exception() is not None:
            raise self._task.exception()  # type: ignore[misc]  # it is not None


def lifespan_of(source: HasLifespan) -> SharedLifespan:
    """Return the shared lifespan of a source."""
    members = vars(source)
    found: SharedLifespan | None = members.get("_shared_lifespan")
    if found is None:
        found = members["_shared_lifespan"] = SharedLifespan(source)
    return found
