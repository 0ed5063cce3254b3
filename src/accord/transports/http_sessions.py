"""The sessions of an app: opened, found, ended; a bounded number of them."""

import secrets
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Final

from accord.bindings import http
from accord.transports.http_exchange import HttpExchange
from accord.transports.http_session import HttpSession
from accord.transports.streams import Stream

__all__ = ["HttpSessions"]

# A stream that has come to its end can be resumed for as long as a client may take to come back.
_KEPT: Final = 120.0
# A client that never says anything after `initialize` was no client.
_UNOPENED_MOST: Final = 60.0
# Verifiers take tokens for about as long after their end; a stream that ends at once helps nobody.
_LEEWAY: Final = 60.0
_BUSY: Final = (("retry-after", "5"),)
_UNKNOWN: Final = http.Refusal(404, "the session is unknown or has ended; initialize anew")


class HttpSessions:
    """The sessions of an app."""

    def __init__(self, app: Any) -> None:
        self._app = app
        # By what the header says, so that it need not be decoded.
        self._found: dict[bytes, HttpSession] = {}
        # Those of whom nothing was heard after `initialize`, the oldest first.
        self._unopened: dict[bytes, HttpSession] = {}
        self._retired: deque[tuple[float, HttpSession, int]] = deque()

    def __len__(self) -> int:
        return len(self._found)

    def __contains__(self, key: bytes | None) -> bool:
        return key in self._found

    def __iter__(self) -> Iterator[HttpSession]:
        return iter(list(self._found.values()))

    def principal(self, exchange: HttpExchange) -> Any:
        """Return who sends a request."""
        principal_of = self._app.options.principal
        if principal_of is None:
            return exchange.scope.get("accord.principal")  # which a guard has put there
        return principal_of(exchange.scope)

    def lease(self, exchange: HttpExchange) -> float:
        """Return until when what a request asks for may go on: its token is good no longer."""
        expires_at: float | None = getattr(self.principal(exchange), "expires_at", None)
        if expires_at is None:
            return float("inf")
        left = expires_at - time.time()
        now: float = self._app.now()
        return now + (left if left > 0 else _LEEWAY)

    def find(self, key: bytes, exchange: HttpExchange) -> HttpSession | http.Refusal:
        """Return the session that a request names."""
        session = self._found.get(key)
        principal = self.principal(exchange)
        if session is None or not (
            session.principal is principal or session.principal == principal
        ):
            return _UNKNOWN  # session.end.terminated-404
        session.used = self._app.now()
        if not session.is_opened:
            session.is_opened = True
            self._unopened.pop(key, None)
        return session

    def begin(self, exchange: HttpExchange) -> HttpSession | http.Refusal:
        """Make a session; it counts from when it is kept."""
        if self._app.is_stopping:
            return http.Refusal(503, "the server is stopping", code=-32000, headers=_BUSY)
        most = self._app.options.sessions
        if len(self._found) >= most and not self._evict():
            return http.Refusal(503, f"{most} sessions are open (sessions)", -32000, _BUSY)
        id = secrets.token_urlsafe(24)  # session.id.secure
        return HttpSession(self._app, id, principal=self.principal(exchange))

    def keep(self, session: HttpSession) -> None:
        """Let clients come back to a session."""
        key = session.id.encode()
        self._found[key] = session
        if session.only_stream is None:
            self._unopened[key] = session

    def _evict(self) -> bool:
        """End the oldest session that was never used."""
        for session in self._unopened.values():
            self.end(session)
            return True
        return False

    def end(self, session: HttpSession) -> None:
        """End a session."""
        key = session.id.encode()
        self._found.pop(key, None)
        self._unopened.pop(key, None)
        session.close()

    def retire(self, session: HttpSession, stream: Stream) -> None:
        """Keep a stream that has come to its end for a while."""
        self._retired.append((self._app.now() + _KEPT, session, stream.name))

    def sweep(self, now: float) -> None:
        """End sessions that nobody has used for long; forget streams that nobody came back for."""
        while self._retired and self._retired[0][0] < now:
            _, session, name = self._retired.popleft()
            session.forget_stream(name)
        before = now - self._app.options.session_idle
        for session in self:
            if session.is_idle(before):
                self.end(session)
        for session in list(self._unopened.values()):
            if session.used > now - _UNOPENED_MOST:
                break
            if session.is_idle(now):
                self.end(session)

    def close(self) -> None:
        """End all of them."""
        for session in self:
            self.end(session)
        self._retired.clear()
