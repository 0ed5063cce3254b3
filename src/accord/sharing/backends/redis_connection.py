"""Connections to servers that speak the protocol of Redis (RESP2), on asyncio.

Commands of one moment leave in one write, and answers come in the order of the commands, so that
one connection serves all operations of a process. That costs a fifth of the processor time that a
pool of connections does, which is why this is not a general client. A link is a connection that is
made again when it breaks.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from accord.errors import ConfigurationError
from accord.sharing.backends.urls import Address, RedisCredentials, RedisTarget

__all__ = [
    "Broken",
    "EngineError",
    "LinkClosed",
    "OnLost",
    "OnPush",
    "RedisConnection",
    "RedisLink",
    "ReplyParser",
    "connect",
    "explain",
    "pack",
]

# More than any line of the protocol has; what is longer comes from another kind of server.
_LINE: Final = 64 * 1024
# Several times what a client may send at once, which is the most that a value holds.
_VALUE_MOST: Final = 64 * 1024 * 1024
# A page of a log has up to a thousand values.
_REPLY_MOST: Final = 128 * 1024 * 1024
# Those of our scripts have three levels.
_DEPTH_MOST: Final = 16
# Parts of the time limit after which the oldest command is looked at.
_LOOKS: Final = 8
# Seconds between attempts to connect: the first ones are quick, for servers that restart.
_PAUSES: Final = (0.02, 0.05, 0.1, 0.2, 0.4)
_SIMPLE, _ERROR, _NUMBER, _BULK, _ARRAY = b"+-:$*"


class Broken(Exception):
    """The connection failed, or could not be made; the text says why."""


class EngineError(Exception):
    """An error that the server answered with; `code` is its first word."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code, _, self.rest = text.partition(" ")


def explain(error: BaseException, *, timeout: float) -> str:
    """Say why a connection failed, in words for an operator."""
    if isinstance(error, Broken | EngineError):
        return str(error)
    if isinstance(error, TimeoutError) and not error.strerror:
        return f"no answer within {timeout:g} s"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return "its host name cannot be resolved"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return f"{type(error).__name__}: {error}"


def pack(*words: bytes) -> bytes:
    """Encode a command."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%b\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


class ReplyParser:
    """Decodes replies from the pieces in which they arrive."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._needed = 0
        self._arrays: list[tuple[list[Any], int]] = []
        self._taken = 0

    def feed(self, data: bytes) -> list[Any]:
        """Return the replies that are complete now; errors are values, too.

        Raises:
            Broken: the bytes are not of this protocol, or the reply is too large.
        """
        if self._pieces:
            self._pieces.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._pieces)
        replies: list[Any] = []
        start = self._parse(data, replies)
        self._taken = 0 if replies or not self._arrays else self._taken + start
        if self._taken > _REPLY_MOST:
            raise Broken(f"it sends a reply of more than {_REPLY_MOST} bytes")
        self._pieces = [data[start:]] if start < len(data) else []
        self._size = len(data) - start
        return replies

    def _parse(self, data: bytes, replies: list[Any]) -> int:
        """Decode what is complete; return where the rest begins."""
        start, size, arrays = 0, len(data), self._arrays
        self._needed = 0
        value: Any
        while start < size:
            end = data.find(b"\r\n", start)
            if end < 0:
                if size - start > _LINE:
                    raise Broken("it does not speak the protocol of Redis")
                break
            kind, line = data[start], data[start + 1 : end]
            begin = end + 2
            if kind == _BULK:
                length = _value_length(line)
                stop = begin + length
                if length >= 0 and size < stop + 2:
                    self._needed = stop + 2 - start
                    break
                value, start = (data[begin:stop], stop + 2) if length >= 0 else (None, begin)
            elif kind == _ARRAY:
                length, start = _number(line), begin
                if length > 0:
                    self._begin_array(length)
                    continue
                value = None if length < 0 else []
            else:
                value, start = _read_line(kind, line), begin
            while arrays:
                items, length = arrays[-1]
                items.append(value)
                if len(items) < length:
                    break
                arrays.pop()
                value = items
            else:
                replies.append(value)
        return start

    def _begin_array(self, length: int) -> None:
        if len(self._arrays) == _DEPTH_MOST:
            raise Broken("it sends a reply that nests too deep")
        self._arrays.append(([], length))


def _number(line: bytes) -> int:
    try:
        return int(line)
    except ValueError:
        raise Broken("it does not speak the protocol of Redis") from None


def _value_length(line: bytes) -> int:
    length = _number(line)
    if length > _VALUE_MOST:
        raise Broken(f"it sends a value of {length} bytes, more than {_VALUE_MOST}")
    return length


def _read_line(kind: int, line: bytes) -> Any:
    if kind == _NUMBER:
        return _number(line)
    if kind == _SIMPLE:
        return line
    if kind == _ERROR:
        return EngineError(line.decode(errors="replace"))
    raise Broken("it does not speak the protocol of Redis")


