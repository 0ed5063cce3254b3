"""A TLS handshake on a connection of the listener, before HTTP begins.

`loop.create_server(ssl=...)` would do it out of sight: the listener could not count the handshakes
that hang, nor end them when the server stops.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from accord.runtime.eager import start
from accord.runtime.tasks import Resumed

if TYPE_CHECKING:
    from accord.http.server.listener import HttpListener

log = logging.getLogger("accord.http")


class TlsHandshake(asyncio.Protocol):
    """A connection that becomes an `HttpConnection` once its handshake is complete.

    Args:
        listener: what accepted it.
        context: with the certificate.
    """

    transport: asyncio.Transport

    def __init__(self, listener: "HttpListener", context: ssl.SSLContext) -> None:
        self._listener = listener
        self._context = context
        # What arrives together with the end of the handshake.
        self._early: list[bytes] = []
        self._is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # it is one for reading and writing
        listener = self._listener
        if not listener.begin_handshake(self):
            return
        work = listener.loop.start_tls(
            self.transport,
            self,
            self._context,
            server_side=True,
            ssl_handshake_timeout=listener.handshake_timeout,
        )
        # Begun here, since uvloop may read the client's first bytes before a task begins.
        first = work.send(None)
        start(listener.loop, self._finish(Resumed(work, first)), "tls handshake")

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    async def _finish(self, secured: Awaitable[asyncio.Transport | None]) -> None:
        listener = self._listener
        transport: asyncio.Transport | None = None
        try:
            transport = await secured
        except Exception as error:  # the client speaks something else, is gone or too slow
            log.debug("a TLS handshake failed: %r", error)
        finally:
            listener.end_handshake(self)
        if transport is None or self._is_lost:
            self.transport.abort()
            return
        connection = listener.connection_type(listener)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        for data in self._early:
            connection.data_received(data)
