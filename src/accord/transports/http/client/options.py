"""How a client sends HTTP requests: settings."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

if TYPE_CHECKING:
    from ssl import SSLContext

PROXY_SCHEMES: Final = ("http://", "https://")

HttpHeaders: TypeAlias = (
    Mapping[str, str] | Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]
)
"""Headers of every request, or a function that returns them, called for each one."""


class HttpClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How requests are sent.

    Attributes:
        session: an `aiohttp.ClientSession` to use, with its connector, cookies and TLS settings;
            it stays yours to close. It must not limit connections: a call whose server asks back
            needs two.
        sender: anything with a method `send` as `Sender` has, in place of ours.
        proxy: the URL of a proxy; by default the one that the environment names, "" for none.
        verify: whether certificates are checked; or an `ssl.SSLContext` with the certificates to
            trust and, if the server asks for one, our own.
        connect: seconds to make a connection.
        listen: whether to keep a stream open for messages that belong to no request.
        patience: seconds to keep trying while the server cannot be reached.
    """

    session: Any = None
    sender: Any = None
    proxy: str | None = None
    verify: "bool | SSLContext" = True
    connect: float = 10.0
    listen: bool = True
    patience: float = 15.0

    def __post_init__(self) -> None:
        if self.proxy and not self.proxy.startswith(PROXY_SCHEMES):
            scheme = self.proxy.partition("://")[0][:20]  # the rest may have a password in it
            raise ValueError(f"proxy begins with {scheme!r}, expected http://host:port")
