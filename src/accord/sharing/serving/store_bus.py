"""Carries changes between workers that serve together, by the log that all of them follow."""

import asyncio
import logging
import threading
from collections.abc import Callable
from typing import Final

from accord.errors import StoreError
from accord.server.hub import (
    LIST_KINDS,
    ServerChange,
    Topic,
    decode_change,
    encode_change,
    list_change,
)
from accord.sharing.workers.worker import Worker

log = logging.getLogger("accord.server")

CHANGE: Final = "change"
"""The kind of the messages to all workers that carry changes."""

# Changes of lists that come within this time are one burst, and one message.
_BURST: Final = 0.02
_PAUSE: Final = 0.5


class StoreBus:
    """Carries changes to the hubs of all workers. Of those that wait, the newest of a topic stays.

    Args:
        worker: the one in this process. Made on its loop.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: dict[Topic, ServerChange] = {}
        self._is_called = False
        self._task: asyncio.Task[None] | None = None
        self._deliver: Callable[[ServerChange], None] = _ignore
        worker.on_broadcast(CHANGE, self._hear)
        worker.broadcasts.on_gap(self._hear_of_everything)

    def subscribe(self, deliver: Callable[[ServerChange], None]) -> None:
        """Call a function with each change."""
        self._deliver = deliver

    def publish(self, change: ServerChange) -> None:
        """Carry a change to all workers. From any thread."""
        with self._lock:
            self._waiting[change.topic] = change
            if self._is_called:
                return
            self._is_called = True
        try:
            self._loop.call_soon_threadsafe(self._begin, change.key is None)
        except RuntimeError:  # the loop is closed
            log.debug("a change is not published: the server has stopped")

    def _begin(self, is_list: bool) -> None:  # noqa: FBT001  # called by the loop
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._send(_BURST if is_list else 0.0))

    async def _send(self, pause: float) -> None:
        await asyncio.sleep(pause)
        while True:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
                if not waiting:
                    self._is_called = False
                    return
            failed = {
                topic: change
                for topic, change in waiting.items()
                if not await self._send_one(change)
            }
            if failed:
                with self._lock:
                    # Those that came meanwhile are newer.
                    self._waiting = {**failed, **self._waiting}
                await asyncio.sleep(_PAUSE)

    async def _send_one(self, change: ServerChange) -> bool:
        try:
            await self._worker.publish(CHANGE, encode_change(change))
        except StoreError as error:
            self._worker.note_silence(error)
            return False
        except Exception:  # the others have to be published all the same
            log.exception("a change cannot be published: %s", change.name)
        return True

    async def close(self) -> None:
        """Send what waits, if the store answers."""
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=_PAUSE)
            self._task.cancel()

    def _hear(self, body: bytes) -> None:
        self._deliver(decode_change(body))

    def _hear_of_everything(self) -> None:
        """Report every list as changed: a false alarm is harmless, a change that is missed not."""
        for kind in LIST_KINDS:
            self._deliver(list_change(kind))


def _ignore(change: ServerChange) -> None:
    """Hear of nothing before there is a hub."""
