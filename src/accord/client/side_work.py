"""What a connection does beside its requests: tasks that end with it, readers of notices, a cache.

Loaded with every client; what it holds is loaded when it is first needed.
"""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from accord.runtime.eager import start

if TYPE_CHECKING:
    from accord.client.cache import ResultCache
    from accord.client.streams import NoticeReader
    from accord.client.subscribing import CallbackStream
    from accord.types import SubscriptionFilter

Result = TypeVar("Result")


class SideWork:
    """The tasks, readers and kept results of one connection.

    Attributes:
        tasks: those that end with the connection at the latest.
        readers: the readers of notices that belong to no request, with what they want to hear of.
        watched: how many of them listen to a resource, by its URI.
        stream: the stream of notices for the callbacks, where there are no sessions.
        cache: fresh results, once one was fetched that may be kept.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.tasks: set[asyncio.Task[Any]] = set()
        self.readers: list[tuple[SubscriptionFilter, NoticeReader]] = []
        self.watched: Counter[str] = Counter()
        self.stream: CallbackStream | None = None
        self.cache: ResultCache | None = None

    def spawn(self, work: Coroutine[Any, None, Result], name: str) -> asyncio.Task[Result]:
        """Run work that ends with the connection at the latest; it begins at once."""
        task = start(self._loop, work, name)
        if not task.done():
            self.tasks.add(task)
            task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # raised to its caller, which may be gone

    def renew(self) -> None:
        """Let readers know that notices of the last session may be lost."""
        for _, reader in list(self.readers):
            reader.renew("the session ended and a new one was begun")
