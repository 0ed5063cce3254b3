"""TLS for a listener: a certificate and its key, from files, and the handshake before HTTP begins.

`loop.create_server(ssl=...)` would make the handshake out of sight: the listener could not count
those that hang, nor end them when the server stops.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from accord.errors import TransportError
from accord.runtime.eager import start
from accord.runtime.tasks import Resumed

if TYPE_CHECKING:
    from accord.http.server.listener import HttpListener

log = logging.getLogger("accord.http")

File: TypeAlias = str | PathLike[str]
_CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----"
_KEY: Final = "PRIVATE KEY-----"


class _PasswordNeeded(Exception):
    """The key is encrypted, and there is no password."""


def load_certificate(
    certificate: File, key: File | None = None, password: str | None = None
) -> ssl.SSLContext:
    """Return what a server with a certificate needs; TLS 1.2 and later is spoken.

    Args:
        certificate: a PEM file with the certificate, followed by those between it and the root.
        key: a PEM file with its private key; by default it is in the same file.
        password: of a key that is encrypted.

    Raises:
        TransportError: a file cannot be used.
    """
    key = certificate if key is None else key
    _check_file(certificate, "certificate", _CERTIFICATE)
    _check_file(key, "key", _KEY)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A client could make the server work without end, at no cost to itself.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])

    def find_password() -> str:
        # Without this function, OpenSSL would ask for the password on the terminal, and wait.
        if password is None:
            raise _PasswordNeeded
        return password

    try:
        context.load_cert_chain(fspath(certificate), fspath(key), find_password)
    except _PasswordNeeded:
        why = "it is encrypted and there is no password (key_password, or ACCORD_KEY_PASSWORD)"
        raise TransportError(f"cannot use the key {fspath(key)}: {why}") from None
    except ssl.SSLError as error:
        raise TransportError(_explain(error, certificate, key, password)) from None
    return context


def _check_file(file: File, what: str, needed: str) -> None:
    name = fspath(file)
    try:
        text = Path(name).read_text("latin-1")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise TransportError(f"cannot read the {what} {name}: {why}") from None
    if needed not in text:
        raise TransportError(f"cannot use the {what} {name}: there is no {what} in PEM form in it")


def _explain(error: ssl.SSLError, certificate: File, key: File, password: str | None) -> str:
    # The second is what OpenSSL says of a key of another kind, such as EC instead of RSA.
    if error.reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):
        return f"the key {fspath(key)} does not belong to the certificate {fspath(certificate)}"
    if password is not None and error.reason in (None, "BAD_DECRYPT", "PEM_LIB"):
        return f"cannot use the key {fspath(key)}: the password is wrong, or the file is damaged"
    why = error.reason or str(error)
    names = {fspath(certificate): None, fspath(key): None}
    return f"cannot use {' and '.join(names)}: {why.lower().replace('_', ' ')}"


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
