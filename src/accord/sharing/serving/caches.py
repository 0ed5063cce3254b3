"""What workers that serve together tell each other of results that are out of date.

The changes of a server that clients connect to reach its caches on all workers by its hub. Those of
a mounted server stay in its process, so they are sent here, as is `clear`. A cache is known by the
name of its server: one that forgets too much does no harm.
"""

import asyncio
import logging
import weakref
from typing import TYPE_CHECKING, Final

import msgspec

from accord.errors import StoreError
from accord.server.hub import (
    LIST_KINDS,
    UPDATED,
    ServerChange,
    decode_change,
    encode_change,
    list_topic,
)

if TYPE_CHECKING:
    from accord.middleware.caching import CacheMiddleware
    from accord.server.core import ServerCore
    from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.middleware")

_KIND: Final = "cache"
_TOPICS: Final = (*map(list_topic, LIST_KINDS), (UPDATED, None))
# In seconds, when a message is sent again that the store did not take.
_PAUSES: Final = (0.5, 2.0, 10.0, 30.0, 0.0)

_of_workers: Final["weakref.WeakKeyDictionary[Worker, SharedCaches]"] = weakref.WeakKeyDictionary()


def join_caches(cache: "CacheMiddleware", server: "ServerCore", worker: "Worker") -> "SharedCaches":
    """Let a cache of a server forget what the same cache of another worker forgets."""
    shared = _of_workers.get(worker)
    if shared is None:
        shared = _of_workers[worker] = SharedCaches(worker)
    shared.caches.add(cache)
    if server.worker is None:
        shared.relay(server)
    return shared


class SharedCaches:
    """The caches of one worker.

    Args:
        worker: the worker, on the running loop.

    Attributes:
        caches: all that hear of the others.
    """

    def __init__(self, worker: "Worker") -> None:
        self._worker = weakref.ref(worker)
        self._loop = asyncio.get_running_loop()
        self.caches: weakref.WeakSet[CacheMiddleware] = weakref.WeakSet()
        self._relays: weakref.WeakKeyDictionary[ServerCore, _Relay] = weakref.WeakKeyDictionary()
        self._sending: set[asyncio.Task[None]] = set()
        worker.on_broadcast(_KIND, self._hear)
        worker.broadcasts.on_gap(self._forget_everything)

    def relay(self, server: "ServerCore") -> None:
        """Send the changes of a mounted server to other workers."""
        if server not in self._relays:
            relay = self._relays[server] = _Relay(self, server.name)
            server.hub.listen(relay, _TOPICS)

    def publish(self, server: str, change: ServerChange | None) -> None:
        """Let the caches of a server forget what has changed, on all workers. From any thread.

        Args:
            server: the name of the server.
            change: what has changed; None for everything.
        """
        encoded = None if change is None else encode_change(change)
        message = msgspec.msgpack.encode((server, encoded))
        try:
            self._loop.call_soon_threadsafe(self._begin, message)
        except RuntimeError:
            log.debug("other workers do not hear of a change: the server has stopped")

    def _begin(self, message: bytes) -> None:
        task = self._loop.create_task(self._send(message))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, message: bytes) -> None:
        for pause in _PAUSES:
            worker = self._worker()
            if worker is None:
                return
            try:
                await worker.publish(_KIND, message)
            except StoreError as error:
                why = error
            else:
                return
            await asyncio.sleep(pause)
        log.warning("other workers keep results that are out of date: %s", why)

    def _hear(self, message: bytes) -> None:
        server, encoded = msgspec.msgpack.decode(message, type=tuple[str, bytes | None])
        change = None if encoded is None else decode_change(encoded)
        for cache in [*self.caches]:
            if cache.serves(server):
                if change is None:
                    cache.forget_all()
                else:
                    cache.hear(change)

    def _forget_everything(self) -> None:
        """Forget all results: some message may have been missed."""
        for cache in [*self.caches]:
            cache.forget_all()


class _Relay:
    """Hears of the changes of a mounted server."""

    def __init__(self, shared: SharedCaches, server: str) -> None:
        self._shared = shared
        self._server = server

    def hear(self, change: ServerChange) -> None:
        self._shared.publish(self._server, change)
