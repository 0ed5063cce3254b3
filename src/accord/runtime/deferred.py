"""Outcomes of requests whose work goes on elsewhere, without a task that waits for it."""

import asyncio
from collections.abc import Callable
from typing import Any


class OutOfTime(TimeoutError):
    """The time limit of the work passed, as opposed to a time-out within the work."""


class Deferred(asyncio.Future[Any]):
    """What a handler returns that works elsewhere, such as in a thread.

    The dispatcher answers in the same turn of the loop in which the outcome is known: a task that
    awaits a future costs two turns more. Others await it as any future.
    """

    __slots__ = ("_follower",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self._follower: Callable[[Deferred], None] | None = None

    def follow(self, follower: Callable[["Deferred"], None]) -> None:
        """Let something be called once it is done, without another turn of the loop."""
        self._follower = follower

    def set_outcome(self, result: object, error: BaseException | None = None) -> None:
        """Set the result or the exception, unless it is done."""
        if self.done():
            return
        if error is None:
            self.set_result(result)
        else:
            self.set_exception(error)
        self._end()

    def cancel(self, msg: object = None) -> bool:
        """Give it up: its outcome is no longer wanted."""
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._end()
        return is_cancelled

    def _end(self) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            follower(self)