OnLost: TypeAlias = Callable[["RedisConnection", str], None]
"""Called once when a connection is gone, with the reason."""
OnPush: TypeAlias = Callable[[Any], None]
"""Called with each reply that no command waits for."""


class _Waiting(NamedTuple):
    reply: "asyncio.Future[Any]"
    deadline: float


class RedisConnection(asyncio.Protocol):
    """A connection that carries many commands at once.

    Args:
        timeout: seconds after which a server that does not answer counts as gone.
        on_lost: called when the connection breaks, but not when it is closed.
        on_push: called with replies that no command waits for.

    Attributes:
        ended: why it is gone; empty while it is not.
    """

    def __init__(
        self, *, timeout: float, on_lost: OnLost | None = None, on_push: OnPush | None = None
    ) -> None:
        self._timeout = timeout
        self._on_lost = on_lost
        self._on_push = on_push
        self._loop = asyncio.get_running_loop()
        self._parser = ReplyParser()
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[_Waiting] = deque()
        self._unsent: list[bytes] = []
        self._look: asyncio.TimerHandle | None = None
        self._overdue: _Waiting | None = None
        self.ended = ""
        self._is_gone = self._loop.create_future()

    # -- commands

    @property
    def is_idle(self) -> bool:
        """Whether no command waits for its answer."""
        return not self._waiting

    def send(self, packed: bytes, deadline: float) -> "asyncio.Future[Any]":
        """Send a command; return what becomes its reply, or raises Broken.

        An error that the server answers with is returned as an EngineError, not raised.
        """
        reply = self._loop.create_future()
        if self.ended:
            reply.set_exception(Broken(self.ended))
            return reply
        self._waiting.append(_Waiting(reply, deadline))
        self.write(packed)
        if self._look is None:
            self._look = self._loop.call_later(self._timeout / _LOOKS, self._look_at_waiting)
        return reply

    def write(self, packed: bytes) -> None:
        """Send a command whose reply goes to `on_push`."""
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(packed)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is not None:
            self._transport.write(unsent[0] if len(unsent) == 1 else b"".join(unsent))

    async def call(self, *words: bytes) -> Any:
        """Carry out one command.

        Raises:
            Broken: there was no answer.
            EngineError: the server refused it.
        """
        reply = await self.send(pack(*words), self._loop.time() + self._timeout)
        if isinstance(reply, EngineError):
            raise reply
        return reply

    def _look_at_waiting(self) -> None:
        """Fail what waits too long.

        The oldest command gets a second look: if the process itself stood still, its answer may
        have arrived, and be read only after this.
        """
        now, self._look = self._loop.time(), None
        late = [each for each in self._waiting if each.deadline <= now]
        if late and late[0] is self._waiting[0]:
            if late[0] is self._overdue:
                # Answers come in order: behind this one, all others wait.
                self.fail(f"no answer within {self._timeout:g} s")
                return
            self._overdue = late[0]
        for each in late:
            if each is not self._overdue and not each.reply.done():
                each.reply.set_exception(Broken(f"no answer within {self._timeout:g} s"))
        if self._waiting:
            self._look = self._loop.call_later(self._timeout / _LOOKS, self._look_at_waiting)

    # -- the end

    def fail(self, cause: str) -> None:
        """Give the connection up; commands that wait are answered with the cause."""
        if self.ended:
            return
        self.close(cause)
        if self._on_lost is not None:
            self._on_lost(self, cause)

    def close(self, cause: str = "the connection was closed") -> None:
        """Close it."""
        self.ended = self.ended or cause
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._transport is not None:
            self._transport.abort()
        while self._waiting:
            reply = self._waiting.popleft().reply
            if not reply.done():
                reply.set_exception(Broken(self.ended))

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await asyncio.wait({self._is_gone}, timeout=self._timeout)

    # -- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]  # a connection has both directions
        if self.ended:
            transport.abort()  # type: ignore[attr-defined]

    def data_received(self, data: bytes) -> None:
        """Give each reply to the command that waits for it."""
        try:
            replies = self._parser.feed(data)
        except Broken as error:
            self.fail(str(error))
            return
        waiting = self._waiting
        for value in replies:
            if waiting:
                reply = waiting.popleft().reply
                if not reply.done():  # it was cancelled, or waited too long
                    reply.set_result(value)
            elif self._on_push is not None:
                self._on_push(value)

    def connection_lost(self, error: Exception | None) -> None:
        """Give up."""
        cause = "the server closed the connection"
        if error is not None:
            cause = explain(error, timeout=self._timeout)
        self.fail(cause)
        self._transport = None
        self._is_gone.set_result(None)


# -- connections that heal by themselves


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
