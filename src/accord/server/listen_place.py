"""Where a server listens: its addresses, and its certificate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from socket import socket
    from ssl import SSLContext

    from accord.http.server.app import HttpApp
    from accord.server.core import ServerCore


class ListenPlace(msgspec.Struct, kw_only=True):
    """Where a server listens, as `Server.run` documents it.

    Raises:
        ValueError: an address is malformed, or settings exclude each other.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    listen: str | Sequence[str] | None = None
    socket_mode: int = 0o660
    certificate: Any = None
    key: Any = None
    key_password: str | None = None
    tls: Any = None

    def __post_init__(self) -> None:
        from accord.http.server.sockets import split_address

        for each in self.addresses or ():
            split_address(each)
        if self.tls is not None and self.certificate is not None:
            raise ValueError("tls is a context with its certificate; leave out certificate and key")
        if self.certificate is None and (self.key is not None or self.key_password is not None):
            raise ValueError("key is the key of a certificate; name that too: certificate='...'")

    @property
    def addresses(self) -> tuple[str, ...] | None:
        """Those to listen on; None for the host and the port."""
        given = self.listen
        if given is None:
            return None
        return (given,) if isinstance(given, str) else tuple(given)

    def open_sockets(self) -> "list[socket]":
        """Open the sockets.

        Raises:
            TransportError: an address cannot be listened on.
        """
        from accord.http.server import sockets

        if self.addresses is None:
            return sockets.listen(self.host, self.port)
        return sockets.listen_on(self.addresses, mode=self.socket_mode)

    def load_tls(self) -> "SSLContext | None":
        """Return what serves HTTPS; None for HTTP.

        Raises:
            TransportError: the certificate or the key cannot be used.
        """
        if self.certificate is None:
            context: SSLContext | None = self.tls
            return context
        from accord.http.server.tls import load_certificate

        return load_certificate(self.certificate, self.key, self.key_password)


def describe_place(
    server: "ServerCore", app: "HttpApp", sockets: "list[socket]", *, is_tls: bool
) -> str:
    """Say where a server is served."""
    from accord.http.server.endpoint import STREAM

    def places(path: str) -> str:
        return " and ".join(_url(each.getsockname(), path, is_tls=is_tls) for each in sockets)

    older = f", and in the older form at {places(STREAM)}" if app.options.sse else ""
    return f"{server.info.name} is served at {places(app.options.path)}{older}"


def _url(address: Any, path: str, *, is_tls: bool) -> str:
    if not isinstance(address, tuple):  # that of a Unix socket is its path
        shown = address.decode() if isinstance(address, bytes) else address
        return f"{path} on unix:{shown}"
    host, port = address[:2]
    bracketed = f"[{host}]" if ":" in host else host
    return f"{'https' if is_tls else 'http'}://{bracketed}:{port}{path}"


def is_reached_by_others(sockets: "list[socket]") -> bool:
    """Whether other machines can connect to one of the sockets."""
    from ipaddress import ip_address

    names = [each.getsockname() for each in sockets]
    return any(isinstance(each, tuple) and not ip_address(each[0]).is_loopback for each in names)
