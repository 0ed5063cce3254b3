"""Notifications by publish and subscribe: one connection hears those of all processes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from accord.sharing.backends.backend import OnNotify
from accord.sharing.backends.engine import Followers
from accord.sharing.backends.redis_connection import (
    Broken,
    EngineError,
    OnLost,
    OnPush,
    RedisConnection,
    explain,
    pack,
)

__all__ = ["RedisNotifications"]

# Seconds between attempts to connect.
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
_PING: Final = pack(b"PING")

ConnectNotifications: TypeAlias = Callable[[OnLost, OnPush], Awaitable[RedisConnection]]


class _Sent:
    """A command of this connection; the topic is None for one that asks whether it is there."""

    __slots__ = ("topic",)

    def __init__(self, topic: str | None) -> None:
        self.topic = topic


class RedisNotifications:
    """Follows topics over one connection, which is made with the first of them.

    When the connection breaks, it is made again, all topics are subscribed to again, and then
    everything is called once, as notifications were lost.

    Args:
        connect: makes a connection.
        prefix: what the names of channels begin with.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, connect: ConnectNotifications, *, prefix: bytes, timeout: float) -> None:
        self._connect = connect
        self._prefix = prefix
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._followers = Followers()
        self._connection: RedisConnection | None = None
        self._task: asyncio.Task[None] | None = None
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._cause = "not connected yet"
        self._heard = False
        # Commands of this connection, whose answers come in this order.
        self._sent: deque[_Sent] = deque()
        # What is followed, with the last subscription to it.
        self._topics: dict[str, _Sent] = {}
        # Topics whose last subscription is not confirmed, with the callers that wait for it.
        self._unconfirmed: dict[str, list[asyncio.Future[None]]] = {}
        self._is_resuming = False

    def channel(self, topic: str) -> bytes:
        """Return the name of a topic's channel."""
        return self._prefix + topic.encode()

    async def follow(self, topic: str, on_notify: OnNotify) -> None:
        """Call something whenever a topic is notified; returns when the server has confirmed it.

        Raises:
            Broken: it did not in time.
            EngineError: it refuses.
        """
        self._followers.add(topic, on_notify)
        if topic not in self._topics:
            self._subscribe(topic)
        if topic not in self._unconfirmed:
            return
        if self._task is None:
            self._task = self._loop.create_task(self._supervise())
        confirmed = self._loop.create_future()
        self._unconfirmed[topic].append(confirmed)
        try:
            async with asyncio.timeout(self._timeout):
                await confirmed
        except BaseException as error:
            self.unfollow(topic, on_notify)
            if isinstance(error, TimeoutError):
                raise Broken(self._cause) from None
            raise

    def unfollow(self, topic: str, on_notify: OnNotify) -> None:
        """Call it no more."""
        if not self._followers.discard(topic, on_notify):
            return
        self._unconfirmed.pop(topic, None)
        del self._topics[topic]
        self._send(_Sent(topic), b"UNSUBSCRIBE", self.channel(topic))

    async def close(self) -> None:
        """Close the connection, and call nothing any more."""
        self._followers = Followers()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
            await connection.wait_closed()

    # -- the connection

    async def _supervise(self) -> None:
        attempts = 0
        while True:
            self._lost = self._loop.create_future()
            try:
                connection = await self._connect(self._note_loss, self._receive)
            except Exception as error:  # an unexpected one must not end the supervision
                self._cause = explain(error, timeout=self._timeout)
                await asyncio.sleep(_PAUSES[min(attempts, len(_PAUSES) - 1)])
                attempts += 1
                continue
            attempts = 0
            self._cause = f"no answer within {self._timeout:g} s"
            if not connection.ended:  # before the loss could be noted
                self._begin(connection)
                await self._watch(connection)
                self._is_resuming = True

    def _begin(self, connection: RedisConnection) -> None:
        self._connection = connection
        self._sent.clear()
        for topic in self._topics:
            self._subscribe(topic)
        # Answered after all subscriptions are confirmed.
        self._send(_Sent(None), b"PING")

    async def _watch(self, connection: RedisConnection) -> None:
        """Wait until the connection is lost; ask from time to time whether the server is there."""
        while True:
            self._heard = False
            await asyncio.wait({self._lost}, timeout=self._timeout)
            if self._lost.done():
                return
            if not self._heard:
                connection.fail(f"no answer within {self._timeout:g} s")
                return
            self._send(_Sent(None), b"PING")

    def _note_loss(self, connection: RedisConnection, cause: str) -> None:
        self._connection, self._cause = None, cause
        if not self._lost.done():
            self._lost.set_result(None)

    def _subscribe(self, topic: str) -> None:
        self._topics[topic] = sent = _Sent(topic)
        self._unconfirmed.setdefault(topic, [])
        self._send(sent, b"SUBSCRIBE", self.channel(topic))

    def _send(self, sent: _Sent, *words: bytes) -> None:
        if self._connection is not None:
            self._sent.append(sent)
            self._connection.write(pack(*words))

    # -- what comes

    def _receive(self, reply: Any) -> None:
        self._heard = True
        if isinstance(reply, list) and reply[0] == b"message":
            self._followers.notify((reply[1][len(self._prefix) :].decode(),))
            return
        if not self._sent:
            return
        sent = self._sent.popleft()
        if sent.topic is None:
            if self._is_resuming:
                self._is_resuming = False
                self._followers.notify_all()
        elif self._topics.get(sent.topic) is sent:
            for confirmed in self._unconfirmed.pop(sent.topic, ()):
                if confirmed.done():
                    continue
                if isinstance(reply, EngineError):
                    confirmed.set_exception(reply)
                else:
                    confirmed.set_result(None)
