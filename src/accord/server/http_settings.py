"""The keywords of `Server.run`, `serve` and `asgi` that say how a server is reached over HTTP.

Only type checkers read them: what checks their values is `HttpOptions`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from ssl import SSLContext

    from accord.http.server.stream import EventStore
    from accord.sharing.backends.backend import Backend


class HttpSettings(TypedDict, total=False):
    """How a server is reached over HTTP; `HttpOptions` documents each setting."""

    path: str
    answers: Literal["auto", "json", "stream"]
    sse: bool
    public_url: str | None
    allowed_hosts: Iterable[str]
    allowed_origins: Iterable[str]
    cors: bool
    principal: Callable[[Mapping[str, Any]], Hashable] | None
    resumable: bool
    events: "EventStore | None"
    retry: int
    sessions: int | bool
    sessions_per_caller: int
    session_idle: float
    connections: int
    connections_per_address: int
    listeners: int
    keep_alive: float
    body_timeout: float
    body_rate: int
    request_timeout: float
    bodies_bytes: int
    opening_bytes: int
    write_timeout: float
    unread_bytes: int
    access_log: bool | Literal["text", "json"]
    metrics: bool
    store: "str | Backend | None"
    store_keys: Sequence[str | bytes] | Literal["none"] | None
    store_patience: float
    lease: float
    stream_entries: int
    retention: float
    stateless: bool  # the former way to say sessions=False


class ListenSettings(HttpSettings, total=False):
    """Where a server listens, and how it is reached; `Server.run` documents the former."""

    workers: int | Literal["auto"]
    listen: str | Sequence[str] | None
    socket_mode: int
    certificate: str | PathLike[str] | None
    key: str | PathLike[str] | None
    key_password: str | None
    tls: "SSLContext | None"
