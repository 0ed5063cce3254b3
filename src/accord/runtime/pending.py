"""A request of ours that waits for its answer, with its deadlines."""

import asyncio
from collections.abc import Callable
from math import inf
from typing import Any

from accord.errors import RequestTimeout
from accord.types import ProgressParams

__all__ = ["Pending"]


class Pending:
    """What is known of a request until its answer comes.

    Args:
        future: gets the answer.
        timeout: seconds without answer or progress.
        cap: seconds in all.
        now: when the request is sent, on the loop's clock.
        on_progress: called with each progress notification.
    """

    __slots__ = ("cap", "cap_ends", "ends", "future", "on_progress", "timeout")

    def __init__(
        self,
        future: asyncio.Future[Any],
        timeout: float | None,
        cap: float | None,
        now: float,
        on_progress: Callable[[ProgressParams], Any] | None,
    ) -> None:
        self.future = future
        self.timeout = timeout
        self.cap = cap
        self.cap_ends = inf if cap is None else now + cap
        self.on_progress = on_progress
        self.ends = inf

    def extend(self, now: float) -> float:
        """Count the silence from now on; returns when the first of the two limits runs out."""
        ends = inf if self.timeout is None else now + self.timeout
        self.ends = min(self.cap_ends, ends)
        return self.ends

    def expiry(self, name: str) -> RequestTimeout:
        """Return the error that says which of the two limits ran out."""
        if self.ends == self.cap_ends:
            limit = f"{self.cap:g} s in all (cap)"
        else:
            limit = f"{self.timeout:g} s of silence (timeout)"
        return RequestTimeout(f"{name}: no answer within {limit}; it was cancelled")
