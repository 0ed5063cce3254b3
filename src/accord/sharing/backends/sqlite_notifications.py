"""Notifications between the processes that share a SQLite file.

A process that follows topics has a Unix datagram socket, and rows in the file that say so. A
notification is one datagram to each of those sockets. Where that does not work, on Windows or where
processes have separate temporary folders, a process looks into a table, twenty times a second.
"""

import asyncio
import errno
import os
import secrets
import socket
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

__all__ = ["NotificationSocket", "Notifications", "Outgoing", "open_notification_socket"]

# Addresses of Unix sockets may have 104 bytes on BSD systems, 108 elsewhere.
_ADDRESS_BYTES: Final = 100
# Older versions delete leftovers with this name, too.
_PREFIX: Final = "accord-bell-"
# A datagram is far smaller than the smallest buffer, so that it is taken whole or not at all.
_DATAGRAM_BYTES: Final = 8192
_DATAGRAMS: Final = 64
# Seconds for which a process that does not read its socket is sent a notification again.
_PATIENCE: Final = 1.0
# How often a process says that it is there, and after how much silence it counts as gone. One that
# was only stopped registers again when it goes on.
_REFRESH: Final = 5.0
_SILENCE: Final = 60.0
# How many old sockets a process looks at when it starts.
_LEFTOVERS: Final = 200
# Names have no control characters.
_SEPARATOR: Final = "\n"

Outgoing = dict[tuple[int, str], dict[str, None]]
"""The topics to send, by the id and address of a listener."""


class NotificationSocket:
    """The socket on which a process hears notifications; belongs to the event loop."""

    def __init__(
        self,
        bound: socket.socket,
        loop: asyncio.AbstractEventLoop,
        hear: Callable[[Iterable[str]], None],
    ) -> None:
        self.address: str = bound.getsockname()
        self._socket = bound
        self._loop = loop
        self._hear = hear
        self._pid = os.getpid()
        loop.add_reader(bound.fileno(), self._read)
        self._remove = weakref.finalize(self, _remove_socket, self.address, self._pid)

    def close(self) -> None:
        """Hear nothing more."""
        # A forked process shares what the loop of its parent watches.
        if self._pid == os.getpid() and not self._loop.is_closed():
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._remove()

    def _read(self) -> None:
        topics: dict[str, None] = {}
        for _ in range(_DATAGRAMS):
            try:
                data = self._socket.recv(_DATAGRAM_BYTES)
            except OSError:
                break
            topics.update(dict.fromkeys(data.decode(errors="replace").split(_SEPARATOR)))
        self._hear(topics)


