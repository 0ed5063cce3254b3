"""Messages on their way to the server, and the session that they belong to."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from accord.bindings import headers as names
from accord.types._base import RequestId

if TYPE_CHECKING:
    from accord.bindings.http_responses import ResponseMessage

# Each answer takes a connection. Servers that ask a client in parallel ask a handful of questions.
_ANSWERS_MOST: Final = 64
_ANSWER_BYTES_MOST: Final = 4 * 1024 * 1024


class Message:
    """A message on its way out.

    `id` is that of a request, `name` the method, None in replies. `answer` is set for requests of
    the wire itself, which the listener does not know of. `is_postponed` says after a failure
    that it may be worth trying again, `is_sent` that the server may have seen it.
    """

    __slots__ = (
        "answer",
        "data",
        "headers",
        "id",
        "is_postponed",
        "is_sent",
        "name",
        "number",
        "refusals",
    )

    def __init__(
        self,
        data: bytes,
        id: RequestId | None = None,
        name: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.data = data
        self.id = id
        self.name = name
        self.headers = headers
        self.refusals = 0
        self.number = 0
        self.is_postponed = False
        self.is_sent = False
        self.answer: asyncio.Future[ResponseMessage] | None = None

    @property
    def is_initialize(self) -> bool:
        """Whether it begins a conversation."""
        return self.name == "initialize"


class HttpClientSession:
    """The URL and headers of all requests of a session, from one `initialize` to the next."""

    __slots__ = ("headers", "id", "url")

    def __init__(self, url: str, id: str | None = None, version: str | None = None) -> None:
        self.url = url
        self.id = id
        self.headers = {"Accept": names.ACCEPT_BOTH, "Content-Type": "application/json"}
        if id is not None:
            self.headers["Mcp-Session-Id"] = id
        if version is not None:
            self.headers["MCP-Protocol-Version"] = version


class PendingAnswers:
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
        """Count an answer of this size."""
        self._change(1, size)

    def end(self, size: int) -> None:
        """Stop counting an answer that has arrived or was given up."""
        self._change(-1, -size)

    def _change(self, count: int, size: int) -> None:
        self._count += count
        self._bytes += size
        self.is_full = self._count >= _ANSWERS_MOST or self._bytes >= _ANSWER_BYTES_MOST
        if not self.is_full and self._room is not None:
            self._room.set()
            self._room = None

    async def room(self) -> None:
        """Wait until there is room for another answer."""
        while self.is_full:
            if self._room is None:
                self._room = asyncio.Event()
            await self._room.wait()
