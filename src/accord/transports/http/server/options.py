"""How a server is reached over HTTP: settings."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from accord.bindings.http import Form
from accord.stores.events import EventStore

__all__ = ["HttpOptions", "Principal"]

Principal: TypeAlias = Callable[[Mapping[str, Any]], Hashable]
"""Says who sends a request, from its ASGI scope; None is nobody in particular."""


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
        principal: says who sends a request; a session serves nobody but whoever opened it.
        resumable: whether streams can be resumed.
        events: keeps what was sent on resumable streams; within the process by default.
        retry: milliseconds after which clients should come back when a stream is closed.
        sessions: how many may be open; beyond that the longest idle one ends, a caller's own first.
        sessions_per_caller: how many of them one caller may have: one principal, or one address
            where requests have no principal.
        session_idle: seconds after which an unused session ends.
        connections: how many requests and streams may be under way.
        listeners: how many streams of its own one session may have open.
        keep_alive: seconds of silence after which a stream gets a comment; as often, the tokens of
            those who listen are verified again.
        body_timeout: seconds without a byte after which an incomplete request is refused; its head
            must be complete within them.
        body_rate: bytes a second that a body must arrive at; it may be slower for three times
            `body_timeout`.
        bodies_bytes: how many bytes of incomplete bodies are kept, of all requests together.
        opening_bytes: how many bytes a message may have as long as there is no session for it.
        write_timeout: seconds after which a client that reads nothing is let go.
        unread_bytes: how many bytes all clients together may leave unread; beyond that, those that
            have read nothing for longest are let go at once.
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
    principal: Principal | None = None
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
            raise ValueError(f"path is {self.path!r}, expected one that begins with /, no query")
        if self.answers not in ("auto", "json", "stream"):
            raise ValueError(f"answers is {self.answers!r}, expected 'auto', 'json' or 'stream'")
        for name in ("allowed_hosts", "allowed_origins"):
            if isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is one text, expected a list of them")  # noqa: TRY004
            msgspec.structs.force_setattr(self, name, tuple(getattr(self, name)))
        if self.cors not in (True, False):  # elsewhere that is where origins are listed
            why = "expected True or False; allowed_origins says whose pages"
            raise ValueError(f"cors is {self.cors!r}, {why}")
        for name in _POSITIVE:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected more than 0")
        for name in ("retry", "grace"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}, expected 0 or more")
        if self.sse and self.stateless:
            raise ValueError("sse needs sessions, which stateless turns off")


_POSITIVE = (
    "sessions",
    "sessions_per_caller",
    "session_idle",
    "connections",
    "listeners",
    "keep_alive",
    "body_timeout",
    "body_rate",
    "bodies_bytes",
    "opening_bytes",
    "write_timeout",
    "unread_bytes",
)
