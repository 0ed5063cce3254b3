"""One client over HTTP: its protocol session, its streams, and the POSTs that wait for answers."""

import asyncio
import secrets
import time
from typing import Any

from accord.protocol.exchange import Exchange
from accord.transports.streams import Stream


class HttpSession:
    """One client over HTTP: its protocol session and its streams."""

    __slots__ = (
        "app",
        "id",
        "incoming",
        "is_new",
        "one_stream",
        "principal",
        "session",
        "standing",
        "streams",
        "used",
    )

    def __init__(self, app: Any, id: str, state: Any) -> None:
        self.app = app
        self.id = id
        self.used = time.monotonic()
        self.incoming: Post | None = None
        self.standing: Stream | None = None
        self.streams: dict[str, Stream] = {}
        self.principal: Any = None
        self.is_new = False
        self.one_stream = False
        self.session = app.server.session(self.write, state)

    def stream(self, name: str) -> Stream:
        """Make a stream; one that is named by what it answers."""
        store = (self.app.store, self.id) if self.app.options.resumable else None
        return Stream(name, store)

    def listening(self) -> Stream:
        """The stream of messages that stand alone."""
        if self.standing is None:
            self.standing = self.stream("s")
        return self.standing

    def write(self, data: bytes, exchange: Exchange | None) -> None:
        """Put a message on the one stream it belongs to."""
        if exchange is None or exchange.origin is None:
            if self.incoming is not None and exchange is None:
                self.incoming.refusal = data
            else:
                self.listening().append(data)
            return
        post: Post = exchange.origin
        if self.session.is_open(exchange):
            post.say(data)
        else:
            post.answer(data)

    def new_id(self) -> str | None:
        """The id to tell the client, once."""
        if self.is_new:
            self.is_new = False
            return self.id
        return None

    def is_idle(self, before: float) -> bool:
        """Whether nobody has used the session since then and nothing is under way."""
        return self.used < before and not self.session.dispatcher.running

    def close(self) -> None:
        """End the session and its streams."""
        self.session.close()
        for stream in (*self.streams.values(), self.standing):
            if stream is not None:
                stream.end()
        self.app.store.forget(self.id)


class Post:
    """One POST with requests: what has been said on it, and its answer."""

    __slots__ = ("_waiter", "owner", "refusal", "reply", "stream")

    def __init__(self, owner: HttpSession | None) -> None:
        self.owner = owner
        self.refusal: bytes | None = None
        self.reply: bytes | None = None
        self.stream: Stream | None = None
        self._waiter: asyncio.Future[None] | None = None

    def say(self, data: bytes) -> None:
        """Send something before the answer: from now on this is an event stream."""
        self.open_stream().append(data)

    def answer(self, data: bytes) -> None:
        """Send the answer."""
        if self.stream is not None:
            self.stream.append(data)
            self.stream.end()
            if self.owner is not None:
                self.owner.streams.pop(self.stream.name, None)
        self.reply = data
        self._wake()

    def open_stream(self) -> Stream:
        """Return the stream of this POST, opened if it was not."""
        if self.stream is None:
            name = secrets.token_urlsafe(6)
            assert self.owner is not None
            self.stream = self.owner.stream(name)
            self.owner.streams[name] = self.stream
            self._wake()
        return self.stream

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def settled(self) -> None:
        """Wait until there is an answer, or something to say before it."""
        if self.reply is None and self.stream is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
