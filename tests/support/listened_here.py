"""The listener in the loop of a test, and clients that choose every byte and when to leave."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

from accord.http.server.listener import HttpListener
from accord.http.server.running import fastest_loop, serve_asgi
from accord.http.server.sockets import listen_on
from accord.http.settings import setting_of
from support.listened import Answer
from support.waiting import LONG


def run_on(loop: str, work: Coroutine[Any, Any, None]) -> None:
    """Run a test on one of the loops, but not for ever."""

    async def bounded() -> None:
        async with asyncio.timeout(3 * LONG):
            await work

    factory = None if loop == "asyncio" else fastest_loop()
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(bounded())


class Here:
    """An app on a listener of this loop."""

    def __init__(self, app: Any, listener: HttpListener, address: Any) -> None:
        self.app = app
        self.listener = listener
        self.address = address

    async def connect(self) -> "Client":
        """Connect a client."""
        return Client(*await asyncio.open_connection(*self.address))


@asynccontextmanager
async def serving(app: Any, limits: Any = None, **settings: Any) -> AsyncIterator[Here]:
    """Serve an app within a block; one of ours is stopped at its end."""
    sockets = listen_on(("127.0.0.1:0",))
    limits = limits or setting_of(app, "limits")
    make = partial(HttpListener, **settings)
    async with serve_asgi(app, sockets, limits, make) as listener:
        yield Here(app, listener, sockets[0].getsockname())
        if hasattr(app, "finish"):
            await app.finish()
    if hasattr(app, "stop"):
        await app.stop()


class Client:
    """A connection of a client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)

    def leave(self) -> None:
        """Reset the connection."""
        self.writer.transport.abort()

    async def answer(self) -> Answer:
        """Read the next response with its body; a stream up to its end."""
        found = await self.head()
        if found.headers.get("transfer-encoding") == "chunked":
            found.body = b"".join([each async for each in self.chunks()])
        elif "content-length" in found.headers:
            found.body = await self.reader.readexactly(int(found.headers["content-length"]))
        return found

    async def head(self) -> Answer:
        """Read the head of the next response."""
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.partition(": ") for line in lines if line)
        return Answer(int(first.split()[1]), {each[0].lower(): each[2] for each in fields}, b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the chunks of a stream up to its end."""
        while True:
            size = int(await self.reader.readline(), 16)
            data = await self.reader.readexactly(size + 2)
            if not size:
                return
            yield data[:-2]

    async def ask(self, data: bytes) -> Answer:
        """Send a request and read its response."""
        self.send(data)
        return await self.answer()
