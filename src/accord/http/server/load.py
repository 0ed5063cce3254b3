"""Accepts connections from a socket that several processes accept from.

The acceptors of event loops take all connections that wait: after a burst, one process would have
them all, for as long as clients keep them open. So one connection is accepted in a turn of the
loop, and a process that has more connections than another one hesitates for a moment.
"""

import asyncio
import errno
import logging
import mmap
from collections.abc import Callable
from contextlib import suppress
from socket import socket
from typing import Any, Final

from accord.runtime.eager import start

log = logging.getLogger("accord.http")

# What a system is out of when it cannot open another connection.
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
# Seconds until the next attempt then.
_SHORTAGE_PAUSE: Final = 1.0
# Seconds in which a process with fewer connections can accept one before this does.
_HESITATION: Final = 0.004
# So many connections at most are accepted without hesitating while the other process is stuck.
_BOLDEST: Final = 64


class LoadBoard:
    """How many connections each of several processes has, in memory that all of them share.

    Args:
        places: for how many processes.
    """

    def __init__(self, places: int) -> None:
        self._counts = memoryview(mmap.mmap(-1, 4 * places)).cast("I")

    def find_place(self, taken: set[int]) -> int:
        """Return a place that is free."""
        return next(each for each in range(len(self._counts)) if each not in taken)

    def write(self, place: int, count: int) -> None:
        """Note how many connections a process has."""
        self._counts[place] = count + 1

    def clear(self, place: int) -> None:
        """Note that a process accepts no connections."""
        self._counts[place] = 0

    def is_above_others(self, place: int) -> bool:
        """Whether a process has more connections than another one that accepts some."""
        own = self._counts[place]
        return any(0 < each < own for each in self._counts)


class SharedLoad:
    """The place of one process on the board."""

    def __init__(self, board: LoadBoard, place: int) -> None:
        self._board = board
        self._place = place
        self._open = self._opening = 0

    def note_open(self, count: int) -> None:
        """Note how many connections are open."""
        self._open = count
        self._board.write(self._place, count + self._opening)

    def note_opening(self, change: int) -> None:
        """Note that a connection was accepted, or that it counts as open from now on."""
        self._opening += change
        self._board.write(self._place, self._open + self._opening)

    @property
    def is_above_others(self) -> bool:
        """Whether another process should accept the next connection."""
        return self._board.is_above_others(self._place)

    def leave(self) -> None:
        """Note that no connections are accepted here any more."""
        self._board.clear(self._place)


class SharedSocket:
    """A listening socket that other processes accept from, too.

    Args:
        listening: the socket.
        make: makes the protocol of a connection.
        load: how many connections this and the other processes have.
    """

    def __init__(
        self, listening: socket, make: Callable[[], asyncio.Protocol], load: SharedLoad
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._make = make
        self._load = load
        self._later: asyncio.TimerHandle | None = None
        # How many connections may be accepted without hesitating, after that was in vain: one more
        # each time, so that a process that is stuck does not slow down the others.
        self._boldness = self._bold = 0
        self._is_open = True
        self._opening: set[asyncio.Task[Any]] = set()
        listening.setblocking(False)
        self._resume()

    def close(self) -> None:
        """Accept no more connections; the socket stays open in the other processes."""
        if not self._is_open:
            return
        self._is_open = False
        if self._later is not None:
            self._later.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()

    def _resume(self) -> None:
        self._later = None
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def _pause(self, seconds: float, then: Callable[[], None]) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._later = self._loop.call_later(seconds, then)

    def _accept(self) -> None:
        """Accept a connection, or let others try first."""
        if not self._load.is_above_others:
            self._boldness = self._bold = 0
        elif self._bold > 0:
            self._bold -= 1
        else:
            self._pause(_HESITATION, self._accept_late)
            return
        self._accept_now()

    def _accept_late(self) -> None:
        self._resume()
        is_vain = self._accept_now()
        self._boldness = min(self._boldness + 1, _BOLDEST) if is_vain else 0
        self._bold = self._boldness

    def _accept_now(self) -> bool:
        """Accept a connection, if one waits; return whether one did."""
        try:
            accepted, _ = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False  # another process was quicker, or the client has left
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            log.warning("no connection can be accepted: %s", error.strerror)
            self._pause(_SHORTAGE_PAUSE, self._resume)
            return False
        accepted.setblocking(False)
        self._load.note_opening(1)
        task = start(self._loop, self._open(accepted), "http connection")
        if not task.done():
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
        return True

    async def _open(self, accepted: socket) -> None:
        try:
            with suppress(OSError):  # the client has left already
                await self._loop.connect_accepted_socket(self._make, accepted)
        finally:
            self._load.note_opening(-1)
