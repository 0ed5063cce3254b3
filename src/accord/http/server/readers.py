"""Responses that follow a stream: each writes while there is something to write.

In between nothing runs: a silent stream costs no timer, and on the listener no task either.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final

from accord.http.rules import sse
from accord.http.server.stream import Stream

log = logging.getLogger("accord.http")

# Seconds without reading after which a client counts as stalled.
STALLED: Final = 1.0


class Reader(ABC):
    """One response that follows a stream.

    Args:
        stream: the stream.
        among: the open readers; this one is added, and removed when it is done.

    Attributes:
        is_due: whether it is time to end the response: its token has expired.
        is_admitted: whether the token is still accepted: it may have been revoked.
        on_due: how the response ends then, if not at once.
        on_end: called once, when the response has ended or its client is gone.
        is_done: whether it has ended.
        last_write: when it last wrote something.
    """

    __slots__ = (
        "_among",
        "_comment",
        "_is_ending",
        "_loop",
        "is_admitted",
        "is_done",
        "is_due",
        "last_write",
        "on_due",
        "on_end",
        "stream",
    )

    def __init__(self, stream: Stream, among: "set[Reader]") -> None:
        self.stream = stream
        self._among = among
        self._loop = asyncio.get_running_loop()
        # Servers may hold back the head until the first bytes of the body.
        self._comment = True
        self._is_ending = False
        self.is_due: Callable[[float], bool] | None = None
        self.is_admitted: Callable[[], Awaitable[bool]] | None = None
        self.on_due: Callable[[], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.is_done = False
        self.last_write = self._loop.time()
        among.add(self)

    @abstractmethod
    def wake(self) -> None:
        """Write what there is to write, soon."""

    @abstractmethod
    def follow(self) -> Awaitable[None]:
        """Keep the response open until the stream ends or the client is gone."""

    @abstractmethod
    def let_go(self) -> None:
        """Disconnect a client that does not read."""

    @property
    @abstractmethod
    def is_writing(self) -> bool:
        """Whether something waits to be written."""

    def tick(self, now: float, *, keep_alive: float, write_timeout: float) -> None:
        """Send a comment after a long silence; end a response that is due or is not read."""
        if self.is_due is not None and self.is_due(now):
            self.end_admission()
        if not self.is_writing:
            if now - self.last_write >= keep_alive:
                self._comment = True
                self.wake()
        elif now - self.last_write >= write_timeout:
            self.let_go()

    def is_stalled(self) -> bool:
        """Whether the client has not read for a while."""
        return self.is_writing and self._loop.time() - self.last_write >= STALLED

    @property
    def is_ending(self) -> bool:
        """Whether the response ends as soon as everything so far is written."""
        return self._is_ending

    def end_admission(self) -> None:
        """End a response whose token is not valid any more."""
        self.is_due = self.is_admitted = None
        if self.on_due is None:
            self.end()
        else:
            self.on_due()

    def end(self) -> None:
        """End the response, but not the stream: the client may come back."""
        self._is_ending = True
        self.wake()

    def _next(self) -> tuple[bytes, bool]:
        """Return the next chunk, and whether it is the last."""
        stream = self.stream
        if stream.reader is not self:  # another response has taken over
            return b"", True
        chunk = stream.take()
        if not chunk and self._comment:
            chunk = sse.KEEP_ALIVE
        self._comment = False
        return chunk, (stream.is_ended or self._is_ending) and stream.is_read

    def _finish(self) -> None:
        """Leave the stream."""
        self.is_done = True
        self._among.discard(self)
        self.stream.detach(self)

    def _report_end(self) -> None:
        on_end, self.on_end = self.on_end, None
        if on_end is not None:
            on_end()
