"""How many answers to the server's requests a client sends at the same time."""

import asyncio
from typing import Final

__all__ = ["Answers"]

# Each answer takes a connection. Servers that ask a client in parallel ask a handful of questions.
_MOST: Final = 64
_MOST_BYTES: Final = 4 * 1024 * 1024


class Answers:
    """Counts the answers that are on their way, and lets readers of streams wait for room.

    `is_full` is an attribute, because readers look at it after every message.
    """

    __slots__ = ("_bytes", "_count", "_room", "is_full")

    def __init__(self) -> None:
        self.is_full = False
        self._count = 0
        self._bytes = 0
        self._room: asyncio.Event | None = None

    def begin(self, size: int) -> None:
        """Count an answer of so many bytes."""
        self._change(1, size)

    def end(self, size: int) -> None:
        """Stop counting an answer: it arrived, or never will."""
        self._change(-1, -size)

    def _change(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        self.is_full = self._count >= _MOST or self._bytes >= _MOST_BYTES
        if not self.is_full and self._room is not None:
            self._room.set()
            self._room = None

    async def room(self) -> None:
        """Wait until there is room for another answer."""
        while self.is_full:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()
