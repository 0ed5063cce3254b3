"""The streams of messages that carry the answers of a fake server over HTTP."""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from accord.http.rules.stateless import status_of_refusal
from accord.http.server.exchange import Receive, ResponseCut
from accord.trace import HttpFacts
from accord_tools.check.probing.messages import decode_json
from accord_tools.check.probing.raw_connection import RawConnection

if TYPE_CHECKING:
    from accord_tools.check.fake_server.http_transport import ReceivedRequest

JSON_HEAD: Final = {"content-type": "application/json"}
# In place of data: break the connection here.
_DROP: Final = b"drop"


class StreamCut(ResponseCut):
    """Raised to drop a connection within a response."""


class MessageStream:
    """Messages of one stream, which several connections may carry in turn."""

    def __init__(self, name: str, wanted: set[Any] | None) -> None:
        self.name = name
        # The requests that it answers before it ends; None for a stream without an end.
        self.wanted = wanted
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.count = 0

    async def messages(
        self, request: "ReceivedRequest", receive: Receive
    ) -> AsyncGenerator[bytes, None]:
        """Yield messages until every request is answered, or the client disconnects."""
        gone = asyncio.get_running_loop().create_task(_wait_for_disconnect(receive))
        try:
            while self.wanted is None or self.wanted:
                data = await _next_message(self.queue, gone)
                if data is None:
                    return
                if data is _DROP:
                    raise StreamCut
                message = decode_json(data)
                if self.wanted and isinstance(message, dict) and "method" not in message:
                    self.wanted.discard(key_of(message.get("id")))
                yield data
        finally:
            request.was_left = gone.done()
            gone.cancel()


class FakeHttpSession:
    """A session: the streams of its messages."""

    takes_down = True

    def __init__(self, session: str, content_type: str) -> None:
        self._facts = HttpFacts(status=200, headers={"content-type": content_type})
        self.session = session
        self.connection: RawConnection
        # The stream of each request that waits for its answer.
        self.waiting: dict[Any, MessageStream] = {}
        self.standing = MessageStream("0", None)
        self.streams = {"0": self.standing}
        self.is_ended = False

    async def open(self, line: RawConnection) -> None:
        """Do nothing: the client has connected."""

    async def send(self, data: bytes) -> None:
        """Send an answer on the stream of its request, other messages on the standing one."""
        message = decode_json(data)
        is_answer = isinstance(message, dict) and "method" not in message
        stream = self.waiting.get(key_of(message.get("id"))) if is_answer else None
        await self._send_on(stream or self.standing, data)

    async def send_beside(self, id: object, message: object) -> None:
        """Send a message on the stream of a request that waits for its answer."""
        data = message if isinstance(message, bytes) else msgspec.json.encode(message)
        await self._send_on(self.waiting.get(key_of(id), self.standing), data)

    async def _send_on(self, stream: MessageStream, data: bytes) -> None:
        self.connection.log.take("server", data, self.facts_of(data))
        await stream.queue.put(data)

    def facts_of(self, data: bytes) -> HttpFacts:
        """Return the facts about the response that carries a message."""
        return self._facts

    def is_waited_for(self, id: object) -> bool:
        """Return whether a request still has a stream for its answer."""
        return key_of(id) in self.waiting

    def drop(self, id: object = None) -> None:
        """Break the connection of a request's stream, or of the standing one."""
        stream = self.standing if id is None else self.waiting.get(key_of(id), self.standing)
        stream.queue.put_nowait(_DROP)

    async def close(self) -> None:
        """End all streams."""
        self.is_ended = True
        for stream in self.streams.values():
            stream.queue.put_nowait(None)


class StatelessPosts(FakeHttpSession):
    """All requests that stand on their own: each has its stream, and there is no session."""

    def facts_of(self, data: bytes) -> HttpFacts:
        """Return the facts about the response: an error has a status of its own."""
        status = status_of_message(data)
        return self._facts if status == 200 else HttpFacts(status=status, headers=JSON_HEAD)


def key_of(id: object) -> Any:
    return (type(id).__name__, id) if isinstance(id, int | str) else None


def status_of_message(data: bytes) -> int:
    """Return the status with which a message begins a response."""
    message = decode_json(data)
    error = message.get("error") if isinstance(message, dict) else None
    code = error.get("code") if isinstance(error, dict) else None
    return status_of_refusal(code) if isinstance(code, int) else 200


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _next_message(
    queue: "asyncio.Queue[bytes | None]", gone: "asyncio.Task[None]"
) -> bytes | None:
    """Return the next item of a queue; None once the client has disconnected."""
    getting = asyncio.get_running_loop().create_task(queue.get())
    await asyncio.wait({getting, gone}, return_when=asyncio.FIRST_COMPLETED)
    if getting.done():
        return getting.result()
    getting.cancel()
    return None
