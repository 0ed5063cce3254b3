"""Shared state in a file of SQLite, for the processes of one machine."""

import asyncio
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal
from urllib.parse import quote
from warnings import warn

from accord.errors import ConfigurationError, StoreUnavailable
from accord.sharing.backends import sqlite_work as work
from accord.sharing.backends.backend import (
    Allowance,
    LogPage,
    NotifierByOldName,
    OnNotify,
    StoredRecord,
    takes_ring,
)
from accord.sharing.backends.engine import Followers, check_items
from accord.sharing.backends.sqlite_notifications import (
    Notifications,
    NotificationSocket,
    open_notification_socket,
)
from accord.sharing.backends.sqlite_thread import SqliteThread, StoreBatch

__all__ = ["SqliteBackend"]

# Names in the file begin with it and a colon.
_NAMESPACE: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class SqliteBackend(NotifierByOldName):
    """Keeps what workers share in a file, for all processes of one machine.

    The file is used in a thread of its own, and is made readable for its user alone. It has to be
    on a local disk. Several servers of one process may share an object; each opens and closes it.

    Args:
        path: the file; it is made if it does not exist.
        namespace: deployments with different ones share a file without seeing each other.
        timeout: seconds to wait while another process holds the lock of the file.
        notifications: how processes wake each other. "sockets": with sockets in the temporary
            folder, and where that does not work as with "polling": with a look into the file
            twenty times a second.
        bells: the name of `notifications` until 0.4.
    """

    is_shared = True
    is_remote = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        namespace: str = "accord",
        timeout: float = 5.0,
        notifications: Literal["sockets", "polling"] = "sockets",
        bells: Literal["sockets", "polling"] | None = None,
    ) -> None:
        if bells is not None:
            notifications = bells
            old = "SqliteBackend(bells=...) will go in 0.4: write notifications=..."
            warn(old, DeprecationWarning, stacklevel=2)
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"invalid namespace {namespace!r}: it has 1 to 100 letters, digits, '.', '_', '-'"
            )
        self._path = os.path.abspath(os.fspath(path))
        # As `open_backend` takes it: four slashes before an absolute path.
        self.url = f"sqlite:///{quote(self._path)}"
        self.namespace = namespace
        self._prefix = f"{namespace}:"
        self._timeout = timeout
        self._notifications = notifications
        self._thread: SqliteThread | None = None
        self._opened = 0
        self._followers = Followers()
        self._registered: set[str] = set()
        self._socket: NotificationSocket | None = None

    async def open(self) -> None:
        """Open the file, on the running loop; each call needs a `close`."""
        thread = self._thread
        if thread is None or not thread.is_alive or thread.loop.is_closed():
            self._reset()
            thread = self._thread = SqliteThread(
                self._path,
                timeout=self._timeout,
                notifications=Notifications(self._prefix),
                hear=self._hear,
            )
        elif thread.loop is not asyncio.get_running_loop():
            raise StoreUnavailable(f"{self._path} is open on another event loop")
        self._opened += 1
        try:
            await self._read(lambda _: None)  # connects
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file, when everything that opened it has closed it."""
        self._opened = max(0, self._opened - 1)
        thread = self._thread
        if thread is not None and not self._opened:
            self._reset()
            await thread.stop()

    async def now(self) -> float:
        """Return the time of the machine."""
        return time.time()

    # -- records

    async def get(self, key: str) -> StoredRecord | None:
        """Return a record; None if it does not exist, or has expired."""
        found: StoredRecord | None = await self._read(lambda batch: work.find_record(batch, key))
        return found

    async def put(self, key: str, value: bytes, *, ttl: float, expect: int | None = None) -> int:
        """Write a record; return its version."""
        version: int = await self._write(
            lambda batch: work.put_record(batch, key, value, ttl, expect)
        )
        return version

    async def delete(self, key: str, *, expect: int | None = None) -> bool:
        """Delete a record; return whether there was one."""
        return bool(await self._write(lambda batch: work.delete_record(batch, key, expect)))

    async def touch(self, key: str, *, ttl: float) -> bool:
        """Let a record live for this long from now on; return whether there is one."""
        return bool(await self._write(lambda batch: work.touch_record(batch, key, ttl)))

    # -- indexes

    async def add(self, index: str, members: Iterable[str], *, ttl: float) -> None:
        """Add names to an index; those that are in it live for this long from now on."""
        names = list(members)
        if names:
            await self._write(lambda batch: work.add_members(batch, index, names, ttl))

    async def remove(self, index: str, members: Iterable[str]) -> int:
        """Remove names from an index; return how many were in it."""
        names = list(members)
        if not names:
            return 0
        return int(await self._write(lambda batch: work.remove_members(batch, index, names)))

    async def members(self, index: str, *, limit: int = 1000) -> list[str]:
        """Return names of an index that have not expired, in any order."""
        names: list[str] = await self._read(lambda batch: work.find_members(batch, index, limit))
        return names

    async def count(self, index: str) -> int:
        """Return how many names of an index have not expired."""
        return int(await self._read(lambda batch: work.count_members(batch, index)))

    # -- logs

    @takes_ring
    async def append(
        self,
        log: str,
        items: Sequence[bytes],
        *,
        ttl: float,
        fence: int | None = None,
        after: int | None = None,
        final: bool = False,
        keep: int = 0,
        notify: Sequence[str] = (),
    ) -> int:
        """Add entries to a log, all of them or none; return the number of the last one."""
        check_items(items, final=final)
        new = work.Addition(log, tuple(items), ttl, fence, after, final, keep, notify)
        return int(await self._write(lambda batch: work.append_entries(batch, new)))

    async def read(self, log: str, *, after: int = 0, limit: int = 1000) -> LogPage | None:
        """Return the entries after a number; None if there is no such log, or it has expired."""
        page: LogPage | None = await self._read(
            lambda batch: work.read_log(batch, log, after, limit)
        )
        return page

    async def seize(self, log: str, *, fence: int) -> bool:
        """Take an open log over from the holder of a fence: it becomes higher by one."""
        return bool(await self._write(lambda batch: work.seize_log(batch, log, fence)))

    async def extend(self, log: str, *, ttl: float) -> bool:
        """Let a log live for this long from now on; return whether there is one."""
        return bool(await self._write(lambda batch: work.extend_log(batch, log, ttl)))

    async def drop(self, log: str) -> None:
        """Delete a log with its entries."""
        await self._write(lambda batch: work.drop_log(batch, log))

    # -- notifications

    async def notify(self, *topics: str) -> None:
        """Call what follows these topics, in every process."""
        if not await self._read(lambda batch: batch.notify(topics)):
            await self._write(lambda batch: batch.notify(topics))

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified, from when this returns until `unfollow`."""
        thread = self._get_thread()
        self._followers.add(topic, on_notify)
        if topic in self._registered:
            return
        if self._socket is None and self._notifications == "sockets":
            self._socket = open_notification_socket(thread.loop, self._followers.notify)
        address = "" if self._socket is None else self._socket.address
        try:
            await self._write(lambda batch: batch.notifications.follow(batch.db, topic, address))
        except BaseException:
            if self._followers.discard(topic, on_notify) and thread.is_alive:
                # It may be registered or not.
                future = thread.submit(
                    lambda batch: batch.notifications.unfollow(batch.db, topic), is_write=True
                )
                future.add_done_callback(_ignore)
            raise
        if topic in self._followers:
            self._registered.add(topic)

    async def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        if self._followers.discard(topic, on_notify):
            self._registered.discard(topic)
            await self._write(lambda batch: batch.notifications.unfollow(batch.db, topic))

    # -- buckets

    async def take(self, bucket: str, *, cost: float, rate: float, burst: float) -> Allowance:
        """Take from a bucket that fills by itself; all of the cost, or nothing."""
        allowance: Allowance = await self._write(
            lambda batch: work.take_from_bucket(batch, bucket, cost, rate, burst)
        )
        return allowance

    # -- operation

    async def describe(self) -> dict[str, str | int | float]:
        """Return the version of SQLite, the size of the file, and how much it holds."""
        facts: dict[str, str | int | float] = await self._read(
            lambda batch: work.describe_file(batch, self._path)
        )
        return facts

    # -- the thread

    def _get_thread(self) -> SqliteThread:
        if self._thread is None:
            raise StoreUnavailable(f"{self._path} is not open")
        return self._thread

    def _read(self, function: Callable[[StoreBatch], Any]) -> "asyncio.Future[Any]":
        return self._get_thread().submit(function, is_write=False)

    def _write(self, function: Callable[[StoreBatch], Any]) -> "asyncio.Future[Any]":
        return self._get_thread().submit(function, is_write=True)

    def _hear(self, topics: Iterable[str] | None) -> None:
        if topics is None:
            self._followers.notify_all()
        else:
            self._followers.notify(topics)

    def _reset(self) -> None:
        """Forget the thread, and what is followed."""
        self._thread = None
        self._opened = 0
        self._followers = Followers()
        self._registered.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _ignore(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
