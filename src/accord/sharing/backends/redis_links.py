"""Connections to servers of Redis or Valkey, which heal by themselves."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from accord.errors import ConfigurationError
from accord.sharing.backends.redis_connection import (
    Broken,
    EngineError,
    OnLost,
    OnPush,
    RedisConnection,
    explain,
)
from accord.sharing.backends.redis_url import Address, RedisCredentials, RedisTarget

__all__ = ["LinkClosed", "RedisLink", "connect"]

# Seconds between attempts to connect: the first ones are quick, for servers that restart.
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4)


class LinkClosed(Exception):
    """The link is not used any more: the cluster has another layout."""


Connect: TypeAlias = Callable[[OnLost], Awaitable[RedisConnection]]


async def connect(
    target: RedisTarget,
    address: Address,
    *,
    timeout: float,
    on_lost: OnLost | None = None,
    on_push: OnPush | None = None,
    is_sentinel: bool = False,
) -> RedisConnection:
    """Connect to one server and sign in.

    Raises:
        Broken: it could not be reached, or refuses the connection; says why.
    """
    loop = asyncio.get_running_loop()
    connection = RedisConnection(timeout=timeout, on_lost=on_lost, on_push=on_push)
    try:
        async with asyncio.timeout(timeout):
            if address.port:
                name = address.host if target.tls is not None else None
                await loop.create_connection(
                    lambda: connection, *address, ssl=target.tls, server_hostname=name
                )
            else:
                await loop.create_unix_connection(lambda: connection, address.host)
            credentials = target.sentinel_credentials if is_sentinel else target.credentials
            await _sign_in(connection, credentials, db=0 if is_sentinel else target.db)
    except BaseException as error:
        # Closed first, so that it does not count as one that was lost.
        connection.close()
        if isinstance(error, OSError | Broken | EngineError | ConfigurationError):
            raise Broken(explain(error, timeout=timeout)) from None
        raise
    return connection


async def _sign_in(connection: RedisConnection, credentials: RedisCredentials, *, db: int) -> None:
    if words := credentials.read():
        try:
            await connection.call(b"AUTH", *words)
        except EngineError as error:
            # Not the text, which may repeat what was sent.
            raise Broken(f"it refuses the user or the password ({error.code})") from None
    if db:
        await connection.call(b"SELECT", b"%d" % db)
    try:
        await connection.call(b"PING")
    except EngineError as error:
        if error.code == "NOAUTH":
            raise Broken("it asks for a password, and the URL has none") from None
        raise


class RedisLink:
    """The connection to one server, which is made again when it breaks.

    Args:
        connect: makes a connection.
        address: where the server is, or is asked for.
        timeout: seconds that an operation waits for the connection. A server that was away for
            longer is not waited for: operations fail at once until it is back.
        on_trouble: called when the connection broke, or could not be made.
    """

    def __init__(
        self,
        connect: Connect,
        *,
        address: Address,
        timeout: float,
        on_trouble: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self.connection: RedisConnection | None = None
        self._connect = connect
        self._timeout = timeout
        self._on_trouble = on_trouble
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._cause = "not connected yet"
        self._down_since: float | None = None
        self._is_closed = False
        self._retired: RedisConnection | None = None

    async def open(self) -> RedisConnection:
        """Connect, with one attempt.

        Raises:
            Broken: the server cannot be reached.
        """
        connection = await self._connect(self._note_loss)
        if connection.ended:  # before the loss could be noted
            raise Broken(connection.ended)
        self.connection = connection
        return connection

    async def wait(self, deadline: float) -> RedisConnection:
        """Wait for the connection.

        Raises:
            Broken: it is not there in time.
            LinkClosed: this link is not used any more.
        """
        while self.connection is None:
            if self._is_closed:
                raise LinkClosed
            left = deadline - self._loop.time()
            if self._down_since is not None:
                left = min(left, self._down_since + self._timeout - self._loop.time())
            if left <= 0:
                raise Broken(self._cause)
            await asyncio.wait({self._start()}, timeout=left)
        return self.connection

    def _note_loss(self, connection: RedisConnection, cause: str) -> None:
        if connection is self.connection:
            self.connection = None
            self._note_trouble(cause)
            if not self._is_closed:
                self._start()

    def _note_trouble(self, cause: str) -> None:
        self._cause = cause
        if self._down_since is None:
            self._down_since = self._loop.time()
        self._on_trouble()

    def _start(self) -> "asyncio.Task[None]":
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._reconnect())
        return self._task

    async def _reconnect(self) -> None:
        attempts = 0
        while True:
            try:
                await self.open()
            except Exception as error:  # an unexpected one must not end the attempts
                self._note_trouble(explain(error, timeout=self._timeout))
            else:
                self._down_since = None
                return
            await asyncio.sleep(_PAUSES[min(attempts, len(_PAUSES) - 1)])
            attempts += 1

    def retire(self) -> None:
        """Let commands that were sent be answered, and take no others; needs a `close`, too."""
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
        self._retired, self.connection = self.connection, None
        if self._retired is not None:
            delay = 0.0 if self._retired.is_idle else self._timeout
            self._loop.call_later(delay, self._retired.close)

    @property
    def is_gone(self) -> bool:
        """Whether it was retired, and the commands that were sent had their time."""
        return self._is_closed and (self._retired is None or bool(self._retired.ended))

    async def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection or self._retired, None
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        if connection is not None:
            connection.close()
            await connection.wait_closed()
