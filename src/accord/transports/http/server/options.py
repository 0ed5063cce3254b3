"""The settings of a server over HTTP."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from accord.bindings.http import Form
from accord.stores import EventStore

FindPrincipal: TypeAlias = Callable[[Mapping[str, Any]], Hashable]
"""Returns the caller of a request from its ASGI scope; None for an anonymous caller."""


class HttpOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is reached over HTTP.

    Attributes:
        path: path of the endpoint, below the path where the app is mounted.
        answers: "json" or "stream" for one form always; "auto" sends JSON unless progress, logs or
            requests precede the answer.
        sse: whether the older two-endpoint form is served too, at `/sse` and `/messages`.
        stateless: whether every request is served alone, without sessions.
        public_url: the URL that clients use, if not on loopback.
        allowed_hosts: further Host headers that are served; "*" for all.
        allowed_origins: further Origin headers that are served; "*" for all.
        cors: whether web pages of allowed origins may read responses.
        principal: returns the caller of a request; a session serves only the caller that opened it.
        resumable: whether streams can be resumed.
        events: keeps what was sent on resumable streams; in memory by default.
        retry: milliseconds after which clients should reconnect when a stream is closed.
        sessions: how many may be open; beyond that the longest idle one ends, a caller's own first.
        sessions_per_caller: how many of them one caller may have: one principal, or one address for
            requests without a principal.
        session_idle: seconds after which an unused session ends.
        connections: how many requests and streams may be open.
        listeners: how many streams opened with GET one session may have.
        keep_alive: seconds of silence after which a comment is sent on a stream; as often, the
            tokens of listening clients are verified again.
        body_timeout: seconds without a byte after which an incomplete request is refused; its head
            must be complete within them.
        body_rate: bytes a second that a body must arrive at; it may be slower for three times
            `body_timeout`.
        bodies_bytes: how many bytes of incomplete bodies are kept, of all requests together.
        opening_bytes: how many bytes a message may have before its client has a session.
        write_timeout: seconds after which a client that reads nothing is disconnected.
        unread_bytes: how many bytes all clients together may leave unread; beyond that, those that
            have not read for the longest time are disconnected at once.
        grace: seconds that calls get to finish when the server stops.
    """

    path: str = "/mcp"
    answers: Form = "auto"
    sse: bool = False
    stateless: bool = False
    public_url: str | None = None
    allowed_hosts: Iterable[str] = ()
    allowed_origins: Iterable[str] = ()
    cors: bool = False
    principal: FindPrincipal | None = None
    resumable: bool = True
    events: EventStore | None = None
    retry: int = 1000
    sessions: int = 10_000
    sessions_per_caller: int = 5_000
    session_idle: float = 1800.0
    connections: int = 10_000
    listeners: int = 8
    keep_alive: float = 15.0
    body_timeout: float = 10.0
    body_rate: int = 1024
    bodies_bytes: int = 40 * 1024 * 1024
    opening_bytes: int = 1024 * 1024
    write_timeout: float = 60.0
    unread_bytes: int = 32 * 1024 * 1024
    grace: float = 5.0

    def __post_init__(self) -> None:
        if not self.path.startswith("/") or "?" in self.path or "#" in self.path:
            raise ValueError(f"path is {self.path!r}, expected a path that begins with /, no query")
        if self.answers not in ("auto", "json", "stream"):
            raise ValueError(f"answers is {self.answers!r}, expected 'auto', 'json' or 'stream'")
        for name in ("allowed_hosts", "allowed_origins"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is a string, expected a list of strings")  # noqa: TRY004
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        if self.cors not in (True, False):  # in other frameworks it is a list of origins
            why = "expected True or False; list the origins in allowed_origins"
            raise ValueError(f"cors is {self.cors!r}, {why}")
        for name in _NUMBERS:
            value, may_be_zero = getattr(self, name), name in ("retry", "grace")
            if not (value >= 0 if may_be_zero else value > 0):
                expected = "0 or more" if may_be_zero else "more than 0"
                raise ValueError(f"{name} is {value!r}, expected {expected}")
        if self.sse and self.stateless:
            raise ValueError("sse needs sessions, which stateless turns off")


_NUMBERS = [name for name, kind in HttpOptions.__annotations__.items() if kind in (int, float)]
