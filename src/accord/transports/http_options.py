"""How a server is reached over HTTP: settings."""

from typing import Literal

import msgspec


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached over HTTP.

    Attributes:
        path: of the endpoint, within where the app is mounted.
        answers: "auto" answers as JSON unless there is more to say; "json" and "stream" always so.
        sse: whether the older two-endpoint form is served too, at `/sse` and `/messages`.
        stateless: whether every request stands alone, without sessions.
        public_url: where clients reach it, if not on loopback.
        allowed_hosts: further Host headers that are served; "*" for all.
        allowed_origins: further Origin headers that are served; "*" for all.
        cors: whether browsers of allowed origins may read answers.
        session_idle: seconds after which an unused session ends.
        sessions: how many may be open.
        keep_alive: seconds of silence after which a stream gets a comment.
        grace: seconds that calls get to finish when the server stops.
        body_timeout: seconds within which a request's body must have arrived.
        retry: milliseconds after which clients should come back when a stream is closed.
        resumable: whether streams can be resumed.
    """

    path: str = "/mcp"
    answers: Literal["auto", "json", "stream"] = "auto"
    sse: bool = False
    stateless: bool = False
    public_url: str | None = None
    allowed_hosts: frozenset[str] = frozenset()
    allowed_origins: frozenset[str] = frozenset()
    cors: bool = False
    session_idle: float = 1800.0
    sessions: int = 10_000
    keep_alive: float = 15.0
    grace: float = 5.0
    body_timeout: float = 30.0
    retry: int = 1000
    resumable: bool = True
