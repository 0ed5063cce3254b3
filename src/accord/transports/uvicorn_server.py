"""uvicorn, with an end to every wait: for a head, for a reader, for the last call."""

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from accord.errors import TransportError

__all__ = ["BoundedServer", "listen", "serve"]

# What must be left for files and connections of the server's own.
_FILES_SPARED: Final = 64
_HEAD_MOST: Final = 64 * 1024
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_REFUSAL: Final = (
    b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    b"connection: close\r\n\r\n%b"
)
_ERROR: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"%b"}}'


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is given up when its client takes too long to say or to read something."""

    connections_most = 10_000
    _head_since: float | None = None
    _head_size = 0
    _paused_since: float | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._head_since = self.loop.time()
        if len(self.connections) > self.connections_most:
            self._refuse(b"503 Service Unavailable", b"too many connections (connections)")

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self._head_since is not None:
            self._head_size += len(data)
            if self._head_size > _HEAD_MOST:
                self._refuse(
                    b"431 Request Header Fields Too Large", b"headers exceed %d bytes" % _HEAD_MOST
                )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_since = self.loop.time()
        self._head_size = 0

    def on_headers_complete(self) -> None:
        self._head_since = None
        super().on_headers_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._paused_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._paused_since = None

    def tick(self, now: float, *, head_timeout: float, write_timeout: float) -> None:
        """Give up what takes too long."""
        if self._head_since is not None and now - self._head_since > head_timeout:
            self._refuse(b"408 Request Timeout", b"the head did not arrive in time (body_timeout)")
        elif self._paused_since is not None and now - self._paused_since > write_timeout:
            self.transport.abort()

    def _refuse(self, status: bytes, why: bytes) -> None:
        if not self.transport.is_closing():
            body = _ERROR % why
            self.transport.write(_REFUSAL % (status, len(body), body))
            self.transport.close()


class BoundedServer(uvicorn.Server):
    """Runs an app until a signal comes; lets calls finish, and then really ends."""

    def __init__(self, config: uvicorn.Config, app: Any) -> None:
        super().__init__(config)
        self._app = app

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            now, options = self._app.now(), self._app.options
            for connection in list(self.server_state.connections):
                if isinstance(connection, BoundedProtocol):
                    connection.tick(
                        now,
                        head_timeout=options.body_timeout,
                        write_timeout=options.write_timeout,
                    )
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._app.finish()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals and give them back; whoever sent one has got what they wanted."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listen(host: str, port: int) -> list[socket.socket]:
    """Open the sockets for an address: one of each family that it has.

    Raises:
        TransportError: that is not possible.
    """
    opened: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, _, _, _, address in dict.fromkeys(found):
            # Any free port, but the same for all.
            free = opened[0].getsockname()[1] if opened else port
            made = socket.create_server((*address[:1], free), family=family, backlog=2048)
            # asyncio sends at once only on sockets that name their protocol. Otherwise the second
            # part of a response waits for the client to confirm the first, some 40 ms.
            kind = (family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
            opened.append(socket.socket(*kind, fileno=made.detach()))
    except OSError as error:
        for each in opened:
            each.close()
        why = error.strerror or str(error)
        raise TransportError(f"cannot listen on {host}:{port}: {why.lower()}") from None
    return opened


def _connections_most(wanted: int) -> int:
    with suppress(ImportError):
        import resource

        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft > 0:
            return max(1, min(wanted, soft - _FILES_SPARED))
    return wanted


def serve(app: Any, sockets: list[socket.socket]) -> None:
    """Serve an app on open sockets until a signal comes."""
    options = app.options

    class Protocol(BoundedProtocol):
        connections_most = _connections_most(options.connections)

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, round(options.grace)),
    )
    with suppress(KeyboardInterrupt):
        BoundedServer(config, app).run(sockets)
