"""The bodies of requests that are being read: how long they may take, how much they may hold."""

import asyncio
from typing import Final

from accord.bindings import http
from accord.transports.http_options import HttpOptions

__all__ = ["Bodies", "Body"]

# A body whose next bytes have not come for this long gives its room to one whose bytes come.
_STUCK: Final = 1.0
# How much longer than a silence a body may stay below the least rate: connections vary.
_LENIENCY: Final = 3
_SILENT: Final = http.HttpRefusal(408, "the body did not arrive in time (body_timeout)")
_SLOW: Final = http.HttpRefusal(408, "the body arrives too slowly (body_rate)")


class Body:
    """A body that is being read."""

    __slots__ = ("deadline", "heard", "refusal", "size", "task")

    def __init__(self, task: "asyncio.Task[object]", now: float, deadline: float) -> None:
        self.task = task
        self.heard = now
        self.deadline = deadline
        self.size = 0
        self.refusal: http.HttpRefusal | None = None


class Bodies:
    """All bodies that are being read.

    A body is given up when nothing of it has come for `body_timeout`, or when it comes more slowly
    than `body_rate` for longer than three times that. All together hold no more than
    `bodies_bytes`: above that, those that are stuck make room, or else the newest is refused.

    Args:
        options: those limits.
    """

    def __init__(self, options: HttpOptions) -> None:
        self._silence = options.body_timeout
        self._rate = options.body_rate
        self._patience = _LENIENCY * options.body_timeout
        self._most = options.bodies_bytes
        why = f"bodies of {self._most} bytes are being read (bodies_bytes)"
        self._full = http.HttpRefusal(503, why, -32000, (("retry-after", "1"),))
        self._under_way: dict[asyncio.Task[object], Body] = {}
        self.size = 0

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, now: float) -> Body:
        """Take note that the current task waits for a body."""
        task = asyncio.current_task()
        assert task is not None
        body = self._under_way[task] = Body(task, now, now + self._patience)
        return body

    def add(self, body: Body, size: int, now: float) -> http.HttpRefusal | None:
        """Take note of bytes that have come; returns why they are too many."""
        body.heard = now
        body.size += size
        body.deadline = min(body.deadline + size / self._rate, now + self._patience)
        self.size += size
        while self.size > self._most:
            others = (each for each in self._under_way.values() if each.size and each is not body)
            stuck = min(others, key=lambda each: each.heard, default=None)
            if stuck is None or now - stuck.heard < _STUCK:
                return self._full
            self._give_up(stuck, self._full)
        return None

    def end(self, body: Body) -> None:
        """Take note that a body is read no more."""
        self._under_way.pop(body.task, None)
        self.size -= body.size
        body.size = 0

    def tick(self, now: float) -> None:
        """Give up bodies that take too long."""
        for body in list(self._under_way.values()):
            if now - body.heard >= self._silence:
                self._give_up(body, _SILENT)
            elif now >= body.deadline:
                self._give_up(body, _SLOW)

    def stop(self, refusal: http.HttpRefusal) -> None:
        """Give up all of them."""
        for body in list(self._under_way.values()):
            self._give_up(body, refusal)

    def _give_up(self, body: Body, refusal: http.HttpRefusal) -> None:
        self.end(body)
        body.refusal = refusal
        body.task.cancel()
