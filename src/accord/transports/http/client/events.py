"""One stream of events as a client reads it, over several responses if need be."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from accord.bindings.sse import Decoder, Event
from accord.transports.http.client.messages import PendingAnswers
from accord.transports.http.client.sender import SenderResponse

# How far back a server may repeat events when a stream is resumed; ids are usually short.
_REMEMBERED: Final = 1_000
_REMEMBERED_CHARACTERS: Final = 64 * 1024
# How many messages are delivered before other tasks get their turn.
_AT_ONCE: Final = 32


class EventReader:
    """Reads messages from event streams, each once, also when a later response repeats some.

    Reading stops while too many answers to the server are on their way: a server that does not
    take answers cannot have more questions read. `place` is the data of the last `endpoint` event,
    if there was one.
    """

    def __init__(
        self, deliver: Callable[[bytes], None], limit: int, answers: PendingAnswers
    ) -> None:
        self.place: bytes | None = None
        self._deliver = deliver
        self._answers = answers
        self._decoder = Decoder(limit)
        self._messages = 0
        self._seen: deque[str] = deque()
        self._seen_size = 0
        self._known: frozenset[str] = frozenset()

    @property
    def last_id(self) -> str | None:
        """The last complete event, after which the stream can be resumed."""
        return self._decoder.last_id or None

    @property
    def retry(self) -> float | None:
        """Seconds that the server asks to wait before the stream is resumed."""
        milliseconds = self._decoder.retry
        return None if milliseconds is None else milliseconds / 1_000

    @property
    def progress(self) -> tuple[int, str | None]:
        """A value that changes with every event."""
        return self._messages, self._decoder.last_id

    def begin(self) -> None:
        """Read another response from its beginning: an incomplete event is sent again."""
        self._decoder.restart()
        self._known = frozenset(self._seen)

    async def read(self, response: SenderResponse) -> bool:
        """Read the next bytes; false at the end of the response.

        Raises:
            Cut: the connection broke.
            EventTooLong: an event or its id outgrew the limit.
        """
        answers = self._answers
        chunk = await response.chunk()
        for number, event in enumerate(self._decoder.feed(chunk), 1):
            self._take(event)
            if answers.is_full:
                await answers.room()
            elif number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return bool(chunk)

    def _take(self, event: Event) -> None:
        if event.id:
            if event.id in self._known:
                return
            self._remember(event.id)
        if event.name == "message":
            self._messages += 1
            self._deliver(event.data)
        elif event.name == "endpoint":
            self.place = event.data

    def _remember(self, id: str) -> None:
        seen = self._seen
        seen.append(id)
        self._seen_size += len(id)
        while len(seen) > _REMEMBERED or self._seen_size > _REMEMBERED_CHARACTERS:
            self._seen_size -= len(seen.popleft())
