"""What follows bells in this process."""

import asyncio
from collections.abc import Iterable

from accord.sharing.backends.backend import OnRing

__all__ = ["Followers"]


class Followers:
    """Callbacks by topic, called on the running loop. Rings of one turn of the loop are joined."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[OnRing, None]] = {}
        self._due: dict[OnRing, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def add(self, topic: str, on_ring: OnRing) -> None:
        """Call something whenever a topic rings."""
        self._by_topic.setdefault(topic, {})[on_ring] = None

    def discard(self, topic: str, on_ring: OnRing) -> bool:
        """Call it no more; return whether it was the last one of its topic."""
        callbacks = self._by_topic.get(topic)
        if callbacks is None or on_ring not in callbacks:
            return False
        del callbacks[on_ring]
        if not callbacks:
            del self._by_topic[topic]
        if on_ring in self._due and not any(on_ring in each for each in self._by_topic.values()):
            del self._due[on_ring]
        return not callbacks

    def ring(self, topics: Iterable[str]) -> None:
        """Call what follows these topics, in the next turn of the running loop."""
        for topic in topics:
            callbacks = self._by_topic.get(topic)
            if callbacks:
                self._due.update(callbacks)
        self._schedule()

    def ring_all(self) -> None:
        """Call everything once, since rings may have got lost."""
        self.ring(tuple(self._by_topic))

    def _schedule(self) -> None:
        loop = asyncio.get_running_loop()
        # A loop that ended before it could call them leaves them to the next one.
        if self._due and self._loop is not loop:
            self._loop = loop
            loop.call_soon(self._call, loop)

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = None
        # One may be unfollowed by another that is called before it.
        for _ in range(len(self._due)):
            on_ring = next(iter(self._due), None)
            if on_ring is None:
                return
            del self._due[on_ring]
            try:
                on_ring()
            except Exception as error:
                loop.call_exception_handler(
                    {"message": f"{on_ring!r} failed, which follows a bell", "exception": error}
                )