def open_notification_socket(
    loop: asyncio.AbstractEventLoop, hear: Callable[[Iterable[str]], None]
) -> NotificationSocket | None:
    """Make a socket in a private folder; None where that does not work."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    for parent in (tempfile.gettempdir(), "/tmp"):  # noqa: S108, mkdtemp makes a private folder
        # The name of the folder and of the socket have 24 characters.
        if len(os.fsencode(parent)) + 24 > _ADDRESS_BYTES:
            continue
        _remove_leftovers(parent)
        try:
            folder = tempfile.mkdtemp(prefix=_PREFIX, dir=parent)
        except OSError:
            continue
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            bound.setblocking(False)
            bound.bind(os.path.join(folder, "s"))
            return NotificationSocket(bound, loop, hear)
        except (OSError, NotImplementedError):  # the latter by loops that watch no sockets
            bound.close()
            _remove_socket(os.path.join(folder, "s"), os.getpid())
    return None


def _remove_socket(address: str, pid: int) -> None:
    """Delete a socket with its folder, unless a forked process does so."""
    folder = os.path.dirname(address)
    if pid != os.getpid() or not os.path.basename(folder).startswith(_PREFIX):
        return
    with suppress(OSError):
        os.unlink(address)
    with suppress(OSError):
        os.rmdir(folder)


class Notifications:
    """What a process follows, and how it notifies others; belongs to the thread of the file.

    Args:
        prefix: what the names in the file begin with.
    """

    def __init__(self, prefix: str) -> None:
        self.id = secrets.randbits(62)
        self.address = ""
        self.topics: set[str] = set()
        self.is_polling = False
        self.prefix = prefix
        self._socket: socket.socket | None = None
        self._refresh_at = 0.0
        self._number = 0  # of the newest notification that was looked at
        # Topics that a full buffer did not take, and until when to send them again.
        self._unsent: dict[tuple[int, str], tuple[float, dict[str, None]]] = {}
        # What sending showed: listeners to forget, and those to be reached by the table alone.
        self._dead: dict[int, str] = {}
        self._unreachable: Outgoing = {}

    # -- following

    def follow(self, db: sqlite3.Connection, topic: str, address: str) -> None:
        """Follow a topic, in a transaction; without an address by polling."""
        if not self.topics:
            self.address = address
            self._start_polling(db, is_polling=not address)
        self.topics.add(topic)
        self._register(db, [topic])

    def unfollow(self, db: sqlite3.Connection, topic: str) -> None:
        """Follow it no more, in a transaction."""
        self.topics.discard(topic)
        db.execute(
            "DELETE FROM follows WHERE topic = ? AND listener = ?", (self.prefix + topic, self.id)
        )
        if not self.topics:
            db.execute("DELETE FROM listeners WHERE id = ?", (self.id,))

    def leave(self, db: sqlite3.Connection) -> None:
        """Follow nothing more, in a transaction."""
        self.topics.clear()
        db.execute("DELETE FROM follows WHERE listener = ?", (self.id,))
        db.execute("DELETE FROM listeners WHERE id = ?", (self.id,))

    def close(self) -> None:
        """Send nothing more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- notifying

    def find(self, db: sqlite3.Connection, topics: Iterable[str], outgoing: Outgoing) -> list[str]:
        """Find the sockets of what follows topics in other processes.

        Returns:
            The topics that are followed by polling.
        """
        polled = []
        for topic in topics:
            rows = db.execute(
                "SELECT id, address FROM follows JOIN listeners ON id = listener WHERE topic = ?",
                (self.prefix + topic,),
            ).fetchall()
            for id, address in rows:
                if id == self.id:
                    continue
                if address:
                    outgoing.setdefault((id, address), {})[topic] = None
                else:
                    polled.append(topic)
        return polled

    def leave_for_polling(self, db: sqlite3.Connection, topics: Iterable[str], now: float) -> None:
        """Notify those that poll, in a transaction."""
        db.executemany(
            "INSERT INTO rings (topic, at) VALUES (?, ?)",
            [(self.prefix + topic, now) for topic in dict.fromkeys(topics)],
        )

    def send(self, outgoing: Outgoing) -> None:
        """Notify other processes; what a full buffer does not take is sent again later."""
        for listener, topics in outgoing.items():
            until, unsent = self._unsent.pop(listener, (time.monotonic() + _PATIENCE, {}))
            left = self._send(listener, {**unsent, **topics})
            if left:
                self._unsent[listener] = (until, left)

    def send_again(self) -> bool:
        """Send what a full buffer did not take; return whether there is still some."""
        if not self._unsent:
            return False
        now = time.monotonic()
        waiting, self._unsent = self._unsent, {}
        for listener, (until, topics) in waiting.items():
            left = self._send(listener, topics)
            if left and now < until:
                self._unsent[listener] = (until, left)
        return bool(self._unsent)

    def _send(self, listener: tuple[int, str], topics: dict[str, None]) -> dict[str, None]:
        """Send topics to a socket; return those that it did not take."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        id, address = listener
        left = list(topics)
        try:
            while left:
                count, data = _join(left)
                self._socket.sendto(data, address)
                del left[:count]
        except BlockingIOError:
            return dict.fromkeys(left)
        except ConnectionRefusedError:
            self._dead[id] = address
        except OSError as error:
            if error.errno == errno.ENOBUFS:  # how BSD systems say that it is full
                return dict.fromkeys(left)
            # Its folder is gone, or not visible here.
            self._unreachable.setdefault(listener, {}).update(dict.fromkeys(left))
        return {}

    # -- from time to time

    def is_due(self, db: sqlite3.Connection, now: float) -> bool:
        """Return whether `refresh` has something to do; takes no lock."""
        if self._dead or self._unreachable or (self.topics and now >= self._refresh_at):
            return True
        silent = now - _SILENCE
        (found,) = db.execute(
            "SELECT EXISTS (SELECT 1 FROM listeners WHERE seen < ?)"
            " OR EXISTS (SELECT 1 FROM rings WHERE at < ?)",
            (silent, silent),
        ).fetchone()
        return bool(found)

    def refresh(self, db: sqlite3.Connection, now: float) -> bool:
        """Say that this process is there, and forget those that are not, in a transaction.

        Returns:
            Whether notifications may have been missed.
        """
        self._forget_dead(db, now)
        if not self.topics or now < self._refresh_at:
            return False
        self._refresh_at = now + _REFRESH
        row = db.execute("SELECT address FROM listeners WHERE id = ?", (self.id,)).fetchone()
        if row is not None and row[0] == self.address:
            db.execute("UPDATE listeners SET seen = ? WHERE id = ?", (now, self.id))
            return False
        if row is not None:  # another process could not reach the socket
            self.address = ""
            self._start_polling(db, is_polling=True)
        self._register(db, self.topics)
        return True

    def restart(self) -> None:
        """Register again at once: the file is another one, or was away."""
        self._refresh_at = 0.0
        self._number = 0

    def poll(self, db: sqlite3.Connection) -> list[str]:
        """Return the topics that were notified since the last time."""
        rows = db.execute(
            "SELECT number, topic FROM rings WHERE number > ? ORDER BY number", (self._number,)
        ).fetchall()
        if rows:
            self._number = rows[-1][0]
        start = len(self.prefix)
        return [topic[start:] for _, topic in rows if topic.startswith(self.prefix)]

    def _register(self, db: sqlite3.Connection, topics: Iterable[str]) -> None:
        db.execute(
            "INSERT OR REPLACE INTO listeners VALUES (?, ?, ?)",
            (self.id, self.address, time.time()),
        )
        db.executemany(
            "INSERT OR IGNORE INTO follows VALUES (?, ?)",
            [(self.prefix + topic, self.id) for topic in topics],
        )

    def _start_polling(self, db: sqlite3.Connection, *, is_polling: bool) -> None:
        self.is_polling = is_polling
        (newest,) = db.execute("SELECT COALESCE(MAX(number), 0) FROM rings").fetchone()
        self._number = newest

    def _forget_dead(self, db: sqlite3.Connection, now: float) -> None:
        silent = db.execute(
            "SELECT id, address FROM listeners WHERE seen < ?", (now - _SILENCE,)
        ).fetchall()
        dead, self._dead = {**dict(silent), **self._dead}, {}
        for id, address in dead.items():
            db.execute("DELETE FROM follows WHERE listener = ?", (id,))
            db.execute("DELETE FROM listeners WHERE id = ?", (id,))
            _remove_dead_socket(address)
        unreachable, self._unreachable = self._unreachable, {}
        for (id, address), topics in unreachable.items():
            db.execute(
                "UPDATE listeners SET address = '' WHERE id = ? AND address = ?", (id, address)
            )
            self.leave_for_polling(db, topics, now)
        db.execute("DELETE FROM rings WHERE at < ?", (now - _SILENCE,))


def _join(topics: list[str]) -> tuple[int, bytes]:
    """Return how many of the topics fit into a datagram, and the datagram."""
    size = 0
    for count, topic in enumerate(topics):
        size += len(topic.encode()) + 1
        if size > _DATAGRAM_BYTES and count:
            break
    else:
        count = len(topics)
    return count, _SEPARATOR.join(topics[:count]).encode()


def _remove_leftovers(parent: str) -> None:
    """Delete sockets of processes that were killed, and whose file nothing uses any more."""
    with suppress(OSError), os.scandir(parent) as entries:
        found = [entry.path for entry in entries if entry.name.startswith(_PREFIX)]
        for folder in found[:_LEFTOVERS]:
            _remove_dead_socket(os.path.join(folder, "s"))


def _remove_dead_socket(address: str) -> None:
    """Delete the socket of a process that is gone; one that still has a process stays."""
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(address)
        except ConnectionRefusedError:
            _remove_socket(address, os.getpid())
        except OSError:
            return
