"""What tests of Redis and Valkey do with a store."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from accord.errors import Conflict, StoreUnavailable
from accord.sharing.backends.redis_backend import RedisBackend
from accord.sharing.backends.redis_connection import EngineError
from support.valkey import HOST
from support.waiting import LONG, until

Answer: TypeAlias = Callable[[list[bytes]], Any]
"""What a scripted engine says to a command; None for an ordinary answer."""


@asynccontextmanager
async def opened(url: str, **options: Any) -> AsyncIterator[RedisBackend]:
    """Use a server that is there, or will be soon."""
    # A limit that a busy machine does not reach.
    backend = RedisBackend(url, **{"timeout": 10.0, **options})
    await until_works(backend.open)
    try:
        yield backend
    finally:
        await backend.close()


async def until_works(operation: Callable[[], Awaitable[Any]]) -> Any:
    """Try until the store is available."""
    async with asyncio.timeout(LONG):
        while True:
            try:
                return await operation()
            except StoreUnavailable:
                await asyncio.sleep(0.02)


async def in_turn(operations: list[Coroutine[Any, Any, Any]]) -> None:
    """Carry operations out one after the other, until one fails."""
    try:
        while operations:
            await operations.pop(0)
    finally:
        for each in operations:
            each.close()


async def use_everything(backend: RedisBackend, name: str) -> None:
    """Carry each kind of operation out once, with outcomes that differ if it did not work."""
    version = await backend.put(name, b"1", ttl=60)
    with pytest.raises(Conflict) as caught:
        await backend.put(name, b"2", ttl=60, expect=version + 1)
    assert caught.value.record == await backend.get(name)
    assert await backend.touch(name, ttl=60)
    with pytest.raises(Conflict):
        await backend.delete(name, expect=version + 1)
    assert await backend.delete(name, expect=version)
    assert not await backend.delete(name)
    await backend.add(name, ["a", "b"], ttl=60)
    assert sorted(await backend.members(name)) == ["a", "b"]
    assert (await backend.remove(name, ["a", "c"]), await backend.count(name)) == (1, 1)
    notified: list[str] = []
    notify = lambda: notified.append(name)  # noqa: E731
    await backend.follow(name, notify)
    assert await backend.append(name, [b"x", b"y", b"z"], ttl=60, keep=2, notify=[name]) == 3
    await until(lambda: notified)
    await backend.unfollow(name, notify)
    await backend.notify(name)
    assert await backend.seize(name, fence=0)
    page = await backend.read(name)
    assert page is not None
    assert (page.items, page.first, page.last, page.fence) == ([b"y", b"z"], 2, 3, 1)
    assert await backend.extend(name, ttl=60)
    await backend.drop(name)
    assert await backend.read(name) is None
    assert (await backend.take(name, cost=1, rate=1, burst=1)).is_granted
    assert not (await backend.take(name, cost=1, rate=0.01, burst=1)).is_granted
    assert await backend.now() > 1_600_000_000


def encode_reply(value: Any) -> bytes:
    """Encode what a server answers."""
    match value:
        case None:
            return b"$-1\r\n"
        case int():
            return b":%d\r\n" % value
        case bytes():
            return b"$%d\r\n%b\r\n" % (len(value), value)
        case EngineError():
            return f"-{value}\r\n".encode()
        case _:
            return b"*%d\r\n" % len(value) + b"".join(map(encode_reply, value))


@asynccontextmanager
async def scripted_engine(answer: Answer) -> AsyncIterator[str]:
    """Run a server that gives the answers of a function, for those that a real one rarely gives."""
    writers = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        try:
            while True:
                count = int((await reader.readuntil(b"\r\n"))[1:])
                words = []
                for _ in range(count):
                    size = int((await reader.readuntil(b"\r\n"))[1:])
                    words.append((await reader.readexactly(size + 2))[:-2])
                reply = answer(words)
                if reply is None:
                    writer.write(b"$0\r\n\r\n" if words[0] == b"INFO" else b"+OK\r\n")
                else:
                    writer.write(encode_reply(reply))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield f"redis://{HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
