"""What follows topics in this process."""

import asyncio
from collections.abc import Iterable

from accord.sharing.backends.backend import OnNotify

__all__ = ["Followers"]


class Followers:
    """Callbacks by topic, called on the running loop. Notifications of one turn are joined."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[OnNotify, None]] = {}
        self._due: dict[OnNotify, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def __contains__(self, topic: object) -> bool:
        return topic in self._by_topic

    def add(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified."""
        self._by_topic.setdefault(topic, {})[on_notify] = None

    def discard(self, topic: str, on_notify: OnNotify) -> bool:
        """Call it no more; return whether it was the last one of its topic."""
        callbacks = self._by_topic.get(topic)
        if callbacks is None or on_notify not in callbacks:
            return False
        del callbacks[on_notify]
        if not callbacks:
            del self._by_topic[topic]
        if on_notify in self._due and not any(
            on_notify in each for each in self._by_topic.values()
        ):
            del self._due[on_notify]
        return not callbacks

    def notify(self, topics: Iterable[str]) -> None:
        """Call what follows these topics, in the next turn of the running loop."""
        for topic in topics:
            callbacks = self._by_topic.get(topic)
            if callbacks:
                self._due.update(callbacks)
        self._schedule()

    def notify_all(self) -> None:
        """Call everything once, since notifications may have got lost."""
        self.notify(tuple(self._by_topic))

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
            on_notify = next(iter(self._due), None)
            if on_notify is None:
                return
            del self._due[on_notify]
            try:
                on_notify()
            except Exception as error:
                loop.call_exception_handler(
                    {"message": f"{on_notify!r} failed, which follows a topic", "exception": error}
                )
