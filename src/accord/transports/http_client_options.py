"""How a client sends HTTP requests: settings."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

if TYPE_CHECKING:
    from ssl import SSLContext

__all__ = ["HttpClientOptions", "HttpHeaders"]

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
        proxy: the URL of a proxy; by default what the environment says, "" for none.
        verify: whether certificates are checked; or an `ssl.SSLContext` that says whom to trust
            and, where the server wants to know, who we are.
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
